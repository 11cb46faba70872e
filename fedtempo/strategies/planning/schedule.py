"""Whole schedules without training: where every visit takes as long as planned, they can be made in advance."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedtempo.strategies.planning.fixed_rate import PacedPlanner
from fedtempo.strategies.planning.groups import GroupPlanner
from fedtempo.strategies.planning.plan import Plan


def literal_schedule(
    durations: Sequence[int],
    cluster: Sequence[int],
    n_clusters: int,
    horizon: int,
    *,
    min_attempt_gap: int = 0,
    max_wait: int = 0,
) -> list[Plan]:
    """FedHusky's schedule, to the letter (Sections III-B and III-D): the groups in the order of their forming.

    OPT-j for every client as head at tick 0; then OPT-k each time that a client is released. Arguments in ticks as
    for `GroupPlanner`. min_attempt_gap: OPT-k is not attempted sooner than this after the last attempt, failed
    ones counted, as if solving took so long; a release in between passes unanswered.
    """
    planner = GroupPlanner(durations, cluster, n_clusters, horizon, max_wait=max_wait)
    groups: list[Plan] = []
    releases: list[int] = []

    def attempt(t0: int, head: int | None = None) -> None:
        plan = planner.plan(t0, head)
        if plan:
            planner.book(plan)
            groups.append(plan)
            for (_, begin), duration in zip(plan.stops, plan.durations):
                heapq.heappush(releases, begin + duration)

    for head in range(len(durations)):
        attempt(0, head)
    next_attempt = 0
    while releases:
        now = heapq.heappop(releases)
        if now < next_attempt:
            continue
        planner.forget_before(now)
        attempt(now)
        next_attempt = now + min_attempt_gap
    return groups


def paced_schedule(planner: PacedPlanner, rng: np.random.Generator) -> list[Plan]:
    """The groups that `planner` forms from tick 0 on, one try every `planner.interval` ticks."""
    groups: list[Plan] = []
    start = 0.0
    while start < planner.horizon:
        planner.forget_before(int(start))
        plan = planner.plan(int(start), rng)
        if plan:
            planner.book(plan)
            groups.append(plan)
        start += planner.interval
    return groups


@dataclass(frozen=True)
class ScheduleBounds:
    """Upper bounds for schedules whose groups visit every cluster once, overlapping no visits of a client.

    groups: T * min_c sum_{i in c} 1 / d_i, what the slowest cluster can serve. mean_busy_ratio: the linear programme
    of every client's share of time x_i in [0, 1] with equally many visits, sum_{i in c} x_i / d_i, in each cluster.
    min_busy_ratio: of the same programme the largest min_i x_i.
    """

    groups: float
    mean_busy_ratio: float
    min_busy_ratio: float


@dataclass(frozen=True, eq=False)
class ScheduleStatistics:
    """What a schedule does to its clients, and what no schedule could exceed.

    busy_ratio: (n_clients,), each client's booked share of the horizon. mean_alive: groups alive, mean over the
    horizon. positions: (n_clusters, most stops of a group), how often a cluster served at a position.
    last_cluster_share: share of the groups that end with the cluster that most of them end with.
    """

    groups: int
    busy_ratio: NDArray[np.float64]
    mean_alive: float
    positions: NDArray[np.int64]
    last_cluster_share: float
    bounds: ScheduleBounds

    @property
    def mean_busy_ratio(self) -> float:
        return float(self.busy_ratio.mean())

    @property
    def min_busy_ratio(self) -> float:
        return float(self.busy_ratio.min())

    @property
    def max_busy_ratio(self) -> float:
        return float(self.busy_ratio.max())


def schedule_bounds(durations: Sequence[int], cluster: Sequence[int], horizon: int) -> ScheduleBounds:
    """The bounds in closed form.

    More visits mean more busy time, so the mean is largest at the rate g = min_c sum_{i in c} 1 / d_i of the slowest
    cluster, each other cluster serving that rate with its slowest clients, busy all the time. If all clients are busy
    for a share m at least, a cluster serves at a rate of m * sum_{i in c} 1 / d_i at least, which g bounds.
    """
    visit = np.asarray(durations, float)
    labels = np.asarray(cluster)
    rates = [1 / np.sort(visit[labels == c])[::-1] for c in np.unique(labels)]
    capacity = [float(rate.sum()) for rate in rates]
    slowest = min(capacity)
    busy = 0.0
    for rate in rates:
        left = slowest - np.concatenate([[0.0], np.cumsum(rate)[:-1]])
        busy += float(np.clip(left / rate, 0, 1).sum())
    return ScheduleBounds(horizon * slowest, busy / len(visit), slowest / max(capacity))


def schedule_statistics(
    plans: Sequence[Plan], durations: Sequence[int], cluster: Sequence[int], n_clusters: int, horizon: int
) -> ScheduleStatistics:
    """Statistics of the groups `plans` over [0, horizon). Arguments in ticks as for the planners."""
    busy = np.zeros(len(durations))
    most_stops = max((len(plan.stops) for plan in plans), default=0)
    positions = np.zeros((n_clusters, most_stops), np.int64)
    last = np.zeros(n_clusters, np.int64)
    alive = 0
    for plan in plans:
        for position, ((client, _), duration) in enumerate(zip(plan.stops, plan.durations)):
            busy[client] += duration
            positions[cluster[client], position] += 1
        last[cluster[plan.stops[-1][0]]] += 1
        alive += plan.stops[-1][1] + plan.durations[-1] - plan.stops[0][1]
    return ScheduleStatistics(
        groups=len(plans),
        busy_ratio=busy / horizon,
        mean_alive=alive / horizon,
        positions=positions,
        last_cluster_share=float(last.max() / len(plans)) if plans else 0.0,
        bounds=schedule_bounds(durations, cluster, horizon),
    )
