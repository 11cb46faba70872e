"""Runs reduced to the numbers that a picture shows: curves over seeds, ranks, calendars, places. Draws nothing."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fedtempo.record.client_measures import MODELS, Kind, measures_of
from fedtempo.record.measures import busy_ratios, elapsed_s, groups_alive, participation
from fedtempo.record.metric import Measure, last_by_class, measure_of, metric_series, metrics_of
from fedtempo.record.run import Records, Table

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Band:
    """A curve over seeds: mean, lowest and highest at each x, shape (points,) each; NaN where there is no value."""

    x: Floats
    mean: Floats
    low: Floats
    high: Floats


@dataclass(frozen=True, eq=False)
class Calendar:
    """Visits of a few clients: row (index into the requested clients), group (-1: none), times in seconds."""

    row: Ints
    group: Ints
    started: Floats
    received: Floats
    computed: Floats
    finished: Floats


def measured(runs: Mapping[str, Sequence[Records]]) -> Measure:
    """Return the measure of runs' evaluations, taken from the first run. runs: by label."""
    return measure_of(next(iter(runs.values()))[0].facts.get("data"))


def changes_of_data(runs: Mapping[str, Sequence[Records]]) -> list[float]:
    """Return the times at which examples change before the end of a run, ascending, seconds. runs: by label."""
    everyone = [run for group in runs.values() for run in group]
    times = [(run, time) for run in everyone for time in (run.facts.get("data") or {}).get("changes", ())]
    return sorted({time for run, time in times if time <= elapsed_s(run)})


def further_measures(runs: Mapping[str, Sequence[Records]]) -> dict[str, Measure]:
    """Return the further measures of runs by name. runs: by label."""
    return {
        name: measure for group in runs.values() for run in group for name, measure in metrics_of(run.facts).items()
    }


def evaluation_curve(runs: Sequence[Records], column: str, points: int = 400) -> Band | None:
    """Return "accuracy" or "loss" of the global model over time; None if no run has any.

    If seeds were evaluated at different times, each keeps its last value until the next one, and has none after its
    end. There is no mean (NaN) where any seed has a value that is not finite.
    """
    return _curve([(run, run.evaluations["time"], run.evaluations[column]) for run in runs], points)


def metric_curve(runs: Sequence[Records], name: str, points: int = 400) -> Band | None:
    """Return a further measure of the global model over time (`run.metrics`), as `evaluation_curve`."""
    return _curve([(run, *metric_series(run.further["metrics"], name)) for run in runs], points)


def _curve(evaluated: Sequence[tuple[Records, Floats, Floats]], points: int) -> Band | None:
    """Return the curve of runs with the times and values of their evaluations."""
    curves = [(times, _finite(values), elapsed_s(run)) for run, times, values in evaluated if values.size]
    if not any(np.isfinite(values).any() for _, values, _ in curves):
        return None
    x = curves[0][0]
    if x.size > points or any(not np.array_equal(x, times) for times, _, _ in curves):
        x = np.linspace(0.0, max(end for _, _, end in curves), points)
    return _band(x, [_held(x, times, values, end) for times, values, end in curves])


def round_curve(runs: Sequence[Records], column: str) -> Band | None:
    """Return "accuracy" or "loss" over commits, the last evaluation of each version; else as `evaluation_curve`."""
    evaluations = [run.evaluations for run in runs if run.evaluations[column].size]
    curves = [(table["version"].astype(float), _finite(table[column])) for table in evaluations]
    if not any(np.isfinite(values).any() for _, values in curves):
        return None
    x = np.arange(max(versions[-1] for versions, _ in curves) + 1)
    return _band(x, [_held(x, versions, values, versions[-1]) for versions, values in curves])


