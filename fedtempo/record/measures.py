"""Measures of a run's records: busy time of clients, groups alive, participation, time to target."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from fedtempo.record.run import Records

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

CONFIRMING_EVALUATIONS = 3


def elapsed_s(records: Records) -> float:
    """Return the time at which the run ended, seconds; if it has not ended, the latest time recorded."""
    elapsed = records.facts.get("elapsed_s")
    if elapsed is not None:
        return float(elapsed)
    times = (records.visits["finished"], records.commits["time"], records.evaluations["time"])
    return max((float(t.max()) for t in times if t.size), default=0.0)


def busy_ratios(records: Records) -> Floats:
    """Return the share of the run that each client spent in visits, shape (n_clients,).

    A client is busy from the start of a visit to its end, whatever its outcome; time after the end of the run does not
    count. Zeros if no time passed in the run.
    """
    n_clients, end = int(records.facts["n_clients"]), elapsed_s(records)
    if not records.has_rows:
        counted_s = np.array(records.totals["busy_s"], dtype=np.float64)
        return np.pad(counted_s / end if end > 0 else 0.0 * counted_s, (0, n_clients - counted_s.size))
    visits = records.visits
    held = ~np.isnan(visits["started"])
    busy_s = np.minimum(visits["finished"][held], end) - np.minimum(visits["started"][held], end)
    total_s = np.bincount(visits["client"][held], weights=busy_s, minlength=n_clients)
    return total_s / end if end > 0 else np.zeros(n_clients)


def client_seconds(records: Records) -> float:
    """Return the seconds for which clients were busy, summed over clients; see `busy_ratios`."""
    return float(busy_ratios(records).sum()) * elapsed_s(records)


def energy_wh(records: Records) -> float | None:
    """Return the energy that clients used for their visits, watt hours, summed over clients.

    The fact "watts" says what each client draws while computing, and while receiving or sending; waiting within a visit
    counts as sending. Parts without watts count as 0. None if no watts are known or the run has no rows.
    """
    watts = records.facts.get("watts")
    if not watts or not records.has_rows:
        return None
    visits, end = records.visits, elapsed_s(records)
    held = ~np.isnan(visits["started"])
    client, finished = visits["client"][held], np.minimum(visits["finished"][held], end)
    started = np.minimum(visits["started"][held], finished)
    received = np.fmin(visits["received"][held], finished)
    computed = np.fmin(visits["computed"][held], finished)
    computing_s = computed - received
    joules = 0.0
    if watts.get("compute") is not None:
        joules += float(np.asarray(watts["compute"])[client] @ computing_s)
    if watts.get("link") is not None:
        joules += float(np.asarray(watts["link"])[client] @ (finished - started - computing_s))
    return joules / 3600


def participation(records: Records) -> Ints:
    """Return the number of visits completed by each client, shape (n_clients,)."""
    n_clients = int(records.facts["n_clients"])
    if not records.has_rows:
        counted = np.array(records.totals["visits_done"], dtype=np.int64)
        return np.pad(counted, (0, n_clients - counted.size))
    done = records.visits["outcome"] == "done"
    return np.bincount(records.visits["client"][done], minlength=n_clients)


def group_spans(records: Records) -> tuple[Floats, Floats]:
    """Return start and end of each group's life within the run, shape (groups,) each, sorted by start.

    A group lives from the start of its first visit to the end of its last. A visit without a group is its own group.
    """
    visits, end = records.visits, elapsed_s(records)
    held = ~np.isnan(visits["started"])
    group, number = visits["group"][held], visits["number"][held]
    started, finished = np.minimum(visits["started"][held], end), np.minimum(visits["finished"][held], end)
    names = np.where(group >= 0, group, -1 - number)
    _, index = np.unique(names, return_inverse=True)
    n_groups = int(index.max()) + 1 if index.size else 0
    starts, ends = np.full(n_groups, np.inf), np.full(n_groups, -np.inf)
    np.minimum.at(starts, index, started)
    np.maximum.at(ends, index, finished)
    order = np.argsort(starts, kind="stable")
    return starts[order], ends[order]


def groups_alive(records: Records) -> tuple[Floats, Ints]:
    """Return the number of groups alive as a step function: `counts[i]` from `times[i]` on; `times[0]` is 0.

    If one group ends when another starts, only the new one is alive at that time.
    """
    starts, ends = group_spans(records)
    real = ends > starts
    changes = np.concatenate([starts[real], ends[real]])
    steps = np.concatenate([np.ones(int(real.sum()), np.int64), -np.ones(int(real.sum()), np.int64)])
    times, index = np.unique(np.concatenate([[0.0], changes]), return_inverse=True)
    change_at = np.zeros(times.size, np.int64)
    np.add.at(change_at, index[1:], steps)
    return times, np.cumsum(change_at)


def time_to_target(
    times: Sequence[float] | Floats,
    values: Sequence[float] | Floats,
    target: float,
    better: str | None = "higher",
    *,
    interpolated: bool = False,
) -> float | None:
    """Return the time of the first of three consecutive evaluations whose mean reaches `target`, seconds.

    A mean reaches it if it is at least as high, or with better = "lower" at most as high. Curves of asynchronous
    strategies oscillate, so one lucky evaluation does not count. None without such evaluations. interpolated: return
    when the line between this mean and that of the evaluations one earlier crosses the target.
    """
    numbers = [float(value) for value in values]
    windows = [numbers[i : i + CONFIRMING_EVALUATIONS] for i in range(len(numbers))]
    first = next((i for i, window in enumerate(windows) if sustained(window, target, better)), None)
    if first is None:
        return None
    reached = float(times[first])
    if not interpolated or first == 0 or not all(map(math.isfinite, windows[first - 1])):
        return reached
    before, after = (math.fsum(window) / CONFIRMING_EVALUATIONS for window in windows[first - 1 : first + 1])
    earlier = float(times[first - 1])
    return earlier + (target - before) / (after - before) * (reached - earlier)


def sustained(window: Sequence[float], target: float, better: str | None = "higher") -> bool:
    """Return whether `window` holds three values whose mean reaches `target`."""
    if len(window) < CONFIRMING_EVALUATIONS or not all(map(math.isfinite, window)):
        return False
    # Both sides are rounded once, so that three evaluations at exactly the target reach it.
    total, needed = math.fsum(window), CONFIRMING_EVALUATIONS * target
    return total <= needed if better == "lower" else total >= needed


def first_time_at_target(
    times: Sequence[float] | Floats, values: Sequence[float] | Floats, target: float, better: str | None = "higher"
) -> float | None:
    """Return the time of the first single evaluation that reaches `target`, seconds, or None."""
    pairs = zip(times, values)
    return next((float(t) for t, value in pairs if (value <= target if better == "lower" else value >= target)), None)
