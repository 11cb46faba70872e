"""Matplotlib figures for papers and pages, as PNG, SVG or PDF by the file's suffix.

Each function takes runs by strategy (several runs of one are its seeds) and writes one file. Nothing is displayed, and
Matplotlib's global state stays unchanged. Matplotlib is imported when something is drawn.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt

from fedtempo.errors import ConfigError, RunError
from fedtempo.record.fairness import Kind
from fedtempo.record.measures import busy_ratios
from fedtempo.record.metric import Measure
from fedtempo.record.run import Records
from fedtempo.report import words
from fedtempo.report.palette import category_colour, strategy_colours
from fedtempo.report.series import (
    Band,
    alive_curve,
    calendar,
    class_names,
    class_shares,
    clients_spread_over_speed,
    evaluation_curve,
    measured,
    metric_curve,
    ranked_at_clients,
    ranked_busy_ratios,
    round_curve,
)
from fedtempo.report.series import confusion as confusion_matrix

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.ticker import PercentFormatter

Runs = Mapping[str, Sequence[Records]]

_INCHES = (6.4, 3.6)


def accuracy(runs: Runs, path: Path | str, *, target: float | None = None) -> None:
    """Draw the accuracy of the global model over time, or the measure used instead.

    The line is the mean over seeds, the band spans lowest to highest, and the target is dashed.
    """
    measure = measured(runs)
    figure, axes = _axes("time (s)", f"test {measure.name}")
    _curves(axes, runs, lambda group: evaluation_curve(group, "accuracy"))
    _finish_measure(axes, measure, target)
    _save(figure, axes, path)


def _finish_measure(axes: Axes, measure: Measure, target: float | None) -> None:
    """Format the axes of a measure over time, and draw its target."""
    if measure.as_share:
        axes.yaxis.set_major_formatter(_percent())
    axes.set_xlim(left=0)
    if target is not None:
        axes.axhline(target, color="0.5", linewidth=0.9, linestyle="--")
        across = axes.get_yaxis_transform()
        text = f"target {_plain(words.level(target, measure))}"
        axes.text(0.01, target, text, transform=across, va="bottom", color="0.3", fontsize=8)


def metric(runs: Runs, path: Path | str, measure: Measure, *, target: float | None = None) -> None:
    """Draw a further measure of the global model over time, as `accuracy`."""
    figure, axes = _axes("time (s)", _plain(measure.name))
    _curves(axes, runs, lambda group: metric_curve(group, measure.key))
    _finish_measure(axes, measure, target)
    _save(figure, axes, path)


def at_clients(runs: Runs, path: Path | str, kind: Kind) -> None:
    """Draw the last accuracy of a kind of model at each client, from the worst client to the best."""
    measure = measured(runs)
    figure, axes = _axes("rank of the client, from the worst to the best", f"{measure.name} on the own test set")
    _curves(axes, runs, lambda group: ranked_at_clients(group, kind))
    if measure.as_share:
        axes.yaxis.set_major_formatter(_percent())
    _save(figure, axes, path)


def by_class(runs: Runs, path: Path | str) -> None:
    """Draw the accuracy of each class at the last evaluation, the mean over seeds."""
    figure, axes = _axes("class", "accuracy")
    shares = {label: values for label, group in runs.items() if (values := class_shares(group)) is not None}
    colours, width = strategy_colours(list(runs)), 0.8 / max(len(shares), 1)
    for i, (label, values) in enumerate(shares.items()):
        places = np.arange(values.size) + (i - (len(shares) - 1) / 2) * width
        axes.bar(places, values, width=width, color=colours[label], label=_plain(label))
        axes.set_xticks(range(values.size), list(map(_plain, class_names(runs[label][0], values.size))), fontsize=8)
    axes.yaxis.set_major_formatter(_percent())
    _save(figure, axes, path)


def confusion(runs: Runs, path: Path | str) -> None:
    """Draw the confusion matrix of the last evaluation, one panel per strategy, first seed only.

    Colours are shares of a class's examples. Raises ConfigError if no run has one.
    """
    tables = {label: table for label, group in runs.items() if (table := confusion_matrix(group[0])) is not None}
    if not tables:
        raise ConfigError(f"{path}: the runs have nothing to draw here")
    figure = new_figure(2.6 * len(tables) + 0.9, 2.9)
    panels = figure.subplots(1, len(tables), squeeze=False)[0]
    for axes, (label, table) in zip(panels, tables.items()):
        shares = table / np.maximum(table.sum(axis=1, keepdims=True), 1)
        image = axes.imshow(shares, vmin=0, vmax=1, cmap="Blues")
        axes.set_title(_plain(label), loc="left", fontsize=9, fontweight="bold")
        axes.set_xlabel("predicted class", fontsize=8)
        ticks = np.unique(np.linspace(0, len(table) - 1, min(len(table), 20)).round().astype(int)).tolist()
        names = list(map(_plain, class_names(runs[label][0], len(table))))
        axes.set_xticks(ticks, [names[tick] for tick in ticks], fontsize=7, rotation=90)
        axes.set_yticks(ticks, [names[tick] for tick in ticks], fontsize=7)
        axes.tick_params(length=0)
    panels[0].set_ylabel("class", fontsize=8)
    figure.colorbar(image, ax=list(panels), format=_percent(), label="share of the class")
    write_figure(figure, path)


def panels(
    shown: Mapping[str, Runs],
    path: Path | str,
    *,
    column: Literal["accuracy", "loss"] = "accuracy",
    axis: Literal["time", "rounds"] = "time",
    targets: Mapping[str, float] | None = None,
) -> None:
    """Draw the test accuracy or loss of several settings side by side, one panel per name; targets: dashed lines."""
    figure = new_figure(3.4 * len(shown) + 0.4, 3.4)
    all_axes = figure.subplots(1, len(shown), squeeze=False)[0]
    colours = strategy_colours(list(dict.fromkeys(label for runs in shown.values() for label in runs)))
    for axes, (name, runs) in zip(all_axes, shown.items()):
        for label, group in runs.items():
            band = evaluation_curve(group, column) if axis == "time" else round_curve(group, column)
            if band is not None:
                axes.plot(band.x, band.mean, color=colours[label], linewidth=1.6, label=_plain(label))
                axes.fill_between(band.x, band.low, band.high, color=colours[label], alpha=0.15, linewidth=0)
        if targets is not None:
            axes.axhline(targets[name], color="0.5", linewidth=0.9, linestyle="--")
        axes.set_title(_plain(name), loc="left", fontsize=9, fontweight="bold")
        axes.set_xlabel("time (s)" if axis == "time" else "rounds")
        axes.grid(color="0.92", linewidth=0.8)
        axes.spines[["top", "right"]].set_visible(False)
        axes.set_xlim(left=0)
        if column == "accuracy" and measured(runs).as_share:
            axes.yaxis.set_major_formatter(_percent())
    measure = measured(next(iter(shown.values())))
    all_axes[0].set_ylabel(f"test {measure.name if column == 'accuracy' else column}")
    handles = {label: handle for axes in all_axes for handle, label in zip(*axes.get_legend_handles_labels())}
    columns = min(6, 2 * len(shown))
    figure.legend(handles.values(), handles.keys(), loc="outside upper left", ncols=columns, frameon=False, fontsize=8)
    write_figure(figure, path)


def busy(runs: Runs, path: Path | str, *, by_client: bool = False) -> None:
    """Draw each client's busy ratio, from the busiest to the idlest or by number, with the mean over clients."""
    figure, axes = _axes("client" if by_client else "rank of the client, from the busiest to the idlest", "busy ratio")
    for label, colour in strategy_colours(list(runs)).items():
        ratios = np.mean([busy_ratios(run) for run in runs[label]], axis=0)
        if by_client:
            axes.bar(np.arange(ratios.size), ratios, color=colour, alpha=0.75, width=0.85, label=_plain(label))
        else:
            band = ranked_busy_ratios(runs[label])
            axes.plot(band.x, band.mean, color=colour, linewidth=1.6, marker=".", markersize=4, label=_plain(label))
        mean = float(ratios.mean())
        axes.axhline(mean, color=colour, linewidth=0.9, linestyle=":")
        across = axes.get_yaxis_transform()
        axes.text(1.005, mean, f"{mean:.1%}", transform=across, va="center", color=colour, fontsize=8)
    axes.yaxis.set_major_formatter(_percent())
    axes.set_ylim(0, 1)
    _save(figure, axes, path)


