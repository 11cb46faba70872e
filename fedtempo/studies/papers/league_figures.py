"""Pictures of the league, one per fleet: every strategy's time to the target."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedtempo.report.figures import new_figure, plain_axes, write_figure
from fedtempo.studies.papers.standings import Standing, read_standings

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_FIRST, _LEVEL, _LATER, _BESIDE = "#0077BB", "#33BBEE", "#666666", "#EE7733"


def draw_times(facts: Mapping[str, Any], fleet: str, path: Path | str) -> None:
    """Draw one panel per data set and one line per competitor: the median, and lowest to highest over seeds."""
    standings = [standing for standing in read_standings(facts) if standing.fleet == fleet]
    most = max(len(standing.places) for standing in standings)
    figure = new_figure(4.6 * len(standings), 0.19 * most + 1.0)
    panels = figure.subplots(1, len(standings), squeeze=False)[0]
    for axes, standing in zip(panels, standings, strict=True):
        _panel(plain_axes(axes), standing)
        axes.set_xlabel("time to the target (s)", fontsize=8)
    shown = {"first": _FIRST, "level with it": _LEVEL, "later": _LATER, "takes raw examples": _BESIDE}
    for name, colour in shown.items():
        panels[0].plot([], [], "o", color=colour, markersize=5, label=name)
    panels[0].plot([], [], "o", color=_LATER, markerfacecolor="white", markersize=5, label="not on every seed")
    figure.legend(loc="outside upper left", ncols=3 if len(standings) == 1 else 5, frameon=False, fontsize=8)
    write_figure(figure, path)


def _panel(axes: Axes, standing: Standing) -> None:
    for height, place in enumerate(reversed(standing.places)):
        colour = _LATER
        if not place.competes:
            colour = _BESIDE
        elif place.level:
            colour = _FIRST if place.leads else _LEVEL
        known = [time for time in place.times_s if time is not None]
        if not known:
            axes.text(standing.horizon_s, height, "never ", ha="right", va="center", color="0.5", fontsize=7)
            continue
        late = standing.horizon_s if len(known) < len(place.times_s) else max(known)
        axes.plot([min(known), late], [height, height], color=colour, linewidth=1.4)
        middle = min(place.median_s, standing.horizon_s)
        filled = len(known) == len(place.times_s)
        axes.plot(middle, height, "o", color=colour, markersize=5, markerfacecolor=colour if filled else "white")
    axes.set_xscale("log")
    least = min((t for place in standing.places for t in place.times_s if t is not None), default=1.0)
    axes.set_xlim(10 ** math.floor(math.log10(least)), standing.horizon_s * 1.05)
    axes.set_ylim(-0.8, len(standing.places) - 0.2)
    axes.set_yticks(range(len(standing.places)), [place.label for place in reversed(standing.places)], fontsize=7)
    axes.tick_params(axis="x", labelsize=7)
    axes.set_title(f"{standing.title}: {standing.target:.0%}", loc="left", fontsize=8.5, fontweight="bold")
