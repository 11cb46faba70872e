"""Pictures of contests: times to the target by strategy, and times relative to the first entrant's."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fedtempo.report.figures import new_figure, plain_axes, write_figure
from fedtempo.studies.papers.findings import CellFindings, Finding
from fedtempo.studies.papers.ranking import Relation
from fedtempo.studies.papers.standings import Standing

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_BLUE, _LIGHT_BLUE, _GREY, _LIGHT_GREY, _ORANGE = "#0077BB", "#33BBEE", "#666666", "#999999", "#EE7733"
_COLOURS = {
    Relation.FIRST: _BLUE,
    Relation.LEVEL: _LIGHT_BLUE,
    Relation.UNKNOWN: _LIGHT_GREY,
    Relation.LATER: _GREY,
}
_FINDINGS = {
    Finding.SOONER: _BLUE,
    Finding.LEVEL: _LIGHT_BLUE,
    Finding.NO_LATER: _LIGHT_BLUE,
    Finding.LATER: _ORANGE,
    Finding.NOT_SHOWN: _LIGHT_GREY,
}
_COLUMNS = 4
_RATIOS = [2.0**power for power in range(-4, 11)]


def draw_row(standing: Standing, path: Path | str) -> None:
    """Draw times to the target, one line per strategy, and bytes against times.

    Lines go from the lowest to the highest over seeds, with a point at the median. Bytes and times are medians; a line
    joins the strategies that no other beats in both.
    """
    figure = new_figure(10.4, 0.19 * len(standing.places) + 1.2)
    times, costs = figure.subplots(1, 2)
    _times_panel(plain_axes(times), standing)
    times.set_xlabel("time to the target (s)", fontsize=8)
    for name, colour in (_COLOURS | {"takes raw examples": _ORANGE}).items():
        times.plot([], [], "o", color=colour, markersize=5, label=name)
    times.plot([], [], "o", color=_GREY, markerfacecolor="white", markersize=5, label="not on every seed")
    _costs_panel(plain_axes(costs), standing)
    figure.legend(loc="outside upper left", ncols=6, frameon=False, fontsize=8)
    write_figure(figure, path)


def _costs_panel(axes: Axes, standing: Standing) -> None:
    """Draw bytes against times of the strategies whose median run reaches the target."""
    known = [place for place in standing.places if not math.isinf(place.result.median_s)]
    costs = {place.label: (place.result.median_s, place.result.median("mb")) for place in known}
    front = sorted(costs[label] for label in standing.front)
    axes.plot([time for time, _ in front], [mb for _, mb in front], color=_LIGHT_BLUE, linewidth=1.2, zorder=1)
    for place in known:
        time, mb = costs[place.label]
        colour = _BLUE if place.label in standing.front else _GREY if place.ranked else _ORANGE
        axes.plot(time, mb, "o", color=colour, markersize=4)
        axes.annotate(place.label, (time, mb), xytext=(3, 3), textcoords="offset points", fontsize=6, color=colour)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.tick_params(labelsize=7)
    axes.set_xlabel("median time to the target (s)", fontsize=8)
    axes.set_ylabel("MB until then", fontsize=8)
    axes.set_title("no other is sooner with fewer bytes: blue", loc="left", fontsize=8.5, fontweight="bold")


def _times_panel(axes: Axes, standing: Standing) -> None:
    horizon_s = standing.cell.horizon_s
    for height, place in enumerate(reversed(standing.places)):
        colour = _COLOURS[place.relation or Relation.UNKNOWN] if place.ranked else _ORANGE
        known = [time for time in place.result.times_s if time is not None]
        if not known:
            axes.text(horizon_s, height, "never ", ha="right", va="center", color="0.5", fontsize=7)
            continue
        filled = place.result.always_reached
        late = max(known) if filled else horizon_s
        axes.plot([min(known), late], [height, height], color=colour, linewidth=1.4)
        middle = min(place.result.median_s, horizon_s)
        axes.plot(middle, height, "o", color=colour, markersize=5, markerfacecolor=colour if filled else "white")
    axes.set_xscale("log")
    least = min((t for place in standing.places for t in place.result.times_s if t is not None), default=1.0)
    axes.set_xlim(10 ** math.floor(math.log10(least)), horizon_s * 1.05)
    axes.set_ylim(-0.8, len(standing.places) - 0.2)
    _finish(axes, [place.label for place in standing.places], f"{standing.cell.title}: {standing.cell.goal:.0%}", 8.5)


def draw_ratios(labels: Sequence[str], cells: Sequence[CellFindings], path: Path | str) -> None:
    """Draw geometric means over seeds with 95 % intervals; left of 1 is sooner than the cell's first variant.

    labels: the variants, in order. The colour says what is shown of a variant: sooner (blue), level or no later (light
    blue), later (orange), or nothing (grey).
    """
    others = [label for label in labels if any(compared.ratios.get(label) is not None for compared in cells)]
    columns = min(_COLUMNS, len(cells))
    n_rows = -(-len(cells) // columns)
    figure = new_figure(2.9 * columns + 1.2, (0.17 * len(others) + 0.75) * n_rows)
    panels = figure.subplots(n_rows, columns, squeeze=False, sharey=True)
    for index, compared in enumerate(cells):
        _ratios_panel(plain_axes(panels[index // columns][index % columns]), compared, others)
    for index in range(len(cells), n_rows * columns):
        panels[index // columns][index % columns].set_visible(False)
    figure.supxlabel("time to the target over that of the panel's first variant (triangle: at least)", fontsize=8)
    write_figure(figure, path)


def _ratios_panel(axes: Axes, compared: CellFindings, others: Sequence[str]) -> None:
    from matplotlib.ticker import FixedLocator, NullLocator

    for height, label in enumerate(reversed(others)):
        if (relative := compared.ratios.get(label)) is None:
            continue
        colour = _FINDINGS[compared.findings[label]]
        axes.plot([relative.low, relative.high], [height, height], color=colour, linewidth=1.4)
        axes.plot(relative.mean, height, ">" if relative.bound else "o", color=colour, markersize=4)
    axes.axvline(1.0, color="0.7", linewidth=0.8, zorder=0)
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(FixedLocator(_RATIOS))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_locator(NullLocator())
    _finish(axes, others, textwrap.fill(compared.cell.title, 34), 8)


def _finish(axes: Axes, labels: Sequence[str], title: str, size: float) -> None:
    """Write one label per line, the first on top, and the title."""
    axes.set_yticks(range(len(labels)), list(reversed(labels)), fontsize=7)
    axes.tick_params(axis="x", labelsize=7)
    axes.set_title(title, loc="left", fontsize=size, fontweight="bold")