def alive_curve(runs: Sequence[Records], points: int = 150) -> Band | None:
    """Return groups alive over time, the mean in each of `points` equal parts of the longest run; None without rows."""
    if not all(run.has_rows for run in runs):
        return None
    edges = np.linspace(0.0, max(elapsed_s(run) for run in runs) or 1.0, points + 1)
    rows = []
    for run in runs:
        times, counts = groups_alive(run)
        lived_s = np.concatenate([[0.0], np.cumsum(counts[:-1] * np.diff(times))])
        means = np.diff(np.interp(edges, times, lived_s)) / np.diff(edges)
        rows.append(np.where(edges[:-1] < elapsed_s(run), means, np.nan))
    return _band((edges[:-1] + edges[1:]) / 2, rows)


def ranked_busy_ratios(runs: Sequence[Records], points: int = 400) -> Band:
    """Return busy ratios from the busiest client to the idlest; x is the rank from 1, at most `points` ranks."""
    rows = [np.sort(busy_ratios(run))[::-1] for run in runs]
    n_clients = min(row.size for row in rows)
    ranks = np.unique(np.linspace(0, n_clients - 1, min(n_clients, points)).round().astype(np.int64))
    return _band(ranks + 1.0, [row[ranks] for row in rows])


def staleness_shares(runs: Sequence[Records], bins: int = 60) -> tuple[Floats, Floats, int]:
    """Return the share of commits by staleness: left edges of bins, shares, and the bin width (a whole number)."""
    staleness = np.concatenate([run.commits["staleness"] for run in runs])
    if not staleness.size:
        return np.empty(0), np.empty(0), 1
    width = int(staleness.max()) // bins + 1
    counts = np.bincount(staleness // width)
    edges = np.arange(0, counts.size * width, width, dtype=np.float64)
    return edges, counts / staleness.size, width


def visit_seconds(run: Records) -> Floats:
    """Return the mean length (s) of each client's completed visits, shape (n_clients,); NaN for none."""
    done = run.visits["outcome"] == "done"
    counts = participation(run)
    total_s = np.bincount(
        run.visits["client"][done],
        weights=run.visits["finished"][done] - run.visits["started"][done],
        minlength=counts.size,
    )
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(total_s / counts)


def clients_spread_over_speed(run: Records, count: int = 6) -> list[int]:
    """Return up to `count` clients evenly spread from the fastest to the slowest; by number if there are no visits."""
    seconds = visit_seconds(run)
    served = int((~np.isnan(seconds)).sum())
    order = np.argsort(seconds, kind="stable")[: served or seconds.size]
    picks = np.unique(np.linspace(0, order.size - 1, min(count, order.size)).round().astype(np.int64))
    return [int(client) for client in order[picks]]


def calendar(run: Records, clients: Sequence[int], most: int = 1_500) -> Calendar:
    """Return the first `most` visits of `clients`, by start; a visit ends with the run at the latest."""
    visits = run.visits
    rows = np.full(int(run.facts["n_clients"]), -1, np.int64)
    rows[list(clients)] = np.arange(len(clients))
    chosen = np.flatnonzero((rows[visits["client"]] >= 0) & ~np.isnan(visits["started"]))
    chosen = chosen[np.argsort(visits["started"][chosen], kind="stable")][:most]
    return Calendar(
        row=rows[visits["client"][chosen]],
        group=visits["group"][chosen],
        started=visits["started"][chosen],
        received=visits["received"][chosen],
        computed=visits["computed"][chosen],
        finished=np.minimum(visits["finished"][chosen], elapsed_s(run)),
    )


def cluster_positions(run: Records) -> Floats | None:
    """Return how often clients of each cluster serve at each place of a group, as shares of the place.

    Shape (clusters, places). Taken from the note "clusters" (a label from 0 for each client) and the order of starts in
    each group. None if the run has no clusters, or its groups are not sequences.
    """
    labels = run.note("clusters")
    visits = run.visits
    use = (visits["group"] >= 0) & (visits["outcome"] == "done")
    if labels is None or len(labels) != run.facts["n_clients"] or not use.any():
        return None
    order = np.lexsort((visits["number"][use], visits["started"][use], visits["group"][use]))
    groups, clients = visits["group"][use][order], visits["client"][use][order]
    begins = np.flatnonzero(np.diff(groups, prepend=-1))
    position = np.arange(groups.size) - np.repeat(begins, np.diff(np.append(begins, groups.size)))
    if position.max() == 0:
        return None
    cluster = np.asarray(labels, dtype=np.int64)[clients]
    counts = np.zeros((int(max(labels)) + 1, int(position.max()) + 1))
    np.add.at(counts, (cluster, position), 1)
    return np.asarray(counts / counts.sum(axis=0))


def _held(x: Floats, times: Floats, values: Floats, end: float) -> Floats:
    """Return the latest value at each x; NaN before the first one and after the end."""
    index = np.searchsorted(times, x, side="right") - 1
    in_range = (index >= 0) & (x <= max(end, times[-1]))
    return np.where(in_range, values[np.maximum(index, 0)], np.nan)


def confusion(run: Records) -> Ints | None:
    """Return the confusion matrix of the last evaluation, (classes, predicted classes); None if there is none."""
    table = run.further["confusion"]
    if not table["time"].size:
        return None
    last = (table["time"] == table["time"][-1]) & (table["version"] == table["version"][-1])
    labels, predicted, examples = (table[name][last] for name in ("class", "predicted", "examples"))
    outputs = (run.facts.get("network") or {}).get("outputs", 0)
    counts: Ints = np.zeros((max(outputs, int(max(labels.max(), predicted.max())) + 1),) * 2, np.int64)
    counts[labels, predicted] = examples
    return counts


def last_at_clients(run: Records, kind: Kind) -> Table:
    """Return the rows of the last evaluation of a kind of model on the clients' own test sets; empty if none."""
    table = run.further["client_evaluations"]
    rows = np.flatnonzero(table["model"] == kind)
    if rows.size:
        times, versions = table["time"][rows], table["version"][rows]
        rows = rows[(times == times[-1]) & (versions == versions[-1])]
    return {name: values[rows] for name, values in table.items()}


def ranked_at_clients(runs: Sequence[Records], kind: Kind, points: int = 400) -> Band | None:
    """Return the clients' accuracies at the last evaluation of a kind of model, from the worst client to the best.

    x is the rank from 1, at most `points` ranks; None without rows of clients.
    """
    last = [last_at_clients(run, kind)["accuracy"] for run in runs]
    rows = [np.sort(values[~np.isnan(values)]) for values in last]
    rows = [row for row in rows if row.size]
    if not rows:
        return None
    count = min(row.size for row in rows)
    ranks = np.unique(np.linspace(0, count - 1, min(count, points)).round().astype(np.int64))
    return _band(ranks + 1.0, [row[ranks] for row in rows])


def kinds_at_clients(runs: Mapping[str, Sequence[Records]]) -> list[Kind]:
    """Return which models runs were evaluated with on the clients' own test sets. runs: by label."""
    all_runs = [run for group in runs.values() for run in group]
    return [kind for kind in MODELS if any(measures_of(run.facts, kind) for run in all_runs)]


def class_shares(runs: Sequence[Records]) -> Floats | None:
    """Return the accuracy of each class at the last evaluation, the mean over runs; None if there is none."""
    rows = [values for run in runs if (values := last_by_class(run.further["metrics"])).size]
    if not rows or len({row.size for row in rows}) > 1:
        return None
    return _band(np.arange(rows[0].size), rows).mean


def class_names(run: Records, count: int) -> list[str]:
    """Return the names of classes, or their numbers."""
    names = run.facts.get("class_names") or ()
    return [str(names[i]) if i < len(names) else str(i) for i in range(count)]


def _finite(values: Floats) -> Floats:
    """Return values with infinity for those that are not finite."""
    return np.where(np.isfinite(values), values, np.inf)


def _band(x: npt.NDArray[Any], rows: Sequence[Floats]) -> Band:
    stacked = np.vstack(rows)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "(Mean of empty|All-NaN) slice", RuntimeWarning)
        diverged = np.isinf(stacked).any(axis=0)
        mean, low, high = (np.where(diverged, np.nan, of(stacked, axis=0)) for of in (np.nanmean, np.nanmin, np.nanmax))
    return Band(np.asarray(x, np.float64), mean, low, high)
