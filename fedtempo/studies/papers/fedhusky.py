"""The figures of the FedHusky paper (Zhou, Shi, Lou, Hou), and results of its variants."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fedtempo.record import Records, time_to_target, write_json
from fedtempo.record.measures import busy_ratios, group_spans, groups_alive
from fedtempo.report import figures
from fedtempo.report.series import cluster_positions
from fedtempo.runs.config import Config
from fedtempo.runs.world import build_world
from fedtempo.studies.papers.panels import save_comparison
from fedtempo.studies.papers.reproduction import (
    Budget,
    Exhibit,
    Request,
    Row,
    Verdict,
    claim,
    number,
    save_picture,
    spread,
)
from fedtempo.studies.tuning.study import Study, plain_study, tuned_study
from fedtempo.studies.tuning.trials import Grid

_LITERAL, _HUSKY, _THIN, _PACED = "fedhusky-paper", "fedhusky", "fedhusky-thin", "fedhusky-paced"
_EVEN = "fedhusky-even"
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
_FASTER, _FASTER_ON_FASHION = {"hybrid": 5.9, "sequential": 7.9}, {"hybrid": 3.0}
"""How many times as long others take to the target, on MNIST (to 80 %) and on Fashion-MNIST."""


def _schedules(request: Request, stem: str, labels: Sequence[str]) -> Study:
    """Run schedules without training, in the paper's setting; the scales differ in the number of seeds."""
    base = request.settings("fedhusky", ["executor.kind=none", "run.horizon=1000"])
    seeds = {"small": 3, "medium": 10, "full": 20}[request.scale]
    study = plain_study(base, labels, range(1, seeds + 1))
    save_comparison(request, stem, base, study)
    return study


def figure_4(request: Request) -> list[Row]:
    """Reproduce Fig. 4: label distributions of clients at three degrees of heterogeneity."""
    rows, worlds = [], {}
    for alpha in (0.0, 0.5, 10.0):
        config = request.settings("fedhusky").with_changes({"data.partition": {"kind": "dirichlet", "alpha": alpha}})
        histograms = np.array(build_world(request.save_config(config, f"fig4-{alpha:g}")).histograms)
        worlds[f"epsilon = {alpha:g}"] = histograms
        classes, largest = (histograms > 0).sum(axis=1), (histograms.max(axis=1) / histograms.sum(axis=1)).mean()
        printed, holds = {
            0.0: ("one label each", bool((classes == 1).all())),
            0.5: ("moderate", 0.2 < largest < 0.5),
            10.0: ("a nearly uniform mix of all", largest < 0.2),
        }[alpha]
        words = f"{classes.mean():.1f} of {histograms.shape[1]} ({classes.min()} to {classes.max()})"
        remark = f"the most frequent one has {100 * largest:.0f} % of a client's examples"
        rows.append(claim(f"labels a client holds, ε = {alpha:g}", printed, words, holds, remark))
    save_picture(figures.label_shares, request.folder, "fig4", worlds)
    write_json(request.folder / "fig4.json", {"examples_by_client_and_label": worlds})
    return rows


def figure_5(request: Request) -> list[Row]:
    """Reproduce Fig. 5: accuracy over time, lr 0.01 for all as in the paper, and with lr and local work tuned."""
    base, budget, grid, levels = _learning(request)
    at_paper = base.with_changes({"training.lr": 0.01, "training.batch_size": 10})

    def drawn_rows(name: str, config: Config, study: Study) -> list[Row]:
        stem = "fig5-" + name.split()[0]
        save_picture(figures.accuracy, request.folder, stem, study.records, target=target)
        write_json(request.folder / f"{stem}.json", study.facts())
        save_comparison(request, stem, config, study)
        rows = [row for level in levels for row in _ratios(name, config, study, level)]
        if study.trials:
            rows += [
                Row(f"{name}: setting of {label}", "lr 0.01", _settings_text(study.chosen(label)))
                for label in study.runs
            ]
        return rows

    target = base.run.target_accuracy
    rows = drawn_rows("lr 0.01 for all", at_paper, plain_study(at_paper, _FIGURE_5, budget.seeds))
    # The paper's literal rules are slow at any learning rate (see `variants`), and their runs take as long as others.
    labels = [label for label in _FIGURE_5 if request.scale == "small" or label != _LITERAL]
    tuned = tuned_study(
        base,
        labels,
        grid,
        tuning_seeds=budget.tuning_seeds,
        seeds=budget.seeds,
        tuning_horizon=budget.tuning_horizon,
    )
    return rows + drawn_rows("tuned", base, tuned)


