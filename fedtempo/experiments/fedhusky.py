"""The figures of the FedHusky paper (Zhou, Shi, Lou, Hou), and what its variants come to."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fedtempo.config import Config
from fedtempo.experiments.reproduction import Asked, Budget, Experiment, Row, drawn, spread
from fedtempo.experiments.study import Study, plain_study, tuned_study
from fedtempo.experiments.tuning import Grid
from fedtempo.launch import build_world
from fedtempo.record import Records, time_to_target, write_json
from fedtempo.record.measures import busy_ratios, group_spans, groups_alive
from fedtempo.report import figures
from fedtempo.report.series import cluster_positions

_LITERAL, _HUSKY, _THIN, _PACED = "fedhusky-paper", "fedhusky", "fedhusky-thin", "fedhusky-paced"
_FIGURE_5 = (_HUSKY, _LITERAL, "hybrid", "sequential", "fedavg", "fedavg-momentum")
_VARIANTS = (
    _HUSKY,
    "fedhusky-gain1",
    "fedhusky-unsteady",
    "fedhusky-models",
    "fedhusky-uncorrected",
    _PACED,
    "fedhusky-group",
    _LITERAL,
    "hybrid",
    "sequential",
    "fedavg",
    "fedavg-momentum",
)
_CLIENTS_OF_FIGURE_8 = (8, 18, 22, 35, 45)


def _schedules(asked: Asked, labels: Sequence[str]) -> Study:
    """Schedules alone, in the paper's setting, over seeds."""
    base = asked.settings("fedhusky", ["executor.kind=none"])
    return plain_study(base, labels, range(1, 4) if asked.scale == "small" else range(1, 21))


def figure_4(asked: Asked) -> list[Row]:
    """Label distributions of clients at three degrees of heterogeneity."""
    rows, worlds = [], {}
    said = {0.0: "one label a client", 0.5: "moderate", 10.0: "nearly uniform"}
    for alpha, words in said.items():
        config = asked.settings("fedhusky").with_changes({"data.partition": {"kind": "dirichlet", "alpha": alpha}})
        histograms = np.array(build_world(config).histograms)
        worlds[f"epsilon = {alpha:g}"] = histograms
        classes, largest = (histograms > 0).sum(axis=1), histograms.max(axis=1) / histograms.sum(axis=1)
        rows.append(
            Row(
                f"labels a client holds, ε = {alpha:g}",
                words,
                f"{classes.mean():.1f} of {histograms.shape[1]} ({classes.min()} to {classes.max()})",
                f"the most frequent one has {100 * largest.mean():.0f} % of its examples",
            )
        )
    drawn(figures.label_shares, asked.folder, "fig4", worlds)
    return rows


def figure_5(asked: Asked) -> list[Row]:
    """Accuracy against time: as the paper has it, lr 0.01 for all, and with lr and local work tuned for each."""
    base, budget, grid, levels = _learning(asked)
    at_paper = base.with_changes({"training.lr": 0.01, "training.batch_size": 10})

    def shown(name: str, study: Study) -> list[Row]:
        stem = "fig5-" + name.split()[0]
        drawn(figures.accuracy, asked.folder, stem, study.records, target=base.run.target_accuracy)
        write_json(asked.folder / f"{stem}.json", study.facts())
        rows = [row for level in levels for row in _ratios(name, study, level, mnist=asked.scale == "small")]
        if study.trials:
            rows += [Row(f"{name}: setting of {label}", "lr 0.01", _said(study.chosen(label))) for label in study.runs]
        return rows

    rows = shown("lr 0.01 for all", plain_study(at_paper, _FIGURE_5, budget.seeds))
    # The literal rules learn at no learning rate (see the small scale), and a run of theirs takes as long as any.
    labels = [label for label in _FIGURE_5 if asked.scale == "small" or label != _LITERAL]
    tuned = tuned_study(
        base,
        labels,
        grid,
        tuning_seeds=budget.tuning_seeds,
        seeds=budget.seeds,
        tuning_horizon=budget.tuning_horizon,
    )
    return rows + shown("tuned", tuned)


def _learning(asked: Asked) -> tuple[Config, Budget, Grid, Sequence[float]]:
    """Configuration, budget, grid, accuracies to reach. Local work is tuned beside the learning rate."""
    base, budget = asked.settings("fedhusky"), asked.budget("fedhusky")
    grid: Grid = {"training.lr": budget.lr, "training.epochs": [1, 3]}
    if asked.scale == "small":
        return base, budget, grid, (0.6, 0.8, 0.9)
    return base, budget, {**grid, "training.batch_size": [10, 50]}, (0.4, 0.5, 0.6)


