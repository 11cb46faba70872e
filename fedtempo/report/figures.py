"""Matplotlib figures for papers and pages, as PNG, SVG or PDF by the file's suffix.

Each function takes runs by strategy (several runs of one are its seeds) and writes one file. look: its size and style.
Nothing is displayed, and Matplotlib's global state stays unchanged. Matplotlib is imported when something is drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt

from fedtempo.record.client_measures import Kind, names_of
from fedtempo.record.measures import busy_ratios, participation
from fedtempo.record.metric import LOSS, Measure, Target
from fedtempo.record.run import Records
from fedtempo.report import words
from fedtempo.report.look import SCREEN, Look, NothingToDraw, add_legend, colours, line_styles, small_size
from fedtempo.report.look import new_figure as new_figure
from fedtempo.report.look import plain_axes as plain_axes
from fedtempo.report.look import write_figure as write_figure
from fedtempo.report.palette import MAX_CATEGORIES, category_colour
from fedtempo.report.series import (
    Band,
    alive_curve,
    calendar,
    changes_of_data,
    class_names,
    class_shares,
    clients_spread_over_speed,
    cluster_positions,
    evaluation_curve,
    measured,
    metric_curve,
    ranked_at_clients,
    ranked_busy_ratios,
    round_curve,
    staleness_shares,
    visit_seconds,
)
from fedtempo.report.series import confusion as confusion_matrix

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.ticker import PercentFormatter

Runs = Mapping[str, Sequence[Records]]

_WIDTH, _HEIGHT = 6.4, 3.6
"""Inches of a figure on a screen."""


def accuracy(runs: Runs, path: Path | str, *, target: float | None = None, look: Look = SCREEN) -> None:
    """Draw the accuracy of the global model over time, or the measure used instead.

    The line is the mean over seeds, the band spans lowest to highest, and the target is dashed.
    """
    measure = measured(runs)
    with _one_panel(path, look, "time (s)", f"test {measure.name}") as axes:
        _curves(axes, runs, lambda group: evaluation_curve(group, "accuracy"))
        _finish_measure(axes, measure, target)


def metric(runs: Runs, path: Path | str, measure: Measure, *, target: float | None = None, look: Look = SCREEN) -> None:
    """Draw a further measure of the global model over time, as `accuracy`."""
    with _one_panel(path, look, "time (s)", _plain(measure.name)) as axes:
        _curves(axes, runs, lambda group: metric_curve(group, measure.key))
        _finish_measure(axes, measure, target)


def _finish_measure(axes: Axes, measure: Measure, target: float | None) -> None:
    """Format the axes of a measure over time, and draw its target."""
    if measure.as_share:
        axes.yaxis.set_major_formatter(_percent())
    axes.set_xlim(left=0)
    if target is not None:
        axes.axhline(target, color="0.5", linewidth=0.9, linestyle="--")
        across = axes.get_yaxis_transform()
        text = f"target {_plain(words.level(target, measure))}"
        axes.text(0.01, target, text, transform=across, va="bottom", color="0.3", fontsize=small_size())


def loss(runs: Runs, path: Path | str, *, target: float | None = None, look: Look = SCREEN) -> None:
    """Draw the loss of the global model over time: mean over seeds, with a band from lowest to highest."""
    with _one_panel(path, look, "time (s)", "test loss") as axes:
        _curves(axes, runs, lambda group: evaluation_curve(group, "loss"))
        _finish_measure(axes, LOSS, target)
        axes.set_ylim(bottom=0)


def at_clients(runs: Runs, path: Path | str, kind: Kind, *, look: Look = SCREEN) -> None:
    """Draw the last accuracy of a kind of model at each client, from the worst client to the best."""
    measure = measured(runs)
    x, y = "rank of the client, from the worst to the best", f"{measure.name} at the client"
    with _one_panel(path, look, x, y) as axes:
        _curves(axes, runs, lambda group: ranked_at_clients(group, kind), over_time=False)
        if measure.as_share:
            axes.yaxis.set_major_formatter(_percent())


def over_clients(
    runs: Runs, path: Path | str, kind: Kind, *, target: Target | None = None, look: Look = SCREEN
) -> None:
    """Draw mean (solid) and worst tenth (dotted) over the clients' own test sets over time.

    target: drawn if it is one of these.
    """
    measure, names = measured(runs), names_of(kind)
    with _one_panel(path, look, "time (s)", f"{measure.name} at clients") as axes:
        _curves(axes, runs, lambda group: metric_curve(group, names["mean"]))
        for label, style in line_styles(list(runs)).items():
            band = metric_curve(runs[label], names["worst-tenth"])
            if band is not None:
                axes.plot(band.x, band.mean, color=style["color"], linestyle="dotted")
        if axes.lines:
            axes.plot([], [], color="0.5", linestyle="dotted", label="worst tenth")
        if target is not None and target.measure.key in (names["mean"], names["worst-tenth"]):
            _finish_measure(axes, target.measure, target.value)
        else:
            _finish_measure(axes, measure, None)


def by_class(runs: Runs, path: Path | str, *, look: Look = SCREEN) -> None:
    """Draw the accuracy of each class at the last evaluation, the mean over seeds."""
    shares = {label: values for label, group in runs.items() if (values := class_shares(group)) is not None}
    with _one_panel(path, look, "class", "accuracy") as axes:
        shown, width = colours(list(runs)), 0.8 / max(len(shares), 1)
        for i, (label, values) in enumerate(shares.items()):
            places = np.arange(values.size) + (i - (len(shares) - 1) / 2) * width
            axes.bar(places, values, width=width, color=shown[label], label=_plain(label))
            names = list(map(_plain, class_names(runs[label][0], values.size)))
            axes.set_xticks(range(values.size), names, fontsize=small_size())
        axes.yaxis.set_major_formatter(_percent())


def confusion(runs: Runs, path: Path | str, *, look: Look = SCREEN) -> None:
    """Draw the confusion matrix of the last evaluation, one panel per strategy, first seed only.

    Colours are shares of a class's examples. Raises NothingToDraw if no run has one.
    """
    tables = {label: table for label, group in runs.items() if (table := confusion_matrix(group[0])) is not None}
    if not tables:
        raise _nothing(path)
    with look.styled():
        figure = new_figure(*look.size(2.6 * len(tables) + 0.9, 2.9))
        all_axes = figure.subplots(1, len(tables), squeeze=False)[0]
        small, least = small_size(), 0.875 * small_size()
        for axes, (label, table) in zip(all_axes, tables.items()):
            shares = table / np.maximum(table.sum(axis=1, keepdims=True), 1)
            image = axes.imshow(shares, vmin=0, vmax=1, cmap="Blues")
            axes.grid(visible=False)
            axes.set_title(_plain(label))
            axes.set_xlabel("predicted class", fontsize=small)
            ticks = np.unique(np.linspace(0, len(table) - 1, min(len(table), 20)).round().astype(int)).tolist()
            names = list(map(_plain, class_names(runs[label][0], len(table))))
            axes.set_xticks(ticks, [names[tick] for tick in ticks], fontsize=least, rotation=90)
            axes.set_yticks(ticks, [names[tick] for tick in ticks], fontsize=least)
            axes.tick_params(length=0)
        all_axes[0].set_ylabel("class", fontsize=small)
        figure.colorbar(image, ax=list(all_axes), format=_percent(), label="share of the class")
        write_figure(figure, path)


def panels(
    shown: Mapping[str, Runs],
    path: Path | str,
    *,
    column: Literal["accuracy", "loss"] = "accuracy",
    axis: Literal["time", "rounds"] = "time",
    targets: Mapping[str, float] | None = None,
    look: Look = SCREEN,
) -> None:
    """Draw the test accuracy or loss of several settings side by side, one panel per name; targets: dashed lines."""
    with look.styled():
        figure = new_figure(*look.size(3.4 * len(shown) + 0.4, 3.4))
        all_axes = figure.subplots(1, len(shown), squeeze=False)[0]
        styles = line_styles(list(dict.fromkeys(label for runs in shown.values() for label in runs)))
        for axes, (name, runs) in zip(all_axes, shown.items()):
            for label, group in runs.items():
                band = evaluation_curve(group, column) if axis == "time" else round_curve(group, column)
                if band is not None:
                    axes.plot(band.x, band.mean, **styles[label], label=_plain(label))
                    axes.fill_between(
                        band.x, band.low, band.high, color=styles[label]["color"], alpha=0.15, linewidth=0
                    )
            if targets is not None:
                axes.axhline(targets[name], color="0.5", linewidth=0.9, linestyle="--")
            axes.set_title(_plain(name))
            axes.set_xlabel("time (s)" if axis == "time" else "rounds")
            axes.set_xlim(left=0)
            if column == "accuracy" and measured(runs).as_share:
                axes.yaxis.set_major_formatter(_percent())
        measure = measured(next(iter(shown.values())))
        all_axes[0].set_ylabel(f"test {measure.name if column == 'accuracy' else column}")
        handles = {label: handle for axes in all_axes for handle, label in zip(*axes.get_legend_handles_labels())}
        add_legend(figure, list(handles.values()), list(handles), most=min(6, 2 * len(shown)))
        write_figure(figure, path)


def busy(runs: Runs, path: Path | str, *, by_client: bool = False, look: Look = SCREEN) -> None:
    """Draw each client's busy ratio, from the busiest to the idlest or by number, with the mean over clients."""
    x = "client" if by_client else "rank of the client, from the busiest to the idlest"
    with _one_panel(path, look, x, "busy ratio") as axes:
        for label, style in line_styles(list(runs)).items():
            colour = style["color"]
            ratios = np.mean([busy_ratios(run) for run in runs[label]], axis=0)
            if by_client:
                axes.bar(np.arange(ratios.size), ratios, color=colour, alpha=0.75, width=0.85, label=_plain(label))
            else:
                band = ranked_busy_ratios(runs[label])
                dots = {"marker": ".", "markersize": 0.4 * small_size() + 0.8, **style}
                axes.plot(band.x, band.mean, **dots, label=_plain(label))
            mean = float(ratios.mean())
            axes.axhline(mean, color=colour, linewidth=0.9, linestyle=":")
            across = axes.get_yaxis_transform()
            axes.text(1.005, mean, f"{mean:.1%}", transform=across, va="center", color=colour, fontsize=small_size())
        axes.yaxis.set_major_formatter(_percent())
        axes.set_ylim(0, 1)


