"""The figures and the table of PSFL (Zhou, Zhao, Xu, Xiao, Wu, Zhang)."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from fedtempo.record import write_json
from fedtempo.runs.config import Config
from fedtempo.strategies.planning.structure import Constants, StructureProblem
from fedtempo.studies.papers.figures import draw_boxes, draw_lines
from fedtempo.studies.papers.panels import (
    Panels,
    draw_curves,
    final_accuracies,
    first_to_reach,
    in_words,
    learning_rates,
    median_to,
    percentages,
    save_comparison,
    slug,
    study_panels,
)
from fedtempo.studies.papers.reproduction import Exhibit, Request, Row, claim, number, save_picture, spread
from fedtempo.studies.tuning.study import Study, plain_study

_OTHERS = ("fedavg", "sequential")
_OURS = ("psfl", "psfl-short")
"""PSFL with the structure that the paper finds for 20 clients per round (5 sequences of 4), and with sequences of 2."""
_LABELS = ("psfl", *_OTHERS)
_ALL = (*_OURS, *_OTHERS)
_TABLE_ONE = {
    10: (2.18, 4.59, 3, 3),
    20: (3.48, 5.74, 4, 5),
    50: (6.54, 7.65, 7, 7),
    100: (10.56, 9.47, 10, 10),
    200: (16.95, 11.73, 25, 8),
}
"""By clients per round: S and W by Eq. 21, S and W by training."""
_HUNDRED = (
    "data.source=digits",
    "data.clients=100",
    'data.partition={ kind = "iid" }',
    "data.examples_per_client=10",
    "data.test_examples=100",
)
"""Data for measuring round times, which do not depend on data."""
_LENGTHS = {
    10: (1, 2, 3, 5, 10),
    20: (1, 2, 4, 5, 10),
    50: (2, 5, 7, 10, 25),
    100: (4, 5, 10, 20),
    200: (8, 10, 20, 25),
}
_CONSTANTS = Constants(gradient_variance=1.0, gradient_spread=0.4259, visit_s=2.5, visit_variance=1.0)


def everyone(config: Config, clients: int, **psfl: int) -> Config:
    """Return the configuration with `clients` per round for all competitors; psfl: a fixed width and length."""
    tables = {label: dict(config.variants[label]["strategy"]) for label in _ALL}
    for label, table in tables.items():
        table["clients_per_round"] = clients
        if label == "psfl-short":
            table["width"] = clients // 2
        elif label == "psfl" and psfl:
            table.pop("constants")
            table.update(psfl)
    return config.with_changes({f"compare.{label}.strategy": table for label, table in tables.items()})


def _settings(request: Request) -> Config:
    """Return the settings of all but Figs. 3 to 5: at medium scale a perceptron, which takes a quarter of the time."""
    base = request.settings("psfl")
    if request.scale != "medium":
        return base
    return base.with_changes({"model.network": "mlp", "model.hidden": [64, 64, 64, 64]})


def _level(config: Config) -> float:
    assert config.run.target_accuracy is not None
    return config.run.target_accuracy


def figure_1(request: Request) -> list[Row]:
    """Reproduce Fig. 1: rounds and times of the three training methods, 9 clients per round, 3 sequences of 3."""
    base = everyone(_settings(request), 9, width=3, length=3)
    assert base.run.horizon is not None
    base = base.with_changes({"run.horizon": 2 * base.run.horizon})  # nine clients per round need more rounds
    panels = study_panels(request, "fig1", {"9 clients a round": base}, _LABELS, request.budget("psfl"))
    draw_curves(request, "fig1-rounds", panels, axis="rounds")
    draw_curves(request, "fig1-time", panels)
    study, level = panels["9 clients a round"], _level(base)
    rounds = {label: median_to(study.records[label], level, "rounds") for label in _LABELS}
    round_s = {
        label: [float(np.diff(run.commits["time"], prepend=0.0).mean()) for run in study.records[label]]
        for label in _LABELS
    }
    slower = [a / b for a, b in zip(round_s["sequential"], round_s["fedavg"])]
    more = rounds["fedavg"] / rounds["sequential"]
    parallel, sequential = (in_words(rounds[label], "rounds") for label in ("fedavg", "sequential"))
    return [
        number(
            f"rounds to {level:.0%}, parallel over sequential",
            4.0,
            [more] if np.isfinite(more) else [float("inf")],
            within=0.25,
            direction=more > 1,
            remark=f"{parallel} / {sequential}; {learning_rates(study)}",
        ),
        claim("time of a round, sequential over parallel", "more than 4", spread(slower), statistics.fmean(slower) > 4),
        *first_to_reach(panels, {"9 clients a round": level}, "psfl", _OTHERS, "psfl first"),
    ]


def _baselines(request: Request, stem: str) -> tuple[Panels, dict[str, float]]:
    """Run the training methods on the paper's three data sets, or on the requested one, in two readings.

    The paper states neither the learning rate nor whether all methods share it: one reading tunes it for each method,
    the other uses that of the settings for all. Returns the panels and the target accuracy of each.
    """
    base = request.settings("psfl")
    bases = {base.data.source: base}
    if request.scale == "full" and request.data is None:
        bases["cifar100"] = base.with_changes({"data.source": "cifar100", "run.target_accuracy": 0.25})
        ham = {"data.source": "ham10000", "model.network": "cnn-ham10000", "run.target_accuracy": 0.7}
        bases["ham10000"] = base.with_changes(ham)
    budget = request.budget("psfl")
    panels = dict(study_panels(request, stem, bases, _ALL, budget))
    level = {name: _level(config) for name, config in bases.items()}
    alike = {f"{name}, lr {config.training.lr:g} for all": config for name, config in bases.items()}
    for name, config in alike.items():
        panels[name] = plain_study(config, _LABELS, budget.seeds)
        level[name] = _level(config)
        save_comparison(request, f"{stem}-{slug(name)}", config, panels[name])
    write_json(request.folder / f"{stem}-one-lr.json", {name: panels[name].facts() for name in alike})
    return panels, level


def _ours(study: Study) -> tuple[str, ...]:
    return tuple(label for label in _OURS if label in study.runs)


def _firsts(panels: Panels, level: Mapping[str, float]) -> list[Row]:
    """Return for each panel whether PSFL, in each of its structures, is first."""
    return [
        row
        for name, study in panels.items()
        for ours in _ours(study)
        for row in first_to_reach({name: study}, level, ours, _OTHERS, f"{ours} first")
    ]


def figure_3(request: Request) -> list[Row]:
    """Reproduce Fig. 3: test accuracy over time."""
    panels, level = _baselines(request, "fig3")
    draw_curves(request, "fig3", panels, targets=level)
    return _firsts(panels, level)


def figure_4(request: Request) -> list[Row]:
    """Reproduce Fig. 4: test loss over time, compared by its mean over the run."""
    panels, _ = _baselines(request, "fig4")
    draw_curves(request, "fig4", panels, column="loss")
    rows = []
    for name, study in panels.items():
        mean = {label: [float(run.evaluations["loss"].mean()) for run in study.records[label]] for label in study.runs}
        words = ", ".join(f"{label} {spread(values, 2)}" for label, values in mean.items())
        means = {label: statistics.fmean(values) for label, values in mean.items()}
        for ours in _ours(study):
            lowest = means[ours] < min(means[label] for label in _OTHERS)
            what = f"{name}: test loss, mean over the run, {ours}"
            rows.append(claim(what, f"below {' and '.join(_OTHERS)}", words, lowest, learning_rates(study)))
    return rows


def figure_5(request: Request) -> list[Row]:
    """Reproduce Fig. 5: time to several accuracies."""
    panels, level = _baselines(request, "fig5")
    rows: list[Row] = []
    for name, study in panels.items():
        levels = [round(share * level[name], 3) for share in (0.7, 0.8, 0.9, 1.0)]
        times = {label: [median_to(runs, at) for at in levels] for label, runs in study.records.items()}
        save_picture(draw_lines, request.folder, f"fig5-{slug(name)}", levels, times, x="target accuracy", y="time (s)")
        for index, at in enumerate(levels):
            best = min(times[label][index] for label in _OTHERS)
            words = ", ".join(f"{label} {in_words(of[index])}" for label, of in times.items())
            for ours in _ours(study):
                share = times[ours][index] / best if np.isfinite(best) else 0.0
                if at == level[name]:
                    what = f"{name}: time to {at:.0%}, {ours} over the better of the others"
                    ratio = [share] if np.isfinite(share) else [float("inf")]
                    rows.append(number(what, 0.67, ratio, within=0.15, direction=share < 1, digits=2, remark=words))
                else:
                    rows.append(claim(f"{name}: time to {at:.0%}", f"{ours} first", words, share < 1))
    return rows


def figure_6(request: Request) -> list[Row]:
    """Reproduce Fig. 6: round times for three ways to sample, four distributions of visit times and three lengths."""
    horizon = 2000.0 if request.scale == "small" else 20_000.0
    ways, lengths = ("partition", "uniform", "weighted"), (3, 4, 5)
    rows, panels, facts = [], {}, {}
    for preset in ("psfl-discrete", "psfl-normal", "psfl-uniform", "psfl-exponential"):
        of = preset.removeprefix("psfl-")
        nothing_trained = ["executor.kind=none", "data.source=digits", "model.network=mlp"]
        sets = [*nothing_trained, f"fleet.preset={preset}", f"run.horizon={horizon}", *_HUNDRED]
        tables = {
            f"compare.{how}-{length}.strategy": {
                "name": "psfl",
                "width": 20 // length,
                "length": length,
                "sampling": how,
            }
            for length in lengths
            for how in ways
        }
        config = request.settings("psfl", sets).with_changes(tables)
        study = plain_study(config, [key.split(".")[1] for key in tables], (1,), workers=1)
        save_comparison(request, f"fig6-{of}", config, study)
        # The server learns visit times during the run: rounds count after it has seen most clients.
        seconds = {label: np.diff(runs[0].commits["time"])[25:] for label, runs in study.records.items()}
        panels[of] = {f"S = {length}": {how: seconds[f"{how}-{length}"] for how in ways} for length in lengths}
        for length, group in panels[of].items():
            for what, printed, measure in (("mean", "shortest", np.mean), ("spread", "steadiest", np.std)):
                measured = {how: float(measure(values)) for how, values in group.items()}
                words = ", ".join(f"{how} {value:.2f} s" for how, value in measured.items())
                holds = measured["partition"] < min(measured["uniform"], measured["weighted"])
                rows.append(claim(f"{what} of rounds, {of}, {length}", f"partition {printed}", words, holds))
        facts[of] = {
            label: {
                "rounds": values.size,
                "mean_s": values.mean(),
                "std_s": values.std(),
                "percentiles_5_25_50_75_95_s": np.percentile(values, (5, 25, 50, 75, 95)),
            }
            for label, values in seconds.items()
        }
    save_picture(draw_boxes, request.folder, "fig6", panels, y="seconds of a round")
    write_json(request.folder / "fig6.json", facts)
    return rows


def _measured_lengths(request: Request, clients: int, lengths: Mapping[int, int]) -> tuple[dict[int, float], str]:
    """Return the median time to the target by sequence length, and a remark; all with psfl's best learning rate.

    clients: per round. lengths: the width for each length.
    """
    base, budget = _settings(request), request.budget("psfl")
    if clients > base.n_clients:
        return {}, f"not measured: {base.n_clients} clients"
    tuned = study_panels(
        request,
        f"tuning-{clients}",
        {"psfl": everyone(base, clients)},
        ("psfl",),
        replace(budget, seeds=budget.seeds[:1]),
    )["psfl"]
    at_best = base.with_changes({**tuned.chosen("psfl"), "run.stop_at_target": True})
    config = with_lengths(at_best, clients, lengths)
    study = plain_study(config, [f"S{length}" for length in lengths], budget.seeds)
    save_comparison(request, f"lengths-{clients}", config, study)
    return {length: median_to(study.records[f"S{length}"], _level(base)) for length in lengths}, learning_rates(tuned)


def with_lengths(base: Config, clients: int, lengths: Mapping[int, int]) -> Config:
    """Return the configuration with a competitor S<length> for each sequence length; lengths: the width for each."""
    shapes = {f"S{length}": {"width": width, "length": length} for length, width in lengths.items()}
    return base.with_changes(
        {
            f"compare.{label}.strategy": {"name": "psfl", "clients_per_round": clients, **shape}
            for label, shape in shapes.items()
        }
    )


def figure_7(request: Request) -> list[Row]:
    """Reproduce Fig. 7: the best sequence length with 20 clients per round, by Eq. 21 and by training."""
    problem = StructureProblem(_CONSTANTS, 20)
    best = problem.optimum()
    lengths = {1: 20, 2: 10, 3: 6, 4: 5, 5: 4, 7: 2, 10: 2, 20: 1}
    measured, remark = _measured_lengths(request, 20, lengths)
    write_json(
        request.folder / "fig7.json", {"median_time_to_target_s": {str(k): _finite(v) for k, v in measured.items()}}
    )
    widths = np.geomspace(1, 20, 200)
    theory = {"Eq. 21": problem.objective(widths).tolist()}
    save_picture(draw_lines, request.folder, "fig7-theory", (20 / widths).tolist(), theory, x="length, S", y="Eq. 21")
    times = {"time to the target (s)": list(measured.values())}
    save_picture(draw_lines, request.folder, "fig7-measured", list(measured), times, x="length, S", y="time (s)")
    return [
        number("best length by Eq. 21, on the reals", 3.48, [best.length], within=0.005, digits=2),
        _best_length("best length by training", 4, measured, remark),
    ]


def _best_length(what: str, paper: int, measured: Mapping[int, float], remark: str) -> Row:
    """Return the row of the length that reached the target first; a neighbour of the printed length is near enough."""
    shortest = min(measured, key=lambda length: measured[length])
    inside = min(measured) < shortest < max(measured)
    words = ", ".join(f"S = {length}: {in_words(time)}" for length, time in measured.items())
    return number(what, paper, [shortest], within=0.26, direction=inside, digits=0, remark=f"{words}; {remark}")


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None


def table_1(request: Request) -> list[Row]:
    """Reproduce Table I: best lengths and widths for five numbers of clients per round."""
    rows = []
    for clients, (length, width, _, _) in _TABLE_ONE.items():
        best = StructureProblem(_CONSTANTS, clients).optimum()
        odd = "the printed S and W multiply to 199, not 200" if clients == 200 else ""
        within = 0.01 if clients == 200 else 0.005
        rows.append(
            number(f"S by Eq. 21, {clients} clients", length, [best.length], within=within, digits=2, remark=odd)
        )
        rows.append(number(f"W by Eq. 21, {clients} clients", width, [best.width], within=within, digits=2))
    times = {}
    for clients, (_, _, length, width) in _TABLE_ONE.items():
        what, printed = f"S by training, {clients} clients", f"{length} (W = {width})"
        if request.scale == "small" and clients > 20:
            rows.append(Row(what, printed, "not measured at this scale"))
            continue
        measured, remark = _measured_lengths(request, clients, {s: clients // s for s in _LENGTHS[clients]})
        rows.append(_best_length(what, length, measured, remark) if measured else Row(what, printed, remark))
        times[clients] = {str(s): _finite(time) for s, time in measured.items()}
    by_theory = {clients: StructureProblem(_CONSTANTS, clients).optimum().length for clients in _TABLE_ONE}
    lines = {
        "Eq. 21": list(by_theory.values()),
        "Eq. 21 as printed": [float(length) for length, _, _, _ in _TABLE_ONE.values()],
        "by training, as printed": [float(length) for _, _, length, _ in _TABLE_ONE.values()],
    }
    save_picture(draw_lines, request.folder, "table1", list(_TABLE_ONE), lines, x="clients a round", y="best length, S")
    write_json(request.folder / "table1.json", {"length_by_eq21": by_theory, "median_time_to_target_s": times})
    return rows


def figure_8(request: Request) -> list[Row]:
    """Reproduce Fig. 8: accuracy over time for three partitions of the data."""
    base = _settings(request)
    deals = {
        "Dir(0.2)": {"kind": "dirichlet", "alpha": 0.2, "by": "class", "min_examples": 5},
        "ExDir(1, 10)": {"kind": "ex-dirichlet", "classes_per_client": 1, "alpha": 10.0},
        "ExDir(2, 5)": {"kind": "ex-dirichlet", "classes_per_client": 2, "alpha": 5.0},
    }
    bases = {name: base.with_changes({"data.partition": deal}) for name, deal in deals.items()}
    panels = study_panels(request, "fig8", bases, _ALL, request.budget("psfl"))
    level = dict.fromkeys(panels, _level(base))
    draw_curves(request, "fig8", panels, targets=level)
    return _firsts(panels, level)


def figure_9(request: Request) -> list[Row]:
    """Reproduce Fig. 9: accuracy over time with more clients per round."""
    base = _settings(request)
    numbers = (50, 100, 200) if request.scale == "full" else (base.n_clients // 5, base.n_clients // 2)
    bases = {f"{clients} clients a round": everyone(base, clients) for clients in numbers}
    panels = study_panels(request, "fig9", bases, _ALL, request.budget("psfl"))
    level = dict.fromkeys(panels, _level(base))
    draw_curves(request, "fig9", panels, targets=level)
    rows = _firsts(panels, level)
    for name, study in panels.items():
        ends = ", ".join(f"{label} {percentages(final_accuracies(study, label))}" for label in _ALL)
        rows.append(Row(f"{name}: final accuracy", "-", ends))
    return rows


_CIFAR, _THREE = ("cifar10",), ("cifar10", "cifar100", "ham10000")

EXHIBITS = (
    Exhibit("psfl/fig1", "parallel, sequential and mixed training", figure_1, (0.3, 1, 120), _CIFAR, "Fig. 1"),
    Exhibit("psfl/fig3", "test accuracy over time", figure_3, (0.3, 3, 300), _THREE, "Fig. 3"),
    Exhibit("psfl/fig4", "test loss over time", figure_4, (0.3, 3, 300), _THREE, "Fig. 4"),
    Exhibit("psfl/fig5", "time to several accuracies", figure_5, (0.3, 3, 300), _THREE, "Fig. 5"),
    Exhibit("psfl/fig6", "times of rounds under three ways to sample", figure_6, (0.2, 2, 2), (), "Fig. 6"),
    Exhibit("psfl/fig7", "the best length of sequences", figure_7, (0.4, 1, 300), _CIFAR, "Fig. 7"),
    Exhibit("psfl/fig8", "accuracy under three ways to deal the data", figure_8, (0.7, 2, 300), _CIFAR, "Fig. 8"),
    Exhibit("psfl/fig9", "accuracy with more clients a round", figure_9, (0.5, 2, 500), _CIFAR, "Fig. 9"),
    Exhibit("psfl/table1", "best structures, by Eq. 21 and by training", table_1, (0.5, 2, 500), _CIFAR, "Table I"),
)