def _ratios(name: str, study: Study, level: float, *, mnist: bool) -> list[Row]:
    """How much sooner than others FedHusky reaches an accuracy, medians over seeds."""
    printed = {"hybrid": "5.9", "sequential": "7.9", "fedavg": "fedavg never gets there"} if mnist else {"hybrid": "3"}
    median = {label: _median_time(runs, level) for label, runs in study.records.items()}
    return [
        Row(
            f"{name}: time to {100 * level:.0f} %, {label} over {husky}",
            printed.get(label, "-") if level == 0.8 or not mnist else "-",
            _ratio(median[label], median[husky]),
            f"{_seconds(median[label])} / {_seconds(median[husky])}",
        )
        for husky in (_LITERAL, _HUSKY)
        if husky in median
        for label in ("hybrid", "sequential", "fedavg", "fedavg-momentum")
    ]


def _median_time(runs: Sequence[Records], level: float) -> float | None:
    times = [time_to_target(run.evaluations["time"], run.evaluations["accuracy"], level) for run in runs]
    median = statistics.median([float("inf") if time is None else time for time in times])
    return None if median == float("inf") else median


def _ratio(time: float | None, base: float | None) -> str:
    if base is None:
        return "neither reaches it" if time is None else "never reached"
    return "reached only here" if time is None else f"{time / base:.1f}"


def _seconds(time: float | None) -> str:
    return "never" if time is None else f"{time:.0f} s"


def _said(changes: Mapping[str, Any]) -> str:
    return ", ".join(f"{key.removeprefix('training.')} {value:g}" for key, value in changes.items())


def figure_6(asked: Asked) -> list[Row]:
    """Busy ratio of each client, and which readings of the paper come near its numbers."""
    study = _schedules(asked, (_LITERAL, "hybrid", _THIN, _PACED, _HUSKY))
    two = {label: study.records[label][:1] for label in (_LITERAL, "hybrid")}
    drawn(figures.busy, asked.folder, "fig6", two, by_client=True)
    drawn(figures.busy, asked.folder, "fig6-readings", study.records)
    paper = {"hybrid": ("8.2 %", "1.8 %", "15.5 %"), _LITERAL: ("63.4 %", "35.8 %", "86.9 %")}
    remarks = {
        _THIN: "attempts at least 1.5 s apart, as if a solver took that long",
        _PACED: "random order at a steady pace, waits allowed",
        _HUSKY: "the default: mixing differs, the schedule is the literal one",
    }
    rows = []
    for label, runs in study.records.items():
        ratios = [100 * busy_ratios(run) for run in runs]
        measured = (
            [float(r.mean()) for r in ratios],
            [float(r.min()) for r in ratios],
            [float(r.max()) for r in ratios],
        )
        for what, printed, values in zip(("mean", "lowest", "highest"), paper.get(label, paper[_LITERAL]), measured):
            rows.append(Row(f"busy ratio, {what}, {label}", printed, spread(values, 1, " %"), remarks.get(label, "")))
    busier = [
        float(busy_ratios(a).mean() / busy_ratios(b).mean())
        for a, b in zip(study.records[_LITERAL], study.records["hybrid"])
    ]
    rows.append(Row("literal FedHusky busier than hybrid", "63.4 / 8.2 = 7.7", spread(busier), "“670 % more”"))
    return rows


def figure_7(asked: Asked) -> list[Row]:
    """Groups alive over time."""
    study = _schedules(asked, (_LITERAL, "hybrid", _THIN, _PACED))
    drawn(figures.alive, asked.folder, "fig7", study.records)
    rows = []
    for label, printed in ((_LITERAL, "32"), (_THIN, "32"), (_PACED, "32")):
        means = [_mean_alive(run) for run in study.records[label]]
        rows.append(Row(f"groups alive, mean, {label}", printed, spread(means)))
    most = [int(groups_alive(run)[1].max()) for run in study.records["hybrid"]]
    rows.append(Row("groups alive, most, hybrid", "at most 5", str(max(most))))
    identity = [_mean_alive(run) / (50 * busy_ratios(run).mean()) for run in study.records[_LITERAL]]
    rows.append(
        Row(
            "groups alive over clients x busy ratio, literal",
            "1.01",
            spread(identity, 3),
            "1 without waits inside groups",
        )
    )
    return rows


def _mean_alive(run: Records) -> float:
    starts, ends = group_spans(run)
    return float((ends - starts).sum() / run.facts["elapsed_s"])