def _learning(request: Request, of: str = "study") -> tuple[Config, Budget, Grid, Sequence[float]]:
    """Return configuration, budget, grid (with batch sizes, and epochs at full scale) and accuracies to reach."""
    base, budget = request.settings("fedhusky"), request.budget("fedhusky", of)
    if request.scale == "small":
        return base, budget, {"training.lr": budget.lr}, (0.6, 0.8, 0.9)
    grid: Grid = {"training.lr": budget.lr, "training.batch_size": [10, 50]}
    if request.scale == "full":
        grid = {**grid, "training.epochs": [1, 3]}
    return base, budget, grid, (0.4, 0.5, 0.6)


def _ratios(name: str, config: Config, study: Study, level: float) -> list[Row]:
    """Return how much longer others take to an accuracy than FedHusky, by median over seeds; judged at the target."""
    factors = _FASTER_ON_FASHION if config.data.source == "fashion-mnist" else _FASTER
    printed = factors if level == config.run.target_accuracy else {}
    median = {label: _median_time(runs, level) for label, runs in study.records.items()}
    rows = []
    for husky in (_LITERAL, _HUSKY):
        for label in ("hybrid", "sequential", "fedavg", "fedavg-momentum"):
            if husky not in median:
                continue
            what = f"{name}: time to {100 * level:.0f} %, {label} over {husky}"
            ours, other = median[husky], median[label]
            remark = f"{_seconds(other)} / {_seconds(ours)}"
            if label not in printed:
                rows.append(Row(what, "-", _ratio(other, ours), remark))
            elif ours is None or other is None:
                verdict = Verdict.NOT_REACHED if ours is None else Verdict.DIRECTION
                rows.append(Row(what, f"{printed[label]:.1f}", _ratio(other, ours), remark, verdict=verdict))
            else:
                sooner = other > ours
                rows.append(number(what, printed[label], [other / ours], within=0.25, direction=sooner, remark=remark))
    if printed and not study.trials:
        never = median["fedavg"] is None
        rows.append(claim(f"{name}: time to {100 * level:.0f} %, fedavg", "never", _seconds(median["fedavg"]), never))
    return rows


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


def _settings_text(changes: Mapping[str, Any]) -> str:
    return ", ".join(f"{key.removeprefix('training.')} {value:g}" for key, value in changes.items())


def figure_6(request: Request) -> list[Row]:
    """Reproduce Fig. 6: busy ratio of each client, and which readings of the paper come near its numbers."""
    study = _schedules(request, "fig6", (_LITERAL, "hybrid", _THIN, _PACED, _EVEN, _HUSKY))
    two = {label: study.records[label][:1] for label in (_LITERAL, "hybrid")}
    save_picture(figures.busy, request.folder, "fig6", two, by_client=True)
    save_picture(figures.busy, request.folder, "fig6-readings", study.records)
    remarks = {
        _THIN: "attempts at least 1.5 s apart, as if a solver took that long",
        _PACED: "random order at a steady pace, waits allowed",
        _EVEN: "clusters evened out in speed",
        _HUSKY: "the default: mixing differs, the schedule is the literal one",
    }
    rows = []
    ratios = {label: [100 * busy_ratios(run) for run in runs] for label, runs in study.records.items()}
    for label, busy_ratios_by_seed in ratios.items():
        printed = (8.2, 1.8, 15.5) if label == "hybrid" else (63.4, 35.8, 86.9)
        measured = {
            "mean": [float(busy.mean()) for busy in busy_ratios_by_seed],
            "lowest": [float(busy.min()) for busy in busy_ratios_by_seed],
            "highest": [float(busy.max()) for busy in busy_ratios_by_seed],
        }
        remark = remarks.get(label, "")
        for (what, values), paper in zip(measured.items(), printed, strict=True):
            quantity = f"busy ratio, {what}, {label}"
            judged = label not in remarks
            rows.append(number(quantity, paper, values, within=0.15, unit=" %", remark=remark, judged=judged))
    busier = [float(a.mean() / b.mean()) for a, b in zip(ratios[_LITERAL], ratios["hybrid"], strict=True)]
    what = "literal FedHusky busier than hybrid, times"
    rows.append(number(what, 7.7, busier, within=0.15, direction=min(busier) > 1, remark="63.4 / 8.2, “670 % more”"))
    write_json(request.folder / "fig6.json", {"busy_percent_by_seed_and_client": ratios})
    return rows


