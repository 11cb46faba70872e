"""Plotly figures in which each strategy has a colour.

Traces of one strategy share a `legendgroup`, by which the page shows and hides them.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from fedtempo.record.client_measures import Kind, names_of
from fedtempo.record.measures import busy_ratios, elapsed_s, participation
from fedtempo.record.metric import LOSS, Measure, Target
from fedtempo.record.run import Records
from fedtempo.report import words
from fedtempo.report.figure import MOST_CLIENTS, Runs, axes, client_name, evenly, small
from fedtempo.report.palette import strategy_colours, strategy_dashes, translucent
from fedtempo.report.series import (
    Band,
    alive_curve,
    changes_of_data,
    class_names,
    class_shares,
    evaluation_curve,
    measured,
    metric_curve,
    ranked_at_clients,
    ranked_busy_ratios,
    staleness_shares,
    visit_seconds,
)


def accuracy(runs: Runs, target: float | None) -> go.Figure | None:
    """Draw the accuracy of the global model over time, or the measure used instead; None if there is none.

    Shows the spread over seeds, and the target.
    """
    measure = measured(runs)
    precise, coarse = (".1%", ".0%") if measure.as_share else (".3f", ".2~f")
    figure = _curves(runs, lambda group: evaluation_curve(group, "accuracy"), f"%{{y:{precise}}}")
    if figure is None:
        return None
    figure.update_layout(_over_time(runs, f"test {measure.name}"))
    figure.update_yaxes(tickformat=coarse)
    if target is not None:
        _add_target(figure, target, measure)
    return figure


def metric(runs: Runs, measure: Measure, target: float | None = None) -> go.Figure | None:
    """Draw a further measure of the global model over time, with its spread over seeds; None if there is none."""
    precise, coarse = (".1%", ".0%") if measure.as_share else (".4g", "~g")
    figure = _curves(runs, lambda group: metric_curve(group, measure.key), f"%{{y:{precise}}}")
    if figure is None:
        return None
    figure.update_layout(_over_time(runs, html.escape(measure.name)))
    figure.update_yaxes(tickformat=coarse)
    if target is not None:
        _add_target(figure, target, measure)
    return figure


def by_class(runs: Runs) -> go.Figure | None:
    """Draw the accuracy of each class at the last evaluation, the mean over seeds; None if there is none."""
    figure = go.Figure()
    colours = strategy_colours(list(runs))
    for label, group in runs.items():
        shares = class_shares(group)
        if shares is None:
            continue
        names = [html.escape(name) for name in class_names(group[0], shares.size)]
        bar = go.Bar(x=names, y=small(shares), marker={"color": colours[label]}, hovertemplate="%{x}: %{y:.1%}")
        _add(figure, label, bar)
    if not figure.data:
        return None
    figure.update_layout(axes("class", "accuracy"))
    figure.update_layout(barmode="group", hovermode="closest")
    figure.update_xaxes(type="category")
    figure.update_yaxes(tickformat=".0%", rangemode="tozero")
    return figure


def at_clients(runs: Runs, kind: Kind) -> go.Figure | None:
    """Draw the accuracy of a kind of model at each client, from the worst client to the best, at the last evaluation.

    None without rows of clients.
    """
    measure = measured(runs)
    precise, coarse = (".1%", ".0%") if measure.as_share else (".3f", ".2~f")
    figure = _curves(runs, lambda group: ranked_at_clients(group, kind), f"%{{y:{precise}}}")
    if figure is None:
        return None
    figure.update_layout(axes("clients, worst first", f"{measure.name} on the client's own test set"))
    figure.update_yaxes(tickformat=coarse)
    return figure


def over_clients(runs: Runs, kind: Kind, target: Target | None = None) -> go.Figure | None:
    """Draw mean (solid) and worst tenth (dotted) over the clients' own test sets over time; None if there are none.

    target: drawn if it is one of these.
    """
    measure, colours = measured(runs), strategy_colours(list(runs))
    precise, coarse = (".1%", ".0%") if measure.as_share else (".3f", ".2~f")
    names = names_of(kind)
    figure = _curves(runs, lambda group: metric_curve(group, names["mean"]), f"mean %{{y:{precise}}}")
    if figure is None:
        return None
    for label, group in runs.items():
        band = metric_curve(group, names["worst-tenth"])
        if band is not None:
            line = {"color": colours[label], "width": 1.8, "dash": "dot"}
            form = f"worst tenth %{{y:{precise}}}"
            x, y = small(band.x), small(band.mean)
            _add(figure, label, go.Scatter(x=x, y=y, mode="lines", line=line, hovertemplate=form))
    figure.update_layout(_over_time(runs, f"{measure.name} over clients"))
    figure.update_yaxes(tickformat=coarse)
    if target is not None and target.measure.key in (names["mean"], names["worst-tenth"]):
        _add_target(figure, target.value, target.measure)
    return figure


def loss(runs: Runs, target: float | None = None) -> go.Figure | None:
    """Draw the loss of the global model over time, with its spread over seeds; None if there is none."""
    figure = _curves(runs, lambda group: evaluation_curve(group, "loss"), "%{y:.3f}")
    if figure is None:
        return None
    figure.update_layout(_over_time(runs, "test loss"))
    if target is not None:
        _add_target(figure, target, LOSS)
    return figure


def busy(runs: Runs) -> go.Figure:
    """Draw the busy ratio of each client, from the busiest to the idlest, with the mean over clients."""
    figure = go.Figure()
    colours = strategy_colours(list(runs))
    for label, group in runs.items():
        band = ranked_busy_ratios(group)
        mean = float(np.mean([busy_ratios(run).mean() for run in group]))
        few = band.x.size < MOST_CLIENTS
        colour = colours[label]
        _add(
            figure,
            label,
            go.Scatter(
                x=small(band.x),
                y=small(band.mean),
                mode="lines+markers" if few else "lines",
                line={"color": colour, "width": 1.5, "shape": "hvh" if few else "linear"},
                marker={"color": colour, "size": 5},
                hovertemplate="%{y:.1%}",
            ),
        )
        _add(
            figure,
            label,
            go.Scatter(
                x=[1.0, band.x[-1]],
                y=[mean, mean],
                mode="lines",
                line={"color": colour, "width": 1, "dash": "dot"},
                hoverinfo="skip",
            ),
        )
    figure.update_layout(axes("clients, busiest first", "busy share of the run"))
    figure.update_yaxes(tickformat=".0%", rangemode="tozero")
    figure.update_xaxes(rangemode="tozero")
    return figure


def alive(runs: Runs) -> go.Figure | None:
    """Draw groups alive over time; None if no run has rows."""
    figure = _curves(runs, alive_curve, "%{y:.1f}")
    if figure is not None:
        figure.update_layout(_over_time(runs, "groups alive"))
    return figure


def staleness(runs: Runs) -> go.Figure | None:
    """Draw the share of commits by staleness, for the strategies that have any; None if none has."""
    figure = go.Figure()
    colours = strategy_colours(list(runs))
    for label, group in runs.items():
        edges, shares, width = staleness_shares(group)
        if edges.size < 2:
            continue
        _add(
            figure,
            label,
            go.Bar(
                x=small(edges + (width - 1) / 2),
                y=small(shares),
                width=width,
                marker={"color": translucent(colours[label], 0.6), "line": {"width": 0}},
                hovertemplate="staleness %{x}: %{y:.1%} of commits",
            ),
        )
    if not figure.data:
        return None
    figure.update_layout(axes("staleness (commits)", "share of commits"))
    figure.update_layout(barmode="overlay", bargap=0)
    figure.update_yaxes(tickformat=".0%")
    return figure


def who_takes_part(runs: Runs) -> go.Figure | None:
    """Draw each client's visits against their mean length, first seed only; None if no run has rows."""
    figure = go.Figure()
    colours = strategy_colours(list(runs))
    for label, group in runs.items():
        if not group[0].has_rows:
            continue
        lengths, counts = visit_seconds(group[0]), participation(group[0])
        shown = evenly(np.argsort(lengths, kind="stable"), 2 * MOST_CLIENTS)
        _add(
            figure,
            label,
            go.Scatter(
                x=small(lengths[shown]),
                y=small(counts[shown]),
                mode="markers",
                marker={"color": colours[label], "size": 7, "opacity": 0.75},
                text=[client_name(group[0], int(client)) for client in shown],
                hovertemplate="%{text}: %{y} visits of %{x:.2f} s on average",
            ),
        )
    if not figure.data:
        return None
    figure.update_layout(axes("mean length of a client's visits (s)", "visits done"))
    figure.update_layout(hovermode="closest")
    figure.update_yaxes(rangemode="tozero")
    figure.update_xaxes(rangemode="tozero")
    return figure


