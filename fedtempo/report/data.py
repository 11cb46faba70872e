"""Data by client: rows for a terminal table, and a picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fedtempo.report.look import SCREEN, Look, add_legend, new_figure, small_size, write_figure
from fedtempo.report.palette import MAX_CATEGORIES, category_colour

_MOST_NAMED = 40
"""Clients whose names are written below their bars."""

_WIDTH, _HEIGHT = 8.0, 3.8


def draw_data(
    names: Sequence[str],
    examples: npt.NDArray[np.int64],
    counts: npt.NDArray[np.int64],
    class_names: Sequence[str],
    trains: npt.NDArray[np.bool_],
    path: Path | str,
    *,
    look: Look = SCREEN,
) -> None:
    """Draw the examples of each client, by class if there are classes, and mark the clients that are tested on.

    names, examples, trains: of each client, (clients,). counts: examples of each class, (clients, classes); with no
    classes, or more than have colours, bars show all examples, and beside them an image shows many classes.
    """
    n_classes = counts.shape[1] if counts.ndim == 2 else 0
    is_image = n_classes > MAX_CATEGORIES
    with look.styled():
        figure = new_figure(*look.size(_WIDTH, _HEIGHT * (2 if is_image else 1)))
        all_axes = figure.subplots(2 if is_image else 1, 1, squeeze=False, sharex=True).ravel()
        axes, places = all_axes[0], np.arange(len(names))
        parts = counts.T if 0 < n_classes <= MAX_CATEGORIES else [examples]
        shown = [name.replace("$", r"\$") for name in class_names] if len(parts) > 1 else [""]
        below = np.zeros(len(names))
        for number, (part, name) in enumerate(zip(parts, shown)):
            axes.bar(places, part, bottom=below, width=0.9, color=category_colour(number), linewidth=0, label=name)
            below += part
        for place in np.flatnonzero(~trains):
            axes.annotate(
                "tested on", (place, below[place]), rotation=90, ha="center", va="bottom", fontsize=small_size()
            )
        axes.set_ylabel("examples")
        axes.margins(x=0.01, y=0.05 if trains.all() else 0.3)
        if is_image:
            image = all_axes[1].imshow(counts.T, cmap="cividis", aspect="auto", interpolation="nearest")
            all_axes[1].set_ylabel("class")
            figure.colorbar(image, ax=list(all_axes), label="examples of a class")
        for each in all_axes:
            each.grid(visible=False)
        last = all_axes[-1]
        if len(names) <= _MOST_NAMED:
            last.set_xticks(places, [name.replace("$", r"\$") for name in names], rotation=90, fontsize=small_size())
        last.set_xlabel("client")
        if len(parts) > 1:
            handles, titles = axes.get_legend_handles_labels()
            add_legend(figure, handles, titles, most=5)
        write_figure(figure, path)