def figure_7(request: Request) -> list[Row]:
    """Reproduce Fig. 7: groups alive over time."""
    study = _schedules(request, "fig7", (_LITERAL, "hybrid", _THIN, _PACED))
    save_picture(figures.alive, request.folder, "fig7", study.records)
    means = {label: [_mean_alive(run) for run in runs] for label, runs in study.records.items()}
    rows = [
        number(f"groups alive, mean, {label}", 32, means[label], within=0.15, digits=0, judged=label == _LITERAL)
        for label in (_LITERAL, _THIN, _PACED)
    ]
    most = [int(groups_alive(run)[1].max()) for run in study.records["hybrid"]]
    rows.append(claim("groups alive, most, hybrid", "at most 5", str(max(most)), max(most) <= 5))
    late = [_alive_at(run, 0.99) < 0.5 * _mean_alive(run) for run in study.records[_LITERAL]]
    rows.append(
        claim(
            f"groups alive in the end, {_LITERAL}",
            "drop: no group may end past T",
            f"below half the mean at 0.99 T on {sum(late)} of {len(late)} seeds",
            all(late),
        )
    )
    identity = [
        _mean_alive(run) / (run.facts["n_clients"] * busy_ratios(run).mean()) for run in study.records[_LITERAL]
    ]
    what = "groups alive over clients x busy ratio, literal"
    remark = "32 / (50 x 0.634); 1 without waits inside groups"
    rows.append(number(what, 1.01, identity, within=0.02, digits=3, remark=remark))
    write_json(request.folder / "fig7.json", {"mean_groups_alive_by_seed": means, "most_of_hybrid_by_seed": most})
    return rows


def _alive_at(run: Records, share: float) -> int:
    """Return the number of groups alive at a share of the run's time."""
    starts, ends = group_spans(run)
    time = share * run.facts["elapsed_s"]
    return int(((starts <= time) & (time < ends)).sum())


def _mean_alive(run: Records) -> float:
    starts, ends = group_spans(run)
    return float((ends - starts).sum() / run.facts["elapsed_s"])


def figure_8(request: Request) -> list[Row]:
    """Reproduce Fig. 8: calendars of five clients over the first 100 seconds."""
    study = _schedules(request, "fig8", (_LITERAL, "hybrid"))
    numbers, end_s = _CLIENTS_OF_FIGURE_8, 100.0
    save_picture(figures.calendars, request.folder, "fig8", study.records, clients=numbers, start=0.0, end=end_s)
    busy: dict[str, list[float]] = {}
    for label, runs in study.records.items():
        for run in runs:
            visits = run.visits
            chosen = np.isin(visits["client"], numbers) & (visits["started"] < end_s)
            busy_s = (np.minimum(visits["finished"][chosen], end_s) - visits["started"][chosen]).sum()
            busy.setdefault(label, []).append(100 * float(busy_s) / (end_s * len(numbers)))
    write_json(request.folder / "fig8.json", {"busy_percent_by_seed": busy, "clients": numbers})
    words = ", ".join(f"{label} {spread(values, 0, ' %')}" for label, values in busy.items())
    harder = all(a > b for a, b in zip(busy[_LITERAL], busy["hybrid"], strict=True))
    what = f"busy in the first 100 s, clients {', '.join(map(str, numbers))}"
    return [claim(what, "each works much harder than under hybrid", words, harder, "on every seed; drawn: seed 1")]