def alive(runs: Runs, path: Path | str) -> None:
    """Draw groups alive over time: mean over seeds, with a band from lowest to highest."""
    figure, axes = _axes("time (s)", "groups alive")
    _curves(axes, runs, alive_curve)
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    _save(figure, axes, path)


def calendars(
    runs: Runs, path: Path | str, *, clients: Sequence[int] | None = None, start: float = 0.0, end: float = 100.0
) -> None:
    """Draw when clients are busy between `start` and `end` seconds: one panel per strategy, one colour per group.

    clients: which clients (default: a few from the fastest to the slowest). Only the first run of each strategy is
    drawn. Raises ConfigError if no run has rows of visits.
    """
    first = {label: group[0] for label, group in runs.items() if group[0].has_rows}
    if not first:
        raise ConfigError(
            'a figure of calendars needs at least one run with rows of visits (not run.record = "totals")'
        )
    chosen = clients_spread_over_speed(next(iter(first.values()))) if clients is None else list(clients)
    figure = new_figure(_INCHES[0], len(first) * (0.24 * len(chosen) + 0.35) + 0.45)
    panels = figure.subplots(len(first), 1, sharex=True, squeeze=False)[:, 0]
    for axes, (label, run) in zip(panels, first.items()):
        visits = calendar(run, chosen)
        shown = (visits.started < end) & (visits.finished > start)
        axes.barh(
            visits.row[shown],
            (visits.finished - visits.started)[shown],
            left=visits.started[shown],
            height=0.7,
            color=["0.6" if group < 0 else category_colour(group) for group in visits.group[shown].tolist()],
            edgecolor="white",
            linewidth=0.4,
        )
        axes.set_title(_plain(label), loc="left", fontsize=9, fontweight="bold")
        axes.set_yticks(range(len(chosen)), [f"client {client}" for client in chosen], fontsize=8)
        axes.set_ylim(len(chosen) - 0.4, -0.6)
        axes.set_xlim(start, end)
        axes.spines[["top", "right", "left"]].set_visible(False)
        axes.tick_params(axis="y", length=0)
    panels[-1].set_xlabel("time (s)")
    write_figure(figure, path)


