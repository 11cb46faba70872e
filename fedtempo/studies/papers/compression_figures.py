"""The picture of the study of compression: time to the target against megabytes to the target."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fedtempo.report.figures import new_figure, plain_axes, write_figure
from fedtempo.report.palette import strategy_colours
from fedtempo.studies.papers.compression_costs import CellCosts, Cost
from fedtempo.studies.papers.ranking import median

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLUMNS = 3
_MARKERS = "osD^"


def draw_costs(cells: Sequence[CellCosts], path: Path | str) -> None:
    """Draw one panel per cell and one mark per compression: medians, and lowest to highest over seeds.

    Compressions with which most runs miss the target are named in the corner of the panel.
    """
    columns = min(_COLUMNS, len(cells))
    n_rows = -(-len(cells) // columns)
    figure = new_figure(3.3 * columns + 0.4, 2.9 * n_rows + 0.9)
    panels = figure.subplots(n_rows, columns, squeeze=False)
    titles = list(dict.fromkeys(cost.title for costs in cells for cost in costs.costs))
    colours = strategy_colours(titles)
    marks = {title: _MARKERS[number // len(set(colours.values()))] for number, title in enumerate(titles)}
    for index, costs in enumerate(cells):
        axes = plain_axes(panels[index // columns][index % columns])
        for cost in costs.costs:
            _draw(axes, cost, colours[cost.title], marks[cost.title])
        _finish(axes, costs)
    for index in range(len(cells), n_rows * columns):
        panels[index // columns][index % columns].set_visible(False)
    for title, colour in colours.items():
        panels[0][0].plot([], [], marks[title], color=colour, markersize=5, label=title)
    figure.legend(loc="outside upper left", ncols=min(4, columns + 1), frameon=False, fontsize=7.5)
    figure.supxlabel("megabytes to the target", fontsize=8)
    figure.supylabel("time to the target (s)", fontsize=8)
    write_figure(figure, path)


def _draw(axes: Axes, cost: Cost, colour: str, mark: str) -> None:
    """Draw medians with their ranges; hollow if not every seed reached the target, nothing if most did not."""
    if math.isinf(middle_s := cost.result.median_s):
        return
    times = [time for time in cost.result.times_s if time is not None]
    sent = [mb for mb in cost.mb_to_target if mb is not None]
    middle_mb = median(cost.mb_to_target)
    axes.plot([min(sent), max(sent)], [middle_s, middle_s], color=colour, linewidth=0.9, alpha=0.7)
    axes.plot([middle_mb, middle_mb], [min(times), max(times)], color=colour, linewidth=0.9, alpha=0.7)
    face = colour if cost.result.always_reached else "white"
    axes.plot(middle_mb, middle_s, mark, color=colour, markersize=5, markerfacecolor=face)


def _finish(axes: Axes, costs: CellCosts) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    for axis, set_scale in ((axes.xaxis, axes.set_xscale), (axes.yaxis, axes.set_yscale)):
        set_scale("log")
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
        axis.set_minor_formatter(NullFormatter())
    axes.tick_params(labelsize=7)
    axes.set_title(f"{costs.cell.title}: {costs.cell.goal:.0%}", loc="left", fontsize=8, fontweight="bold")
    if costs.missed:
        text = textwrap.fill("missed: " + ", ".join(costs.missed), 34)
        axes.text(0.98, 0.02, text, transform=axes.transAxes, ha="right", va="bottom", color="0.5", fontsize=6)
