"""Pictures of the papers other than curves of runs: lines over a parameter, boxes, bars, points."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fedtempo.report.figures import new_figure, plain_axes, write_figure
from fedtempo.report.palette import strategy_colours


def draw_lines(
    x_values: Sequence[float],
    lines: Mapping[str, Sequence[float]],
    path: Path | str,
    *,
    x: str,
    y: str,
    bands: Mapping[str, Sequence[float]] | None = None,
    marks: Sequence[float] = (),
) -> None:
    """Draw one line per name over the same parameter, without values that are not finite.

    bands: half-widths of error bars. marks: positions of dotted vertical lines.
    """
    figure = new_figure(5.2, 3.4)
    axes = plain_axes(figure.add_subplot())
    for name, colour in strategy_colours(list(lines)).items():
        values = np.where(np.isfinite(lines[name]), lines[name], np.nan)
        if bands is None:
            marker = "o" if len(x_values) < 30 else None
            axes.plot(x_values, values, color=colour, marker=marker, markersize=4, linewidth=1.6, label=name)
        else:
            axes.errorbar(x_values, values, bands[name], color=colour, marker="o", markersize=4, capsize=2, label=name)
    for mark in marks:
        axes.axvline(mark, color="0.5", linestyle=":", linewidth=0.9)
    if all(isinstance(value, int) for value in x_values):
        from matplotlib.ticker import MaxNLocator

        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    if len(lines) > 1:
        figure.legend(loc="outside upper left", ncols=4, frameon=False, fontsize=8)
    write_figure(figure, path)


def draw_boxes(panels: Mapping[str, Mapping[str, Mapping[str, npt.ArrayLike]]], path: Path | str, *, y: str) -> None:
    """Draw groups of boxes (quartiles, whiskers at the 5th and 95th percentiles), one colour per name in a group.

    panels: values by panel name, group and name.
    """
    names = list(dict.fromkeys(name for panel in panels.values() for group in panel.values() for name in group))
    colours = strategy_colours(names)
    figure = new_figure(2.4 * len(panels) + 0.6, 3.2)
    width = 0.8 / len(names)
    for axes, (title, panel) in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels.items(), strict=True):
        plain_axes(axes)
        for place, group in enumerate(panel.values()):
            for number, name in enumerate(names):
                boxes = axes.boxplot(
                    [np.asarray(group[name])],
                    positions=[place + (number - (len(names) - 1) / 2) * width],
                    widths=0.85 * width,
                    whis=(5, 95),
                    showfliers=False,
                    patch_artist=True,
                    medianprops={"color": "white"},
                )
                boxes["boxes"][0].set(facecolor=colours[name], edgecolor=colours[name])
        axes.set_xticks(range(len(panel)), list(panel), fontsize=8)
        axes.set_title(title, loc="left", fontsize=9, fontweight="bold")
    figure.axes[0].set_ylabel(y)
    for name in names:
        figure.axes[0].plot([], [], color=colours[name], linewidth=6, label=name)
    figure.legend(loc="outside upper left", ncols=4, frameon=False, fontsize=8)
    write_figure(figure, path)


def draw_shares(bars: Mapping[str, Mapping[str, float]], path: Path | str, *, y: str) -> None:
    """Draw one bar per name in each group."""
    names = list(dict.fromkeys(name for group in bars.values() for name in group))
    figure = new_figure(5.2, 3.4)
    axes = plain_axes(figure.add_subplot())
    width = 0.8 / len(names)
    for number, (name, colour) in enumerate(strategy_colours(names).items()):
        places = np.arange(len(bars)) + (number - (len(names) - 1) / 2) * width
        axes.bar(places, [group[name] for group in bars.values()], width=0.9 * width, color=colour, label=name)
    axes.set_xticks(range(len(bars)), list(bars))
    axes.set_ylabel(y)
    figure.legend(loc="outside upper left", ncols=4, frameon=False, fontsize=8)
    write_figure(figure, path)


def draw_points(
    points: tuple[npt.ArrayLike, npt.ArrayLike, npt.ArrayLike], path: Path | str, *, x: str, y: str, colour: str
) -> None:
    """Draw one point per (x, y, value), coloured by its value; colour: title of the colour scale."""
    figure = new_figure(5.2, 3.4)
    axes = plain_axes(figure.add_subplot())
    shown = axes.scatter(points[0], points[1], c=points[2], cmap="cividis", s=28)
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    figure.colorbar(shown, label=colour)
    write_figure(figure, path)


def draw_bars(histogram: tuple[npt.ArrayLike, npt.ArrayLike], path: Path | str, *, x: str, y: str) -> None:
    """Draw a histogram as NumPy returns it: counts and bin edges."""
    counts, edges = (np.asarray(part) for part in histogram)
    figure = new_figure(5.2, 3.4)
    axes = plain_axes(figure.add_subplot())
    axes.bar(edges[:-1], counts, width=np.diff(edges), align="edge", color=strategy_colours([""])[""])
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    write_figure(figure, path)