def alive(runs: Runs, path: Path | str, *, look: Look = SCREEN) -> None:
    """Draw groups alive over time: mean over seeds, with a band from lowest to highest."""
    with _one_panel(path, look, "time (s)", "groups alive") as axes:
        _curves(axes, runs, alive_curve)
        axes.set_xlim(left=0)
        axes.set_ylim(bottom=0)


def staleness(runs: Runs, path: Path | str, *, look: Look = SCREEN) -> None:
    """Draw the share of commits by staleness, for the strategies that have any."""
    with _one_panel(path, look, "staleness (commits)", "share of commits") as axes:
        for label, colour in colours(list(runs)).items():
            edges, shares, width = staleness_shares(runs[label])
            if edges.size > 1:
                axes.bar(edges + (width - 1) / 2, shares, width, color=colour, alpha=0.6, label=_plain(label))
        axes.yaxis.set_major_formatter(_percent())


def who_takes_part(runs: Runs, path: Path | str, *, look: Look = SCREEN) -> None:
    """Draw each client's visits against their mean length, first seed only, for the runs that have rows."""
    with _one_panel(path, look, "mean length of a client's visits (s)", "visits done") as axes:
        for label, colour in colours(list(runs)).items():
            run = runs[label][0]
            if run.has_rows:
                size = 0.4 * small_size() + 0.8
                lengths, counts = visit_seconds(run), participation(run)
                axes.plot(
                    lengths, counts, "o", color=colour, markersize=size, alpha=0.75, label=_plain(label), linewidth=0
                )
        axes.set_xlim(left=0)
        axes.set_ylim(bottom=0)