def positions(request: Request) -> list[Row]:
    """Measure at which place of a group each cluster serves: the planner nearly fixes the order."""
    study = _schedules(request, "positions", (_LITERAL, _THIN, _PACED, _EVEN))
    shares = {label: np.mean([_place_shares(run) for run in runs], axis=0) for label, runs in study.records.items()}
    save_picture(figures.position_shares, request.folder, "positions", shares)
    rows = []
    for label, runs in study.records.items():
        last = [100 * float(_place_shares(run)[:, -1].max()) for run in runs]
        what = f"groups that end with the most frequent last cluster, {label}"
        rows.append(Row(what, "-", spread(last, 0, " %"), "10 % if even"))
    return rows


def _place_shares(run: Records) -> np.ndarray:
    """Return each cluster's share of the visits at each place, clusters ordered by their mean place."""
    shares = cluster_positions(run)
    assert shares is not None
    mean = (shares * np.arange(shares.shape[1])).sum(axis=1) / shares.sum(axis=1)
    ordered: np.ndarray = shares[np.argsort(mean)]
    return ordered


def variants(request: Request) -> list[Row]:
    """Compare FedHusky's variants and competitors, all tuned on one grid, in several data regimes."""
    base, budget, grid, _ = _learning(request, "variants")
    grid = {key: values for key, values in grid.items() if key != "training.epochs"}
    regimes = {"one label": 0.0, "Dir(0.1)": 0.1} if request.scale == "small" else {"one label": 0.0}
    rows = []
    for name, alpha in regimes.items():
        config = base.with_changes({"data.partition": {"kind": "dirichlet", "alpha": alpha}})
        study = tuned_study(config, _VARIANTS, grid, tuning_seeds=budget.tuning_seeds, seeds=budget.seeds)
        stem = "variants-" + name.replace(" ", "-").replace("(", "").replace(")", "")
        save_picture(figures.accuracy, request.folder, stem, study.records, target=base.run.target_accuracy)
        write_json(request.folder / f"{stem}.json", study.facts())
        save_comparison(request, stem, config, study)
        for label in _VARIANTS:
            summaries = [run.summary for run in study.runs[label]]
            times = [summary["time_to_target_s"] for summary in summaries]
            by_seed = ", ".join(_seconds(time) for time in times)
            rows.append(
                Row(
                    f"{name}: time to {100 * (base.run.target_accuracy or 0):.0f} %, {label}",
                    "-",
                    f"{_seconds(_median_time(study.records[label], base.run.target_accuracy or 0))} ({by_seed})",
                    f"{_settings_text(study.chosen(label))}; final accuracy "
                    + spread([100 * (summary["final_accuracy"] or 0.0) for summary in summaries], 1, " %"),
                )
            )
    return rows


_BOTH = ("mnist", "fashion-mnist")

EXHIBITS = (
    Exhibit("fedhusky/fig4", "label distributions of clients", figure_4, (0.1, 0.2, 0.2), _BOTH, "Fig. 4"),
    Exhibit("fedhusky/fig5", "accuracy against time, four strategies", figure_5, (1.8, 27, 200), _BOTH, "Fig. 5"),
    Exhibit("fedhusky/fig6", "busy ratio of each client", figure_6, (0.3, 3, 3), (), "Fig. 6"),
    Exhibit("fedhusky/fig7", "groups alive over time", figure_7, (0.2, 3, 3), (), "Fig. 7"),
    Exhibit("fedhusky/fig8", "calendars of five clients, 100 seconds", figure_8, (0.2, 0.2, 0.2), (), "Fig. 8"),
    Exhibit("fedhusky/positions", "which cluster comes when in a group", positions, (0.2, 3, 3)),
    Exhibit("fedhusky/variants", "variants of FedHusky and competitors, tuned", variants, (15, 40, 120), _BOTH),
)