def figure_8(asked: Asked) -> list[Row]:
    """Calendars of five clients over the first 100 seconds."""
    study = _schedules(asked, (_LITERAL, "hybrid"))
    numbers = [client - 1 for client in _CLIENTS_OF_FIGURE_8]
    drawn(figures.calendars, asked.folder, "fig8", study.records, clients=numbers, start=0.0, end=100.0)
    rows = []
    for label in (_LITERAL, "hybrid"):
        visits = study.records[label][0].visits
        chosen = np.isin(visits["client"], numbers) & (visits["started"] < 100.0)
        busy_s = (np.minimum(visits["finished"][chosen], 100.0) - visits["started"][chosen]).sum()
        what = f"busy in the first 100 s, clients {', '.join(map(str, _CLIENTS_OF_FIGURE_8))}, {label}"
        rows.append(Row(what, "drawn only", f"{100 * busy_s / (100.0 * len(numbers)):.0f} %", "seed 1"))
    return rows


def positions(asked: Asked) -> list[Row]:
    """Which cluster comes when in a group: the planner fixes the order more than one would like."""
    study = _schedules(asked, (_LITERAL, _THIN, _PACED))
    shares = {label: np.mean([_place_shares(run) for run in runs], axis=0) for label, runs in study.records.items()}
    drawn(figures.position_shares, asked.folder, "positions", shares)
    rows = []
    for label, runs in study.records.items():
        last = [100 * float(_place_shares(run)[:, -1].max()) for run in runs]
        what = f"groups that end with the most frequent last cluster, {label}"
        rows.append(Row(what, "-", spread(last, 0, " %"), "10 % if even"))
    return rows


def _place_shares(run: Records) -> np.ndarray:
    """Share of a place's visits that each cluster has, clusters by their mean place."""
    shares = cluster_positions(run)
    assert shares is not None
    mean = (shares * np.arange(shares.shape[1])).sum(axis=1) / shares.sum(axis=1)
    ordered: np.ndarray = shares[np.argsort(mean)]
    return ordered


def variants(asked: Asked) -> list[Row]:
    """FedHusky's variants and their competitors, all tuned on one grid, over data regimes."""
    base, budget, grid, _ = _learning(asked)
    grid = {key: values for key, values in grid.items() if key != "training.epochs"}
    regimes = {"one label": 0.0, "Dir(0.1)": 0.1} if asked.scale == "small" else {"one label": 0.0}
    rows = []
    for name, alpha in regimes.items():
        config = base.with_changes({"data.partition": {"kind": "dirichlet", "alpha": alpha}})
        study = tuned_study(config, _VARIANTS, grid, tuning_seeds=budget.tuning_seeds, seeds=budget.seeds)
        stem = "variants-" + name.replace(" ", "-").replace("(", "").replace(")", "")
        drawn(figures.accuracy, asked.folder, stem, study.records, target=base.run.target_accuracy)
        write_json(asked.folder / f"{stem}.json", study.facts())
        for label in _VARIANTS:
            summaries = [run.summary for run in study.runs[label]]
            times = [summary["time_to_target_s"] for summary in summaries]
            said = ", ".join(_seconds(time) for time in times)
            rows.append(
                Row(
                    f"{name}: time to {100 * (base.run.target_accuracy or 0):.0f} %, {label}",
                    "-",
                    f"{_seconds(_median_time(study.records[label], base.run.target_accuracy or 0))} ({said})",
                    f"{_said(study.chosen(label))}; final accuracy "
                    + spread([100 * summary["final_accuracy"] for summary in summaries], 1, " %"),
                )
            )
    return rows


EXPERIMENTS = (
    Experiment("fedhusky/fig4", "label distributions at three degrees of heterogeneity", figure_4, (0.1, 0.2, 0.2)),
    Experiment("fedhusky/fig5", "accuracy against time, four strategies", figure_5, (10, 30, 100)),
    Experiment("fedhusky/fig6", "busy ratio of each client", figure_6, (0.5, 3, 3)),
    Experiment("fedhusky/fig7", "groups alive over time", figure_7, (0.5, 3, 3)),
    Experiment("fedhusky/fig8", "calendars of five clients, first 100 seconds", figure_8, (0.2, 0.2, 0.2)),
    Experiment("fedhusky/positions", "which cluster comes when in a group", positions, (0.5, 3, 3)),
    Experiment("fedhusky/variants", "variants of FedHusky and competitors, tuned", variants, (15, 40, 120)),
)
