"""A figure of a fleet: visit times, rates, positions, and availability of its clients."""

from __future__ import annotations

import io
from collections.abc import Callable

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from fedtempo.fleet.availability import Always
from fedtempo.report.figures import plain_axes
from fedtempo.report.palette import category_colour
from fedtempo.runs.config import Config
from fedtempo.runs.world import World, build_world
from fedtempo.studies.fleet import DAY_S, Rows, describe_fleet, windows

_PARTS = ("download", "compute", "upload")
_WIDE = 20
"""Rates that span more than this factor are drawn on a logarithmic axis."""
_MOST_ROWS = 100
"""Number of clients whose availability is drawn, evenly over the fleet."""


class _Shown(Figure):
    """A figure that notebooks show although it was made without pyplot."""

    def _repr_png_(self) -> bytes:
        file = io.BytesIO()
        self.savefig(file, format="png", dpi=100)
        return file.getvalue()


def draw_fleet(config: Config) -> Figure:
    """Draw visit times by phase and their spread, rates and positions if clients have any, and availability."""
    world = build_world(config)
    rows = describe_fleet(config, world)
    panels: list[Callable[[Axes], None]] = [lambda axes: _visits(axes, rows), lambda axes: _spread(axes, rows)]
    if "upload_bps" in rows[0]:
        panels.append(lambda axes: _rates(axes, rows))
    if "x_m" in rows[0]:
        panels.append(lambda axes: _places(axes, rows))
    if not isinstance(config.fleet.availability, Always):
        panels.append(lambda axes: _presence(axes, world, config.run.horizon or DAY_S))
    columns = 2
    lines = -(-len(panels) // columns)
    figure = _Shown(figsize=(9.6, 3.4 * lines), layout="constrained")
    places = figure.subplots(lines, columns, squeeze=False).ravel()
    for axes, draw in zip(places, panels):
        draw(plain_axes(axes))
    for axes in places[len(panels) :]:
        axes.set_axis_off()
    return figure


def _visits(axes: Axes, rows: Rows) -> None:
    order = sorted(rows, key=lambda row: row["visit_s"])
    below = np.zeros(len(order))
    for place, part in enumerate(_PARTS):
        seconds = np.array([row[f"{part}_s"] for row in order])
        axes.bar(np.arange(len(order)), seconds, bottom=below, width=1.0, color=category_colour(place), label=part)
        below += seconds
    axes.set_xlabel("clients, from the fastest to the slowest")
    axes.set_ylabel("mean seconds of a visit")
    axes.legend(frameon=False, fontsize=8)
    axes.margins(x=0)


def _spread(axes: Axes, rows: Rows) -> None:
    seconds = np.sort([row["visit_s"] for row in rows])
    axes.step(seconds, np.arange(1, seconds.size + 1) / seconds.size, where="post", color=category_colour(1))
    median = float(np.median(seconds))
    axes.axvline(median, color="0.5", linewidth=0.9, linestyle="--")
    axes.set_title(f"median {median:.3g} s, slowest {seconds[-1]:.3g} s", loc="left", fontsize=8, color="0.3")
    axes.set_xlabel("mean seconds of a visit")
    axes.set_ylabel("share of clients below")
    axes.set_ylim(0, 1.02)


def _rates(axes: Axes, rows: Rows) -> None:
    down, up = (np.array([row[f"{way}_bps"] for row in rows]) / 1e6 for way in ("download", "upload"))
    axes.plot(down, up, ".", color=category_colour(2), markersize=5)
    for values, scale, axis in ((down, axes.set_xscale, axes.xaxis), (up, axes.set_yscale, axes.yaxis)):
        if values.max() > _WIDE * values.min():
            scale("log")
            axis.set_minor_formatter(NullFormatter())
    axes.set_xlabel("to the client, Mbit/s")
    axes.set_ylabel("from the client, Mbit/s")


def _places(axes: Axes, rows: Rows) -> None:
    x, y, seconds = (np.array([row[name] for row in rows]) for name in ("x_m", "y_m", "visit_s"))
    points = axes.scatter(x, y, c=seconds, cmap="cividis", s=18)
    axes.plot([0], [0], "k^", markersize=6)
    axes.set_aspect("equal")
    axes.set_xlabel("metres from the server")
    axes.figure.colorbar(points, ax=axes, label="mean seconds of a visit")


def _presence(axes: Axes, world: World, until_s: float) -> None:
    n_clients = len(world.clients)
    shown = np.unique(np.linspace(0, n_clients - 1, min(n_clients, _MOST_ROWS)).round().astype(int)).tolist()
    availability = world.fleet.availability
    lines = [
        [(begin, row), (end, row)]
        for row, client in enumerate(shown)
        for begin, end in windows(availability, client, until_s)
    ]
    axes.add_collection(LineCollection(lines, colors=category_colour(3), linewidths=max(1.0, 160 / len(shown))))
    axes.set_xlim(0, until_s)
    axes.set_ylim(-0.5, len(shown) - 0.5)
    axes.set_xlabel("seconds")
    axes.set_ylabel("available clients")
    axes.set_yticks([])
