"""The league in one picture: times to the target of everyone on every row."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fedtempo.experiments.standings import Standing, judged
from fedtempo.report.figures import plain_axes, write_figure

_FIRST, _LEVEL, _LATER, _BESIDE = "#0077BB", "#33BBEE", "#666666", "#EE7733"


def draw_times(facts: Mapping[str, Any], path: Path | str) -> None:
    """A panel for each row of the league, a line for each competitor: median, and least to greatest over seeds."""
    standings = judged(facts)
    data = list(dict.fromkeys(standing.data for standing in standings))
    fleets = list(dict.fromkeys(standing.fleet for standing in standings))
    most = max(len(standing.places) for standing in standings)
    size = (4.6 * len(data), (0.19 * most + 0.75) * len(fleets) + 0.3)
    figure = Figure(figsize=size, layout="constrained")
    drawn = figure.subplots(len(fleets), len(data), squeeze=False)
    for standing in standings:
        axes = drawn[fleets.index(standing.fleet)][data.index(standing.data)]
        _panel(plain_axes(axes), standing)
    for axes in drawn[-1]:
        axes.set_xlabel("time to the target (s)", fontsize=8)
    shown = {"first": _FIRST, "level with it": _LEVEL, "later": _LATER, "takes raw examples": _BESIDE}
    for name, colour in shown.items():
        drawn[0][0].plot([], [], "o", color=colour, markersize=5, label=name)
    drawn[0][0].plot([], [], "o", color=_LATER, markerfacecolor="white", markersize=5, label="not on every seed")
    figure.legend(loc="outside upper left", ncols=5, frameon=False, fontsize=8)
    write_figure(figure, path)


def _panel(axes: Axes, standing: Standing) -> None:
    for height, place in enumerate(reversed(standing.places)):
        colour = _LATER
        if not place.competes:
            colour = _BESIDE
        elif place.level:
            colour = _FIRST if place.factor == 1.0 else _LEVEL
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
    axes.set_yticks(range(len(standing.places)), [place.label for place in reversed(standing.places)], fontsize=7)
    axes.tick_params(axis="x", labelsize=7)
    axes.set_title(f"{standing.title}: {standing.target:.0%}", loc="left", fontsize=8.5, fontweight="bold")
