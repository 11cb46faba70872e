"""What is beyond the papers in one picture: each variant's time over the first one's, a panel for each world."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from fedtempo.experiments.ranking import ratio
from fedtempo.report.figures import plain_axes, write_figure

_SOONER, _LATER, _OPEN = "#0077BB", "#EE7733", "#999999"
_COLUMNS = 4


def draw_ratios(facts: Mapping[str, Any], path: Path | str) -> None:
    """Geometric means over seeds with 95 % intervals; left of 1 is sooner than the first variant."""
    labels, cells = list(facts["variants"]), facts["cells"]
    first, others = labels[0], labels[1:]
    columns = min(_COLUMNS, len(cells))
    n_rows = -(-len(cells) // columns)
    figure = Figure(figsize=(2.9 * columns + 1.2, (0.17 * len(others) + 0.75) * n_rows), layout="constrained")
    drawn = figure.subplots(n_rows, columns, squeeze=False, sharey=True)
    for place, cell in enumerate(cells):
        axes = plain_axes(drawn[place // columns][place % columns])
        base = next(iter(cell["tried"].values()))["runs"]["target_s"]
        for height, label in enumerate(reversed(others)):
            if label not in cell["tried"]:
                continue
            found = ratio(cell["tried"][label]["runs"]["target_s"], base, cell["horizon_s"])
            colour = _SOONER if found.high < 1 else _LATER if found.low > 1 else _OPEN
            axes.plot([found.low, found.high], [height, height], color=colour, linewidth=1.4)
            axes.plot(found.mean, height, ">" if found.bound else "o", color=colour, markersize=4)
        axes.axvline(1.0, color="0.7", linewidth=0.8, zorder=0)
        axes.set_xscale("log")
        axes.set_yticks(range(len(others)), list(reversed(others)), fontsize=7)
        axes.tick_params(axis="x", labelsize=7)
        axes.set_title(cell["title"], loc="left", fontsize=8, fontweight="bold")
    for place in range(len(cells), n_rows * columns):
        drawn[place // columns][place % columns].set_visible(False)
    figure.supxlabel(f"time to the target over that of {first} (triangle: at least)", fontsize=8)
    write_figure(figure, path)
