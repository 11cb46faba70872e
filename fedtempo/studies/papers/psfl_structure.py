"""PSFL's structure: the best length of sequences by Eq. 21 and by training, and times of rounds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from fedtempo.record import write_json
from fedtempo.runs.config import Config
from fedtempo.strategies.planning.structure import Constants, StructureProblem
from fedtempo.studies.papers.figures import draw_boxes, draw_lines
from fedtempo.studies.papers.panels import in_words, learning_rates, median_to, save_comparison, study_panels, target
from fedtempo.studies.papers.reproduction import Request, Row, claim, number, save_picture
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
    50: (2, 5, 7, 10, 25),
    100: (4, 5, 10, 20),
    200: (8, 10, 20, 25),
}
_CONSTANTS = Constants(gradient_variance=1.0, gradient_spread=0.4259, visit_s=2.5, visit_variance=1.0)
_HUNDRED = (
    "data.source=digits",
    "data.clients=100",
    'data.partition={ kind = "iid" }',
    "data.examples_per_client=10",
    "data.test_examples=100",
)
"""Data for measuring round times, which do not depend on data."""


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
    base, budget = reduced_settings(request), request.budget("psfl")
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
    return {length: median_to(study.records[f"S{length}"], target(base)) for length in lengths}, learning_rates(tuned)


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
    for clients, (length, width, _, _) in TABLE_ONE.items():
        best = StructureProblem(_CONSTANTS, clients).optimum()
        odd = "the printed S and W multiply to 199, not 200" if clients == 200 else ""
        within = 0.01 if clients == 200 else 0.005
        rows.append(
            number(f"S by Eq. 21, {clients} clients", length, [best.length], within=within, digits=2, remark=odd)
        )
        rows.append(number(f"W by Eq. 21, {clients} clients", width, [best.width], within=within, digits=2))
    times = {}
    for clients, (_, _, length, width) in TABLE_ONE.items():
        what, printed = f"S by training, {clients} clients", f"{length} (W = {width})"
        if request.scale == "small" and clients > 20:
            rows.append(Row(what, printed, "not measured at this scale"))
            continue
        measured, remark = _measured_lengths(request, clients, {s: clients // s for s in LENGTHS[clients]})
        rows.append(_best_length(what, length, measured, remark) if measured else Row(what, printed, remark))
        times[clients] = {str(s): _finite(time) for s, time in measured.items()}
    by_theory = {clients: StructureProblem(_CONSTANTS, clients).optimum().length for clients in TABLE_ONE}
    lines = {
        "Eq. 21": list(by_theory.values()),
        "Eq. 21 as printed": [float(length) for length, _, _, _ in TABLE_ONE.values()],
        "by training, as printed": [float(length) for _, _, length, _ in TABLE_ONE.values()],
    }
    save_picture(draw_lines, request.folder, "table1", list(TABLE_ONE), lines, x="clients a round", y="best length, S")
    write_json(request.folder / "table1.json", {"length_by_eq21": by_theory, "median_time_to_target_s": times})
    return rows