def label_shares(histograms: Mapping[str, npt.NDArray[np.int64]], path: Path | str) -> None:
    """Draw each client's examples by class, one panel per name; histograms: counts, shape (clients, classes)."""
    figure = new_figure(_INCHES[0], 1.5 * len(histograms) + 0.5)
    panels = figure.subplots(len(histograms), 1, sharex=True, squeeze=False)[:, 0]
    for axes, (name, counts) in zip(panels, histograms.items()):
        below = np.zeros(len(counts))
        for label in range(counts.shape[1]):
            colour = category_colour(label)
            axes.bar(np.arange(len(counts)), counts[:, label], bottom=below, width=1.0, color=colour, linewidth=0)
            below += counts[:, label]
        axes.set_title(_plain(name), loc="left", fontsize=9, fontweight="bold")
        axes.set_ylabel("examples", fontsize=8)
        axes.spines[["top", "right"]].set_visible(False)
        axes.margins(x=0)
    panels[-1].set_xlabel("client (colours are classes)")
    write_figure(figure, path)


def position_shares(shares: Mapping[str, npt.NDArray[np.float64]], path: Path | str) -> None:
    """Draw which cluster serves at which place of a group; shares: of each place, shape (clusters, places), by name."""
    figure = new_figure(2.1 * len(shares) + 0.8, 2.7)
    panels = figure.subplots(1, len(shares), sharey=True, squeeze=False)[0]
    for axes, (name, values) in zip(panels, shares.items()):
        image = axes.imshow(values, vmin=0, vmax=1, cmap="cividis", aspect="auto")
        axes.set_title(_plain(name), fontsize=8)
        axes.set_xlabel("place in the group", fontsize=8)
        axes.set_xticks(range(values.shape[1]), [str(position + 1) for position in range(values.shape[1])], fontsize=7)
        axes.tick_params(length=0, labelsize=7)
    panels[0].set_ylabel("cluster, by mean place", fontsize=8)
    figure.colorbar(image, ax=list(panels), format=_percent(), label="share of the place")
    write_figure(figure, path)


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure of this size in inches whose layout fits its parts."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def _percent() -> PercentFormatter:
    """Return a formatter of shares as whole percents."""
    from matplotlib.ticker import PercentFormatter

    return PercentFormatter(1.0, decimals=0)


def _axes(x: str, y: str) -> tuple[Figure, Axes]:
    figure = new_figure(*_INCHES)
    axes = plain_axes(figure.add_subplot())
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    return figure, axes


def plain_axes(axes: Axes) -> Axes:
    """Give axes a faint grid in the background and no frame at the top and right; return them."""
    axes.grid(color="0.92", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    return axes


def _curves(axes: Axes, runs: Runs, curve: Callable[[Sequence[Records]], Band | None]) -> None:
    for label, colour in strategy_colours(list(runs)).items():
        band = curve(runs[label])
        if band is not None:
            axes.plot(band.x, band.mean, color=colour, linewidth=1.8, label=_plain(label))
            if len(runs[label]) > 1:
                axes.fill_between(band.x, band.low, band.high, color=colour, alpha=0.18, linewidth=0)


def _plain(label: str) -> str:
    """Return a label in which Matplotlib reads nothing as mathematics."""
    return label.replace("$", r"\$")


def _save(figure: Figure, axes: Axes, path: Path | str) -> None:
    if not axes.get_legend_handles_labels()[1]:
        raise ConfigError(f"{path}: the runs have nothing to draw here")
    figure.legend(loc="outside upper left", ncols=4, frameon=False, fontsize=9)
    write_figure(figure, path)


def write_figure(figure: Figure, path: Path | str) -> None:
    """Save a figure; the same figure always gives the same file. Raises RunError if the file cannot be written."""
    from matplotlib import rc_context

    suffix = Path(path).suffix
    try:
        with rc_context({"svg.hashsalt": "fedtempo"}):
            if suffix == ".png":
                _save_png(figure, path)
            else:
                figure.savefig(path, dpi=160, metadata={"Date": None} if suffix == ".svg" else None)
    except OSError as error:
        raise RunError(f"{path} could not be written: {error.strerror or error}") from error


def _save_png(figure: Figure, path: Path | str) -> None:
    """Save with 256 colours, enough for curves and bands, at a quarter of the size."""
    from PIL import Image

    whole = io.BytesIO()
    figure.savefig(whole, format="png", dpi=160)
    with Image.open(whole) as image:
        reduced = image.convert("RGB").quantize(256, dither=Image.Dither.NONE)
    reduced.save(path, format="PNG", optimize=True)
