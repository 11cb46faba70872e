"""PSFL's structure: the best length of sequences by Eq. 21 and by training, and times of rounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from fedtempo.record import Records, write_json
from fedtempo.runs.config import Config
from fedtempo.strategies.planning.structure import Constants, StructureProblem
from fedtempo.studies.papers.figures import draw_boxes, draw_lines
from fedtempo.studies.papers.panels import (
    PairedTimes,
    in_words,
    learning_rates,
    median_to,
    ratio_words,
    resolution,
    save_comparison,
    study_panels,
    target,
    weakest,
)
from fedtempo.studies.papers.reproduction import Request, save_picture
from fedtempo.studies.papers.verdicts import Effect, Row, consistent, number, shown
from fedtempo.studies.tuning.study import plain_study

OTHERS = ("fedavg", "sequential")
OURS = ("psfl", "psfl-short")
"""PSFL with the structure that the paper finds for 20 clients per round (5 sequences of 4), and with sequences of 2."""
ALL = (*OURS, *OTHERS)
TABLE_ONE = {
    10: (2.18, 4.59, 3, 3),
    20: (3.48, 5.74, 4, 5),
    50: (6.54, 7.65, 7, 7),
    100: (10.56, 9.47, 10, 10),
    200: (16.95, 11.73, 25, 8),
}
"""By clients per round: S and W by Eq. 21, S and W by training."""
LENGTHS = {
    10: (1, 2, 3, 5, 10),
    20: (1, 2, 4, 5, 10),
    50: (1, 2, 5, 7, 10, 25),
    100: (1, 2, 4, 5, 10, 20),
    200: (1, 4, 8, 10, 20, 25),
}
"""Lengths to train with, by clients per round; 1 is parallel training."""
_CONSTANTS = Constants(gradient_variance=1.0, gradient_spread=0.4259, visit_s=2.5, visit_variance=1.0)
"""Fitted to the theoretical values of Table I."""
_VISITS_S, _DEVIATION = np.array((0.5, 1.0, 2.0, 4.0, 5.0)), 0.2
"""The paper's discrete distribution of mean visit times, and a visit's standard deviation as a share of its mean."""
_BY_EQ_26 = replace(_CONSTANTS, visit_variance=float(np.mean((_DEVIATION * _VISITS_S) ** 2)))
"""With kappa^2 = 0.37, which Eq. 26 gives for the printed distribution of times; it is not fitted."""
_HUNDRED = (
    "data.source=digits",
    "data.clients=100",
    'data.partition={ kind = "iid" }',
    "data.examples_per_client=10",
    "data.test_examples=100",
)
"""Data for measuring round times, which do not depend on data."""
_UNTRAINED_SEEDS = tuple(range(1, 11))
"""Ten seeds, with short horizons: nothing is trained."""


def everyone(config: Config, clients: int, **psfl: int) -> Config:
    """Return the configuration with `clients` per round for all competitors; psfl: a fixed width and length."""
    tables = {label: dict(config.variants[label]["strategy"]) for label in ALL}
    for label, table in tables.items():
        table["clients_per_round"] = clients
        if label == "psfl-short":
            table["width"] = clients // 2
        elif label == "psfl" and psfl:
            table.pop("constants")
            table.update(psfl)
    return config.with_changes({f"compare.{label}.strategy": table for label, table in tables.items()})


def reduced_settings(request: Request) -> Config:
    """Return the settings of all but Figs. 3 to 5: at medium scale a perceptron, which takes a quarter of the time."""
    base = request.settings("psfl")
    if request.scale != "medium":
        return base
    return base.with_changes({"model.network": "mlp", "model.hidden": [64, 64, 64, 64]})


def figure_6(request: Request) -> list[Row]:
    """Reproduce Fig. 6: round times for three ways to sample, four distributions of visit times and three lengths.

    The statement is about all four distributions; the headline is what the figure shows: mean and spread of the
    discrete and the Gaussian one.
    """
    horizon = 1000.0 if request.scale == "small" else 2000.0
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
        study = plain_study(config, [key.split(".")[1] for key in tables], _UNTRAINED_SEEDS)
        save_comparison(request, f"fig6-{of}", config, study)
        # The server learns visit times during the run: rounds count after it has seen most clients.
        seconds = {label: [np.diff(run.commits["time"])[25:] for run in runs] for label, runs in study.records.items()}
        panels[of] = {
            f"S = {length}": {how: np.concatenate(seconds[f"{how}-{length}"]) for how in ways} for length in lengths
        }
        for length in lengths:
            group = {how: seconds[f"{how}-{length}"] for how in ways}
            in_figure = preset in ("psfl-discrete", "psfl-normal")
            rows += [row.as_headline() if in_figure else row for row in sampling_rows(f"{of}, S = {length}", group)]
        pooled = {label: np.concatenate(values) for label, values in seconds.items()}
        facts[of] = {
            label: {
                "rounds": values.size,
                "mean_s": values.mean(),
                "std_s": values.std(),
                "percentiles_5_25_50_75_95_s": np.percentile(values, (5, 25, 50, 75, 95)),
            }
            for label, values in pooled.items()
        }
    save_picture(draw_boxes, request.folder, "fig6", panels, y="seconds of a round")
    write_json(request.folder / "fig6.json", facts)
    return rows


def sampling_rows(name: str, seconds: Mapping[str, Sequence[np.ndarray]]) -> list[Row]:
    """Return whether partition sampling has shorter and steadier rounds than the other ways, seed by seed.

    seconds: by way to sample, for each seed the times of its rounds.
    """
    rows = []
    for what, printed, measure in (("mean", "shortest", np.mean), ("spread", "steadiest", np.std)):
        measured = {how: [float(measure(values)) for values in by_seed] for how, by_seed in seconds.items()}
        effects = {
            how: Effect.of_times(measured["partition"], values, np.inf)
            for how, values in measured.items()
            if how != "partition"
        }
        words = ", ".join(f"{how} {np.mean(values):.2f} s" for how, values in measured.items())
        weaker = weakest(effects.values())
        rows.append(shown(f"{what} of rounds, {name}", f"partition {printed}", words, weaker, ratio_words(effects)))
    return rows


def _runs_by_length(
    request: Request, clients: int, lengths: Mapping[int, int]
) -> tuple[dict[int, Sequence[Records]], str]:
    """Return runs to the target by sequence length, and a remark with the learning rates.

    The learning rate is tuned for every length, on the same grid and seeds: longer sequences make more steps per round.
    clients: per round. lengths: the width for each length.
    """
    base, budget = reduced_settings(request), request.budget("psfl")
    if clients > base.n_clients:
        return {}, f"not measured: {base.n_clients} clients"
    config = with_lengths(base.with_changes({"run.stop_at_target": True}), clients, lengths)
    stem, labels = f"lengths-{clients}", [f"S{length}" for length in lengths]
    panel = f"{clients} clients a round"
    study = study_panels(request, stem, {panel: config}, labels, budget)[panel]
    return {length: study.records[f"S{length}"] for length in lengths}, learning_rates(study)


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
    lengths = {1: 20, 2: 10, 3: 6, 4: 5, 5: 4, 7: 2, 10: 2, 20: 1}
    runs, remark = _runs_by_length(request, 20, lengths)
    base = reduced_settings(request)
    measured = _medians(runs, target(base))
    write_json(
        request.folder / "fig7.json", {"median_time_to_target_s": {str(k): _finite(v) for k, v in measured.items()}}
    )
    widths = np.geomspace(1, 20, 200)
    theory = {"Eq. 21": problem.objective(widths).tolist()}
    save_picture(draw_lines, request.folder, "fig7-theory", (20 / widths).tolist(), theory, x="length, S", y="Eq. 21")
    times = {"time to the target (s)": list(measured.values())}
    save_picture(draw_lines, request.folder, "fig7-measured", list(measured), times, x="length, S", y="time (s)")
    return [
        *_by_theory("best length by Eq. 21, on the reals", 3.48, 20, "length"),
        best_length("best length by training", 4, runs, target(base), resolution(base), remark).as_headline(),
    ]


def _by_theory(what: str, paper: float, clients: int, side: str, remark: str = "", within: float = 0.005) -> list[Row]:
    """Return rows of the best length or width by Eq. 21, neither of which is judged.

    The first has the constants that were fitted to the paper's values, the second has kappa by Eq. 26. side: "length"
    or "width".
    """
    fitted, by_eq_26 = (
        float(getattr(StructureProblem(constants, clients).optimum(), side)) for constants in (_CONSTANTS, _BY_EQ_26)
    )
    return [
        consistent(what, paper, fitted, within=within, digits=2, remark=remark),
        Row(
            f"{what}, kappa by Eq. 26",
            f"{paper:.2f}",
            f"{by_eq_26:.2f}",
            "by Eq. 26: kappa^2 = 0.37; the other constants are fitted",
            f"{by_eq_26 / paper:.2f}",
        ),
    ]


def _medians(runs: Mapping[int, Sequence[Records]], level: float) -> dict[int, float]:
    return {length: median_to(by_seed, level) for length, by_seed in runs.items()}


def best_length(
    what: str, paper: int, runs: Mapping[int, Sequence[Records]], level: float, tick_s: float, remark: str
) -> Row:
    """Return the row of the length that reached the target first; a neighbour of the printed length is near enough.

    The effect is that the printed length is faster than the shortest and the longest ones tried. tick_s: time between
    evaluations.
    """
    medians = _medians(runs, level)
    first = min(medians, key=lambda length: medians[length])
    ends = [length for length in (min(runs), max(runs)) if length != paper]
    against = {f"S = {length}": PairedTimes.of(runs[paper], runs[length], level).effect(tick_s) for length in ends}
    words = ", ".join(f"S = {length}: {in_words(time)}" for length, time in medians.items())
    remark = f"{words}; S = {paper} {ratio_words(against)}; {remark}"
    return number(what, paper, [first], within=0.26, effect=weakest(against.values()), digits=0, remark=remark)


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None


def table_1(request: Request) -> list[Row]:
    """Reproduce Table I: best lengths and widths for five numbers of clients per round."""
    rows: list[Row] = []
    for clients, (length, width, _, _) in TABLE_ONE.items():
        odd = "the printed S and W multiply to 199, not 200" if clients == 200 else ""
        within = 0.01 if clients == 200 else 0.005
        rows += _by_theory(f"S by Eq. 21, {clients} clients", length, clients, "length", odd, within)
        rows += _by_theory(f"W by Eq. 21, {clients} clients", width, clients, "width", within=within)
    times, base = {}, reduced_settings(request)
    for clients, (_, _, length, width) in TABLE_ONE.items():
        what, printed = f"S by training, {clients} clients", f"{length} (W = {width})"
        if request.scale == "small" and clients > 20:
            rows.append(Row(what, printed, "not measured at this scale"))
            continue
        runs, remark = _runs_by_length(request, clients, {s: clients // s for s in LENGTHS[clients]})
        if runs:
            row = best_length(what, length, runs, target(base), resolution(base), remark)
            rows.append(row.as_headline())
        else:
            rows.append(Row(what, printed, remark))
        times[clients] = {str(s): _finite(time) for s, time in _medians(runs, target(base)).items()}
    by_theory = {clients: StructureProblem(_CONSTANTS, clients).optimum().length for clients in TABLE_ONE}
    lines = {
        "Eq. 21": list(by_theory.values()),
        "Eq. 21 as printed": [float(length) for length, _, _, _ in TABLE_ONE.values()],
        "by training, as printed": [float(length) for _, _, length, _ in TABLE_ONE.values()],
    }
    save_picture(draw_lines, request.folder, "table1", list(TABLE_ONE), lines, x="clients a round", y="best length, S")
    write_json(request.folder / "table1.json", {"length_by_eq21": by_theory, "median_time_to_target_s": times})
    return rows
