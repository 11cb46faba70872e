"""Groups at a steady pace, clusters in random order: no cluster is always last, and the slowest one sets the pace."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedtempo.strategies.planning.calendars import Calendars
from fedtempo.strategies.planning.plan import Plan
from fedtempo.strategies.planning.planner import Planner


class PacedPlanner(Planner):
    """Plans a group every `interval` ticks: clusters in random order, in each the client that is free soonest.

    A group of `length` clusters (default all) takes those that were served least so far. A stop starts when the one
    before ends or, where no client is free for a whole visit then, as soon as one is; equally early clients go by
    booked ticks, then id. The planner looks for no optimum: it may fail where another order would fit.

    pace: share, in (0, 1], of the rate at which the slowest cluster could serve groups without pause.
    max_wait: ticks that a group may wait in all, before its first stop included; None for any number.
    Other arguments: see `Planner`.
    """

    def __init__(
        self,
        durations: Sequence[int],
        cluster: Sequence[int],
        n_clusters: int,
        horizon: int,
        *,
        pace: float = 0.9,
        length: int | None = None,
        max_wait: int | None = None,
        calendars: Calendars | None = None,
        past_busy: Sequence[int] | None = None,
    ) -> None:
        super().__init__(durations, cluster, n_clusters, horizon, calendars, past_busy)
        if not 0 < pace <= 1:
            raise ValueError(f"pace = {pace} must lie in (0, 1]")
        if length is not None and not 1 <= length <= n_clusters:
            raise ValueError(f"length = {length} must lie in 1..{n_clusters}, the number of clusters")
        if max_wait is not None and max_wait < 0:
            raise ValueError(f"max_wait = {max_wait} must not be negative")
        self._pace = pace
        self._length = n_clusters if length is None else length
        self._max_wait = max_wait
        self._served = [0] * n_clusters

    @property
    def interval(self) -> float:
        """Ticks from one group's start to the next: L / (C * pace * min_c sum_{i in c} 1 / d_i).

        The sum over a cluster is the number of visits that it can serve in a tick; a group of L of C clusters visits
        each with chance L / C. Infinite when no client is left.
        """
        served = [members for members in self._members if members]
        if not served:
            return float("inf")
        slowest = min(sum(1 / self._durations[client] for client in members) for members in served)
        return min(self._length, len(served)) / (len(served) * self._pace * slowest)

    def plan(self, t0: int, rng: np.random.Generator) -> Plan:
        """A group that starts at tick t0 or waits from then on. Books nothing.

        The status is "feasible", or "unknown" where the drawn order would wait too long or end past the horizon.
        Raises ValueError where t0 lies before a forgotten tick.
        """
        self._check_start(t0)
        order = [c for c in rng.permutation(self._n_clusters).tolist() if self._members[c]]
        if self._length < len(order):
            least = sorted(order, key=self._served.__getitem__)[: self._length]  # stable: ties stay in random order
            order = [c for c in order if c in least]
        if not order:
            return Plan("infeasible")
        stops, waited, tick = [], 0, t0
        for c in order:
            begin, _, client = min(
                (self.calendars.next_free(client, tick, self._durations[client]), self.busy_ticks(client), client)
                for client in self._members[c]
            )
            stops.append((client, begin))
            waited += begin - tick
            tick = begin + self._durations[client]
        if tick > self.horizon or (self._max_wait is not None and waited > self._max_wait):
            return Plan("unknown")
        chosen = {client for client, _ in stops}
        z = min(
            self.busy_ticks(client) + (self._durations[client] if client in chosen else 0)
            for members in self._members
            for client in members
        )
        return Plan("feasible", tuple(stops), tuple(self._durations[client] for client, _ in stops), tick, z)

    def book(self, plan: Plan) -> None:
        super().book(plan)
        for client, _ in plan.stops:
            self._served[self._cluster[client]] += 1