def calendars(
    runs: Runs,
    path: Path | str,
    *,
    clients: Sequence[int] | None = None,
    start: float = 0.0,
    end: float = 100.0,
    look: Look = SCREEN,
) -> None:
    """Draw when clients are busy between `start` and `end` seconds: one panel per strategy, one colour per group.

    clients: which clients (default: a few from the fastest to the slowest). Only the first run of each strategy is
    drawn. Raises ConfigError if no run has rows of visits.
    """
    first = {label: group[0] for label, group in runs.items() if group[0].has_rows}
    if not first:
        raise NothingToDraw(
            'a figure of calendars needs at least one run with rows of visits (not run.record = "totals")'
        )
    chosen = clients_spread_over_speed(next(iter(first.values()))) if clients is None else list(clients)
    with look.styled():
        figure, all_axes = _stacked(look, len(first), 0.24 * len(chosen) + 0.35, 0.45)
        for axes, (label, run) in zip(all_axes, first.items()):
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
            axes.grid(visible=False)
            axes.set_title(_plain(label))
            axes.set_yticks(range(len(chosen)), [f"client {client}" for client in chosen], fontsize=small_size())
            axes.set_ylim(len(chosen) - 0.4, -0.6)
            axes.set_xlim(start, end)
            axes.spines["left"].set_visible(False)
            axes.tick_params(axis="y", length=0)
        all_axes[-1].set_xlabel("time (s)")
        write_figure(figure, path)


