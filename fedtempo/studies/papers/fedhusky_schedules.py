"""The figures of FedHusky that need no training: busy ratios, groups alive and calendars."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedtempo.record import Records, write_json
from fedtempo.record.measures import busy_ratios, group_spans, groups_alive
from fedtempo.report import figures
from fedtempo.report.series import cluster_positions
from fedtempo.studies.papers.panels import save_comparison
from fedtempo.studies.papers.reproduction import Request, Row, claim, number, save_picture, spread
from fedtempo.studies.tuning.study import Study, plain_study

LITERAL, HUSKY, _THIN, PACED = "fedhusky-paper", "fedhusky", "fedhusky-thin", "fedhusky-paced"
_EVEN = "fedhusky-even"
_CLIENTS_OF_FIGURE_8 = (8, 18, 22, 35, 45)


def _schedules(request: Request, stem: str, labels: Sequence[str]) -> Study:
    """Run schedules without training, in the paper's setting; the scales differ in the number of seeds."""
    base = request.settings("fedhusky", ["executor.kind=none", "run.horizon=1000"])
    seeds = {"small": 3, "medium": 10, "full": 20}[request.scale]
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
        HUSKY: "the default: mixing differs, the schedule is the literal one",
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
    busier = [float(a.mean() / b.mean()) for a, b in zip(ratios[LITERAL], ratios["hybrid"], strict=True)]
    what = "literal FedHusky busier than hybrid, times"
    rows.append(number(what, 7.7, busier, within=0.15, direction=min(busier) > 1, remark="63.4 / 8.2, “670 % more”"))
    write_json(request.folder / "fig6.json", {"busy_percent_by_seed_and_client": ratios})
    return rows


def figure_7(request: Request) -> list[Row]:
    """Reproduce Fig. 7: groups alive over time."""
    study = _schedules(request, "fig7", (LITERAL, "hybrid", _THIN, PACED))
    save_picture(figures.alive, request.folder, "fig7", study.records)
    means = {label: [_mean_alive(run) for run in runs] for label, runs in study.records.items()}
    rows = [
        number(f"groups alive, mean, {label}", 32, means[label], within=0.15, digits=0, judged=label == LITERAL)
        for label in (LITERAL, _THIN, PACED)
    ]
    most = [int(groups_alive(run)[1].max()) for run in study.records["hybrid"]]
    rows.append(claim("groups alive, most, hybrid", "at most 5", str(max(most)), max(most) <= 5))
    late = [_alive_at(run, 0.99) < 0.5 * _mean_alive(run) for run in study.records[LITERAL]]
    rows.append(
        claim(
            f"groups alive in the end, {LITERAL}",
            "drop: no group may end past T",
            f"below half the mean at 0.99 T on {sum(late)} of {len(late)} seeds",
            all(late),
        )
    )
    identity = [_mean_alive(run) / (run.facts["n_clients"] * busy_ratios(run).mean()) for run in study.records[LITERAL]]
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
    harder = all(a > b for a, b in zip(busy[LITERAL], busy["hybrid"], strict=True))
    what = f"busy in the first 100 s, clients {', '.join(map(str, numbers))}"
    return [claim(what, "each works much harder than under hybrid", words, harder, "on every seed; drawn: seed 1")]


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
