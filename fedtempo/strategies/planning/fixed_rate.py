"""Groups at a steady pace with clusters in random order: no cluster is always last, and the slowest sets the pace."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedtempo.strategies.planning.calendars import Calendars
from fedtempo.strategies.planning.plan import Plan
from fedtempo.strategies.planning.planner import Planner


class PacedPlanner(Planner):
    """Plans a group every `interval` ticks: clusters in random order, and in each the client that is free first.

    A group of `length` clusters (default: all) takes those served least so far. A stop starts when the previous one
    ends or, if no client is then free for a whole visit, as soon as one is; ties go to the client with the fewest
    booked ticks, then to the smaller id. The planner does not optimise: it may fail although another order would fit.

    pace: share, in (0, 1], of the rate at which the slowest cluster could serve groups without pause.
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
        calendars: Calendars | None = None,
        past_busy: Sequence[int] | None = None,
    ) -> None:
        super().__init__(durations, cluster, n_clusters, horizon, calendars, past_busy)
        if not 0 < pace <= 1:
            raise ValueError(f"pace = {pace} must lie in (0, 1]")
        if length is not None and not 1 <= length <= n_clusters:
            raise ValueError(f"length = {length} must lie in 1..{n_clusters}, the number of clusters")
        self._pace = pace
        self._length = n_clusters if length is None else length
        self._served = [0] * n_clusters

    @property
    def interval(self) -> float:
        """Ticks between the starts of groups: L / (C * pace * min_c sum_{i in c} 1 / d_i); infinite without clients.

        The sum over a cluster is the number of visits that it can serve per tick; a group of L of C clusters visits
        each with probability L / C.
        """
        served = [members for members in self._members if members]
        if not served:
            return float("inf")
        slowest = min(sum(1 / self._durations[client] for client in members) for members in served)
        return min(self._length, len(served)) / (len(served) * self._pace * slowest)

    def plan(self, t0: int, rng: np.random.Generator) -> Plan:
        """Return a group that is ready at tick t0; it may wait before its first stop. Nothing is booked.

        The status is "feasible", "unknown" if the drawn order would end after the horizon, or "infeasible" if no client
        is left. Raises ValueError if t0 lies before a forgotten tick.
        """
        self._check_start(t0)
        order = [c for c in rng.permutation(self._n_clusters).tolist() if self._members[c]]
        if self._length < len(order):
            least = sorted(order, key=self._served.__getitem__)[: self._length]  # stable: ties stay in random order
            order = [c for c in order if c in least]
        if not order:
            return Plan("infeasible")
        stops, tick = [], t0
        for c in order:
            begin, _, client = min(
                (self.calendars.next_free(client, tick, self._durations[client]), self.busy_ticks(client), client)
                for client in self._members[c]
            )
            stops.append((client, begin))
            tick = begin + self._durations[client]
        if tick > self.horizon:
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