def labels(runs: Runs, path: Path | str, *, look: Look = SCREEN) -> None:
    """Draw the examples of each class at each client, of the first run. Raises NothingToDraw if it has none."""
    run = next(iter(runs.values()))[0]
    histograms = run.facts.get("label_histograms")
    if not histograms:
        raise _nothing(path)
    counts = np.asarray(histograms, dtype=np.int64)
    names = run.facts.get("class_names") or [f"class {label}" for label in range(counts.shape[1])]
    with look.styled():
        figure = new_figure(*look.size(_WIDTH, _HEIGHT))
        axes = figure.add_subplot()
        axes.grid(visible=False)
        axes.set_xlabel("client")
        if counts.shape[1] <= MAX_CATEGORIES:
            _stack(axes, counts, [_plain(str(name)) for name in names])
            axes.set_ylabel("examples")
            add_legend(figure, *axes.get_legend_handles_labels(), most=5)
        else:
            image = axes.imshow(counts.T, cmap="cividis", aspect="auto", interpolation="nearest")
            axes.set_ylabel("class")
            figure.colorbar(image, ax=axes, label="examples")
        write_figure(figure, path)


def places(runs: Runs, path: Path | str, *, look: Look = SCREEN) -> None:
    """Draw how often clusters serve at each place of a group, first seed only, for strategies that have sequences."""
    tables = {label: cluster_positions(group[0]) for label, group in runs.items()}
    shown = {label: table for label, table in tables.items() if table is not None}
    if not shown:
        raise _nothing(path)
    position_shares(shown, path, look=look)


def label_shares(histograms: Mapping[str, npt.NDArray[np.int64]], path: Path | str, *, look: Look = SCREEN) -> None:
    """Draw each client's examples by class, one panel per name; histograms: counts, shape (clients, classes)."""
    with look.styled():
        figure, all_axes = _stacked(look, len(histograms), 1.5, 0.5)
        for axes, (name, counts) in zip(all_axes, histograms.items()):
            _stack(axes, counts, [""] * counts.shape[1])
            axes.grid(visible=False)
            axes.set_title(_plain(name))
            axes.set_ylabel("examples", fontsize=small_size())
        all_axes[-1].set_xlabel("client (colours are classes)")
        write_figure(figure, path)


