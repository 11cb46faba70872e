"""Plotly figures with one panel per strategy or one bar per client: calendars, places, data."""

from __future__ import annotations

import html
import math
from typing import Any

import numpy as np
import plotly.graph_objects as go

from fedtempo.record.measures import participation
from fedtempo.record.run import Records
from fedtempo.report import series, words
from fedtempo.report.figure import MOST_CLIENTS, Runs, axes, client_name, evenly, small
from fedtempo.report.palette import MAX_CATEGORIES, category_colour
from fedtempo.report.series import calendar, clients_spread_over_speed, cluster_positions, visit_seconds

_FIRST_SECONDS = 100.0
_ROW_PX = 22
_GAP_PX = 30
_MATRICES_A_ROW = 3
_MOST_CLASSES = 100


def calendars(runs: Runs) -> go.Figure | None:
    """Draw when a few clients, from the fastest to the slowest, are busy under each strategy; first seed only."""
    first = {label: group[0] for label, group in runs.items() if group[0].has_rows}
    if not first:
        return None
    fastest_known = max(first.values(), key=lambda run: int((participation(run) > 0).sum()))
    clients = clients_spread_over_speed(fastest_known)
    figure = go.Figure()
    panels = len(first)
    rows_px, gap_px = _ROW_PX * len(clients), _GAP_PX
    gap = gap_px / (panels * (rows_px + gap_px) - gap_px)
    height = (1 - gap * (panels - 1)) / panels
    layout: dict[str, Any] = {}
    end = 0.0
    lengths = visit_seconds(fastest_known)
    names = [client_name(fastest_known, client) for client in clients]
    ticks = [
        name if math.isnan(lengths[client]) else f"{name}, {lengths[client]:.1f} s"
        for name, client in zip(names, clients)
    ]
    for panel, (label, run) in enumerate(first.items()):
        visits = calendar(run, clients)
        axis = "" if panel == 0 else str(panel + 1)
        top = 1 - panel * (height + gap)
        end = max(end, float(visits.finished.max(initial=0.0)))
        figure.add_trace(
            go.Bar(
                orientation="h",
                base=small(visits.started),
                x=small(visits.finished - visits.started),
                y=visits.row.astype(np.int16),
                width=0.72,
                xaxis="x",
                yaxis=f"y{axis}",
                marker={
                    "color": ["#999999" if g < 0 else category_colour(g) for g in visits.group.tolist()],
                    "line": {"width": 0.7, "color": "rgba(127,127,127,0.5)"},
                },
                customdata=_phases(visits.started, visits.received, visits.computed, visits.finished),
                text=["" if g < 0 else f"group {g}" for g in visits.group.tolist()],
                textposition="none",
                hovertemplate="%{text}<br>from %{base:.1f} s, busy %{x:.1f} s<br>%{customdata}<extra></extra>",
            )
        )
        layout[f"yaxis{axis}"] = {
            "domain": [max(top - height, 0.0), top],
            "tickvals": list(range(len(clients))),
            "ticktext": ticks,
            "range": [len(clients) - 0.4, -0.6],
            "showgrid": False,
            "zeroline": False,
            "fixedrange": True,
            "anchor": "x",
        }
        figure.add_annotation(**_title(label, 0, top))
    if not end:
        return None
    layout["xaxis"] = {
        "title": {"text": "time (s); drag to zoom, double-click for the whole run"},
        "range": [0, min(_FIRST_SECONDS, end)],
        "anchor": f"y{'' if panels == 1 else panels}",
        "zeroline": False,
    }
    figure.update_layout(layout | {"barmode": "overlay", "hovermode": "closest"})
    margin = {"l": 10, "r": 30, "t": _GAP_PX, "b": 50}
    figure.update_layout(height=panels * (rows_px + gap_px) + margin["b"], margin=margin)
    return figure


def labels(run: Records) -> go.Figure | None:
    """Draw the number of examples of each class at each client; None if the run did not record them."""
    histograms = run.facts.get("label_histograms")
    if not histograms:
        return None
    counts = np.asarray(histograms)
    shown = evenly(np.arange(counts.shape[0]), MOST_CLIENTS)
    names = run.facts.get("class_names") or [f"class {c}" for c in range(counts.shape[1])]
    names = [html.escape(str(name)) for name in names]
    clients = [client_name(run, int(client)) for client in shown]
    figure = go.Figure()
    if counts.shape[1] <= MAX_CATEGORIES:
        for c, name in enumerate(names):
            figure.add_trace(
                go.Bar(
                    x=shown,
                    y=counts[shown, c],
                    name=name,
                    text=clients,
                    textposition="none",
                    marker={"color": category_colour(c), "line": {"width": 0}},
                    hovertemplate="%{text}: %{y} examples",
                )
            )
        figure.update_layout(
            axes("client", "examples"), barmode="stack", showlegend=True, bargap=0.15 if len(shown) < 100 else 0
        )
        legend = {"orientation": "h", "traceorder": "normal", "y": 1.02, "yanchor": "bottom"}
        figure.update_layout(hovermode="closest", legend=legend, margin={"t": 60})
    else:
        figure.add_trace(
            go.Heatmap(
                x=shown,
                y=np.arange(counts.shape[1]),
                z=counts[shown].T,
                colorscale="Blues",
                text=np.tile(np.array(names)[:, None], (1, len(shown))),
                hovertemplate="client %{x}, %{text}: %{z} examples<extra></extra>",
                colorbar={"title": {"text": "examples"}, "thickness": 12},
            )
        )
        figure.update_layout(axes("client", "class"))
    return figure