def _curves(runs: Runs, curve: Callable[[Sequence[Records]], Band | None], value: str) -> go.Figure | None:
    """Draw the mean over seeds as a line, with a band from lowest to highest; None if there is no curve."""
    figure = go.Figure()
    colours, dashes = strategy_colours(list(runs)), strategy_dashes(list(runs))
    for label, group in runs.items():
        band = curve(group)
        if band is None:
            continue
        if len(group) > 1:
            has_value = ~np.isnan(band.mean)
            outline = {
                "x": small(np.concatenate([band.x[has_value], band.x[has_value][::-1]])),
                "y": small(np.concatenate([band.high[has_value], band.low[has_value][::-1]])),
            }
            _add(
                figure,
                label,
                go.Scatter(
                    **outline,
                    mode="lines",
                    line={"width": 0},
                    fill="toself",
                    fillcolor=translucent(colours[label], 0.18),
                    hoverinfo="skip",
                ),
            )
        _add(
            figure,
            label,
            go.Scatter(
                x=small(band.x),
                y=small(band.mean),
                mode="lines",
                line={"color": colours[label], "width": 2.2, "dash": dashes[label]},
                hovertemplate=value,
            ),
        )
    return figure if figure.data else None


def _add_target(figure: go.Figure, target: float, measure: Measure) -> None:
    """Draw a dashed line at the target of the figure's measure."""
    text = f"target {html.escape(words.level(target, measure))}"
    figure.add_hline(
        y=target,
        line={"dash": "dash", "width": 1.2, "color": "#888888"},
        annotation={"text": text, "x": 0.006, "xanchor": "left", "yanchor": "bottom"},
    )


def _over_time(runs: Runs, y: str) -> dict[str, Any]:
    layout = axes("time (s)", y)
    layout["xaxis"]["range"] = [0, max(elapsed_s(run) for group in runs.values() for run in group)]
    layout["yaxis"]["rangemode"] = "tozero"
    changes = changes_of_data(runs)
    line = {"type": "line", "yref": "paper", "y0": 0, "y1": 1, "line": {"dash": "dot", "width": 1, "color": "#888888"}}
    layout["shapes"] = [{**line, "x0": time, "x1": time} for time in changes]
    text = {"text": "data change", "yref": "paper", "y": 1, "xanchor": "left", "yanchor": "top", "showarrow": False}
    layout["annotations"] = [{**text, "x": time} for time in changes[:1]]
    return layout


def _add(figure: go.Figure, label: str, trace: Any) -> None:
    trace.update(name=html.escape(label), legendgroup=label)
    figure.add_trace(trace)