def position_shares(shares: Mapping[str, npt.NDArray[np.float64]], path: Path | str, *, look: Look = SCREEN) -> None:
    """Draw which cluster serves at which place of a group; shares: of each place, shape (clusters, places), by name."""
    with look.styled():
        figure = new_figure(*look.size(2.1 * len(shares) + 0.8, 2.7))
        all_axes = figure.subplots(1, len(shares), sharey=True, squeeze=False)[0]
        small, least = small_size(), 0.875 * small_size()
        for axes, (name, values) in zip(all_axes, shares.items()):
            image = axes.imshow(values, vmin=0, vmax=1, cmap="cividis", aspect="auto")
            axes.grid(visible=False)
            axes.spines[["top", "right"]].set_visible(True)
            axes.set_title(_plain(name), fontsize=small, fontweight="normal", loc="center")
            axes.set_xlabel("place in the group", fontsize=small)
            axes.set_xticks(
                range(values.shape[1]), [str(position + 1) for position in range(values.shape[1])], fontsize=least
            )
            axes.tick_params(length=0, labelsize=least)
        all_axes[0].set_ylabel("cluster, by mean place", fontsize=small)
        figure.colorbar(image, ax=list(all_axes), format=_percent(), label="share of the place")
        write_figure(figure, path)


def _percent() -> PercentFormatter:
    """Return a formatter of shares as whole percents."""
    from matplotlib.ticker import PercentFormatter

    return PercentFormatter(1.0, decimals=0)


@contextmanager
def _one_panel(path: Path | str, look: Look, x: str, y: str) -> Iterator[Axes]:
    """Yield the axes of a figure with a legend, which is written after the block.

    Raises ConfigError if nothing was drawn, and as `write_figure`.
    """
    with look.styled():
        figure = new_figure(*look.size(_WIDTH, _HEIGHT))
        axes = figure.add_subplot()
        axes.set_xlabel(x)
        axes.set_ylabel(y)
        yield axes
        handles, names = axes.get_legend_handles_labels()
        if not names:
            raise _nothing(path)
        add_legend(figure, handles, names)
        write_figure(figure, path)


def _stacked(look: Look, count: int, each: float, around: float) -> tuple[Figure, Sequence[Axes]]:
    """Return a figure of panels below each other, inside `Look.styled`; each, around: inches on a screen."""
    width, _ = look.size(_WIDTH, _HEIGHT)
    figure = new_figure(width, look.height or look.scaled(count * each + around))
    return figure, list(figure.subplots(count, 1, sharex=True, squeeze=False)[:, 0])


def _stack(axes: Axes, counts: npt.NDArray[np.int64], names: Sequence[str]) -> None:
    """Draw counts of shape (clients, classes) as stacked bars."""
    below = np.zeros(len(counts))
    for label, name in enumerate(names):
        colour = category_colour(label)
        axes.bar(
            np.arange(len(counts)),
            counts[:, label],
            bottom=below,
            width=1.0,
            color=colour,
            linewidth=0,
            label=name,
        )
        below += counts[:, label]
    axes.margins(x=0)


def _curves(
    axes: Axes, runs: Runs, curve: Callable[[Sequence[Records]], Band | None], *, over_time: bool = True
) -> None:
    """Draw a curve for each strategy and, over time, dotted lines where the data change."""
    for time in changes_of_data(runs) if over_time else ():
        axes.axvline(time, color="0.5", linewidth=0.9, linestyle=":")
    for label, style in line_styles(list(runs)).items():
        band = curve(runs[label])
        if band is not None:
            axes.plot(band.x, band.mean, **style, label=_plain(label))
            if len(runs[label]) > 1:
                axes.fill_between(band.x, band.low, band.high, color=style["color"], alpha=0.18, linewidth=0)


def _plain(label: str) -> str:
    """Return a label in which Matplotlib reads nothing as mathematics."""
    return label.replace("$", r"\$")


def _nothing(path: Path | str) -> NothingToDraw:
    return NothingToDraw(f"{path}: the runs have nothing to draw here")