def confusion(runs: Runs) -> go.Figure | None:
    """Draw the confusion matrix of the last evaluation, one panel per strategy, first seed only.

    Colours are shares of a class's examples. None if there is none, or more than `_MOST_CLASSES` classes.
    """
    tables = {label: series.confusion(group[0]) for label, group in runs.items()}
    shown = {label: table for label, table in tables.items() if table is not None and len(table) <= _MOST_CLASSES}
    if not shown:
        return None
    figure = go.Figure()
    columns = min(_MATRICES_A_ROW, len(shown))
    rows = -(-len(shown) // columns)
    gap, gap_up = 0.08, 0.2 / rows
    width, height = (1 - gap * (columns - 1)) / columns, (1 - gap_up * (rows - 1)) / rows
    layout: dict[str, Any] = {}
    for panel, (label, table) in enumerate(shown.items()):
        axis, left = "" if panel == 0 else str(panel + 1), panel % columns * (width + gap)
        top = 1 - panel // columns * (height + gap_up)
        names = [html.escape(name) for name in series.class_names(runs[label][0], len(table))]
        figure.add_trace(
            go.Heatmap(
                x=names,
                y=names,
                z=small(table / np.maximum(table.sum(axis=1, keepdims=True), 1)),
                customdata=table,
                xaxis=f"x{axis}",
                yaxis=f"y{axis}",
                coloraxis="coloraxis",
                hovertemplate="%{y} taken for %{x}: %{customdata} (%{z:.1%} of the class)<extra></extra>",
            )
        )
        layout[f"xaxis{axis}"] = {
            "domain": [left, left + width],
            "anchor": f"y{axis}",
            "title": {"text": "predicted class"},
            "type": "category",
            "showgrid": False,
        }
        layout[f"yaxis{axis}"] = {
            "domain": [max(top - height, 0.0), top],
            "anchor": f"x{axis}",
            "title": {"text": "class" if panel % columns == 0 else ""},
            "type": "category",
            "showgrid": False,
            "autorange": "reversed",
        }
        figure.add_annotation(**_title(words.short(label, 60 // columns), left, top))
    colours = {"colorscale": "Blues", "cmin": 0, "cmax": 1, "colorbar": {"tickformat": ".0%", "thickness": 12}}
    margin = {"t": 30, "l": 60, "r": 10, "b": 60}
    figure.update_layout(layout | {"coloraxis": colours}, height=rows * 380, margin=margin)
    return figure


def _title(text: str, x: float, y: float) -> dict[str, Any]:
    """Return the annotation that names the panel whose upper left corner is at (x, y) of the figure."""
    return {
        "text": f"<b>{html.escape(text)}</b>",
        "xref": "paper",
        "yref": "paper",
        "x": x,
        "y": y,
        "xanchor": "left",
        "yanchor": "bottom",
        "showarrow": False,
        "font": {"size": 13},
    }


def positions(runs: Runs) -> go.Figure | None:
    """Draw how often each cluster serves at each place of a group; one panel per strategy that has sequences."""
    tables = {label: cluster_positions(group[0]) for label, group in runs.items()}
    shown = {label: table for label, table in tables.items() if table is not None}
    if not shown:
        return None
    figure = go.Figure()
    gap = 0.08
    width = (1 - gap * (len(shown) - 1)) / len(shown)
    layout: dict[str, Any] = {}
    for panel, (label, table) in enumerate(shown.items()):
        axis = "" if panel == 0 else str(panel + 1)
        left = panel * (width + gap)
        figure.add_trace(
            go.Heatmap(
                x=np.arange(table.shape[1]) + 1,
                y=np.arange(table.shape[0]),
                z=small(table),
                xaxis=f"x{axis}",
                yaxis=f"y{axis}",
                coloraxis="coloraxis",
                hovertemplate="cluster %{y} at place %{x}: %{z:.1%} of visits there<extra></extra>",
            )
        )
        layout[f"xaxis{axis}"] = {
            "domain": [left, left + width],
            "anchor": f"y{axis}",
            "title": {"text": "place in the group"},
            "showgrid": False,
            "dtick": max(1, table.shape[1] // 10),
        }
        layout[f"yaxis{axis}"] = {
            "anchor": f"x{axis}",
            "title": {"text": "cluster" if panel == 0 else ""},
            "showgrid": False,
            "dtick": max(1, table.shape[0] // 10),
            "autorange": "reversed",
        }
        figure.add_annotation(**_title(words.short(label, 40 // len(shown)), left, 1))
    most = max(float(np.nanmax(table)) for table in shown.values())
    colours = {"colorscale": "Viridis", "cmin": 0, "cmax": most, "colorbar": {"tickformat": ".0%", "thickness": 12}}
    figure.update_layout(layout | {"coloraxis": colours}, height=380, margin={"t": 30, "l": 50, "r": 10, "b": 50})
    return figure


def _phases(started: Any, received: Any, computed: Any, finished: Any) -> list[str]:
    """Return for each visit how long its completed phases took."""
    lines = []
    for parts in np.column_stack([received - started, computed - received, finished - computed]).tolist():
        phases = zip(("receives", "computes", "sends"), parts)
        lines.append(", ".join(f"{name} {part:.2f} s" for name, part in phases if not math.isnan(part)))
    return lines
