"""The figures of FedHusky that need no training: busy ratios, groups alive and calendars."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedtempo.record import Records, write_json
from fedtempo.record.measures import busy_ratios, group_spans, groups_alive
from fedtempo.report import figures
from fedtempo.report.series import cluster_positions
from fedtempo.studies.papers.panels import save_comparison
from fedtempo.studies.papers.reproduction import Request, save_picture
from fedtempo.studies.papers.verdicts import Effect, Row, number, shown, spread
from fedtempo.studies.tuning.study import Study, plain_study

LITERAL, HUSKY, _THIN, PACED = "fedhusky-paper", "fedhusky", "fedhusky-thin", "fedhusky-paced"
STEP = "fedhusky-paper-step"
"""The literal method with one step along the full gradient per visit (Eq. 15)."""
_EVEN = "fedhusky-even"
_CLIENTS_OF_FIGURE_8 = (8, 18, 22, 35, 45)


def _schedules(request: Request, stem: str, labels: Sequence[str]) -> Study:
    """Run schedules without training, in the paper's setting; the scales differ in the number of seeds."""
    base = request.settings("fedhusky", ["executor.kind=none", "run.horizon=1000"])
    seeds = {"small": 5, "medium": 10, "full": 20}[request.scale]
    study = plain_study(base, labels, range(1, seeds + 1))
    save_comparison(request, stem, base, study)
    return study


def figure_6(request: Request) -> list[Row]:
    """Reproduce Fig. 6: busy ratio of each client, and which readings of the paper come near its numbers."""
    study = _schedules(request, "fig6", (LITERAL, "hybrid", _THIN, PACED, _EVEN, HUSKY))
    two = {label: study.records[label][:1] for label in (LITERAL, "hybrid")}
    save_picture(figures.busy, request.folder, "fig6", two, by_client=True)
    save_picture(figures.busy, request.folder, "fig6-readings", study.records)
    remarks = {
        _THIN: "attempts at least 1.5 s apart, as if a solver took that long",
        PACED: "random order at a steady pace, waits allowed",
        _EVEN: "clusters evened out in speed",
        HUSKY: "the default: mixing differs; the schedule is the literal one but for its first group",
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
            row = number(quantity, paper, values, within=0.15, unit=" %", remark=remark)
            rows.append(row.unjudged() if label in remarks else row)
    busier = [float(a.mean() / b.mean()) for a, b in zip(ratios[LITERAL], ratios["hybrid"], strict=True)]
    effect = Effect.of([float(np.log(ratio)) for ratio in busier])
    what, remark = "literal FedHusky busier than hybrid, times", "63.4 / 8.2, “670 % more”"
    rows.append(number(what, 7.7, busier, within=0.15, effect=effect, remark=remark).as_headline())
    write_json(request.folder / "fig6.json", {"busy_percent_by_seed_and_client": ratios})
    return rows


def figure_7(request: Request) -> list[Row]:
    """Reproduce Fig. 7: groups alive over time."""
    study = _schedules(request, "fig7", (LITERAL, "hybrid", _THIN, PACED))
    save_picture(figures.alive, request.folder, "fig7", study.records)
    means = {label: [_mean_alive(run) for run in runs] for label, runs in study.records.items()}
    literal, *readings = (
        number(f"groups alive, mean, {label}", 32, means[label], within=0.15, digits=0)
        for label in (LITERAL, _THIN, PACED)
    )
    most = [int(groups_alive(run)[1].max()) for run in study.records["hybrid"]]
    fixed = Row("groups alive, most, hybrid", "at most 5", str(max(most)), "5 by construction: 50 clients, 10 clusters")
    late = [_alive_at(run, 0.99) / _mean_alive(run) for run in study.records[LITERAL]]
    drop = shown(
        f"groups alive at 0.99 T over the mean, {LITERAL}",
        "drop: no group may end past T",
        spread(late, 2),
        Effect.of([0.5 - share for share in late]),
        "below half",
    )
    write_json(request.folder / "fig7.json", {"mean_groups_alive_by_seed": means, "most_of_hybrid_by_seed": most})
    return [literal.as_headline(), *(row.unjudged() for row in readings), fixed, drop]


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
    study = _schedules(request, "fig8", (LITERAL, "hybrid"))
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
    effect = Effect.of([a - b for a, b in zip(busy[LITERAL], busy["hybrid"], strict=True)])
    what = f"busy in the first 100 s, clients {', '.join(map(str, numbers))}"
    remark = f"by {effect.words(0, ' points')}; drawn: seed 1"
    return [shown(what, "each works much harder than under hybrid", words, effect, remark).as_headline()]


def positions(request: Request) -> list[Row]:
    """Measure at which place of a group each cluster serves: the planner nearly fixes the order."""
    study = _schedules(request, "positions", (LITERAL, _THIN, PACED, _EVEN))
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
