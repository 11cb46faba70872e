"""FedHusky's groups (OPT-j and OPT-k), planned exactly: one client per cluster, back to back, without double booking.

Zhou, Shi, Lou, Hou: FedHusky: Accelerating Hybrid Federated Learning with Client Hopping, Section III.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import reduce
from operator import or_
from typing import NamedTuple

from fedtempo.strategies.planning.calendars import Calendars
from fedtempo.strategies.planning.group_order import Order, Preference
from fedtempo.strategies.planning.group_search import Outcome, search
from fedtempo.strategies.planning.group_table import FailedStates, ServiceTable, StartMasks
from fedtempo.strategies.planning.plan import Plan
from fedtempo.strategies.planning.planner import Planner

_MOST_CLUSTERS_IN_A_TABLE = 12
_STATES_WITHOUT_TABLE = 5000
# Computing a table entry looks once at each kind of visit (a cluster and a duration), expanding a search state once at
# each client. A search switches to the table after a fourteenth of the looks that the table would take.
_LOOKS_OF_TABLE = 14
_LOOKS_OF_STATE = 300
"""Upper limit of a state's cost, in looks: with many clients, most are skipped together."""


class _Laggard(NamedTuple):
    """The least busy client of a cluster, and the cluster's least booked ticks after a group without and with it."""

    client: int
    without: int
    chosen: int


class GroupPlanner(Planner):
    """Plans one group at a time around existing bookings.

    In the paper's symbols: Delta_i is `durations[i]`, m(i) `cluster[i]`, C `n_clusters`, T `horizon`, B_i the client's
    calendar; theta_i * T is its booked ticks. A visit may begin when another ends.

    A group serves every cluster that has clients exactly once. Its first visit starts at t0, every other visit when the
    previous one ends or up to `max_wait` ticks later. It maximises z, the least booked ticks over *all* clients once it
    is booked (Eq. 14a). Ties go to the group whose visits have, in order, the smallest (wait, booked ticks, duration,
    id).

    Method: z depends on the chosen clients, not on their order, and only through the least busy client of each cluster,
    its laggard. To exceed the z of a given group, the laggards of all clusters that limit z must be chosen; so the
    planner finds any group, then forces those laggards and searches again, until z cannot rise. With up to 12 clusters
    the search switches to a table of all rests that can still be served, which decides every case and stays valid for
    later ticks until the next booking; with more clusters it ends after `node_budget` states, and the status says so.

    durations, cluster, n_clusters, horizon, calendars, past_busy: see `Planner`. node_budget: number of states that one
    search may expand before it switches to the table (default: as many as cost as much as the table) or, without a
    table, before it ends (default: 5000). Time and memory grow with the ticks from the start of the planned groups to
    the last booked end, not with the horizon.
    """

    def __init__(
        self,
        durations: Sequence[int],
        cluster: Sequence[int],
        n_clusters: int,
        horizon: int,
        *,
        max_wait: int = 0,
        calendars: Calendars | None = None,
        past_busy: Sequence[int] | None = None,
        node_budget: int | None = None,
    ) -> None:
        super().__init__(durations, cluster, n_clusters, horizon, calendars, past_busy)
        if max_wait < 0:
            raise ValueError(f"max_wait = {max_wait} must not be negative")
        self._max_wait = max_wait
        self._node_budget = node_budget
        self._masks = [sum(1 << client for client in members) for members in self._members]
        self._order = Order(map(self._preference, range(len(durations))))
        self._no_group_at: int | None = None
        self._longest = max(self._durations, default=0)
        self._start_over(self._now)

    def plan(self, t0: int, head: int | None = None) -> Plan:
        """Return the best group that starts at tick t0: OPT-k, or OPT-j if `head` is given, the client that goes first.

        Nothing is booked. Raises ValueError if t0 lies before a forgotten tick or head was removed.
        """
        self._check_start(t0)
        if head is not None and head not in self._members[self._cluster[head]]:
            raise ValueError(f"head = {head} was removed from the planner")
        if not len(self._order) or t0 >= self.horizon or (head is None and self._no_group_at == t0):
            return Plan("infeasible")
        if not self._starts.first_tick <= t0 <= max(self.calendars.last_end, self._starts.first_tick):
            self._start_over(t0)
        outcome = self._search(t0, head)
        if outcome.proved and outcome.stops is None:
            if head is None:
                self._no_group_at = t0
            return Plan("infeasible")
        laggards = self._laggards(head)
        bound = min(laggard.chosen for laggard in laggards.values())
        if outcome.stops is None:
            return Plan("unknown", bound=bound)
        while True:
            stops = outcome.stops
            chosen = {client for client, _ in stops}
            z = min(laggard.chosen if laggard.client in chosen else laggard.without for laggard in laggards.values())
            if bound <= z:
                return self._plan(stops, z, z)
            forced = {c: laggard.client for c, laggard in laggards.items() if laggard.without <= z}
            if head is not None:
                forced[self._cluster[head]] = head
            outcome = self._search(t0, head, forced)
            if outcome.stops is None:
                return self._plan(stops, z, z if outcome.proved else bound)

    def _plan(self, stops: tuple[tuple[int, int], ...], z: int, bound: int) -> Plan:
        durations = tuple(self._durations[client] for client, _ in stops)
        return Plan("optimal" if z == bound else "feasible", stops, durations, stops[-1][1] + durations[-1], z, bound)

    def _laggards(self, head: int | None) -> dict[int, _Laggard]:
        """Return the laggard of each cluster that has clients; in the head's cluster it is the head."""
        laggards: dict[int, _Laggard] = {}
        for c in range(self._n_clusters):
            if least := self._order.least(1 << c):
                busy, duration, client, _, _ = least[0]
                laggards[c] = _Laggard(client, busy, min([busy + duration, *(second[0] for second in least[1:])]))
        if head is not None:
            c = self._cluster[head]
            fixed = laggards[c].chosen if laggards[c].client == head else laggards[c].without
            laggards[c] = _Laggard(head, fixed, fixed)
        return laggards

    def _search(self, t0: int, head: int | None, forced: Mapping[int, int] | None = None) -> Outcome:
        """Find the preferred group that starts at t0. forced: for some clusters, the only client that may serve."""
        to_serve = sum(1 << c for c, members in enumerate(self._members) if members)
        allowed = None
        if forced is not None:
            allowed = reduce(or_, (1 << forced[c] if c in forced else mask for c, mask in enumerate(self._masks)))

        def find(knowledge: ServiceTable | FailedStates, budget: float) -> Outcome:
            return search(
                to_serve,
                t0,
                self._order,
                self._masks,
                self._starts,
                knowledge,
                head=head,
                allowed=allowed,
                max_wait=self._max_wait,
                budget=budget,
            )

        table = self._knowledge
        if isinstance(table, FailedStates):
            return find(table, _STATES_WITHOUT_TABLE if self._node_budget is None else self._node_budget)
        last_tick = t0 + self._n_clusters * (self._longest + self._max_wait)
        table.cover(last_tick)
        if head is None and not table.can_start(to_serve, t0):
            return Outcome(None, proved=True)
        entries = (table.exact_from if allowed is None else self.calendars.last_end) - t0
        looks = entries * table.kinds // _LOOKS_OF_TABLE
        affordable = max(looks // min(len(self._durations), _LOOKS_OF_STATE), self._n_clusters)
        outcome = find(table, affordable if self._node_budget is None else self._node_budget)
        if not outcome.proved:
            if allowed is not None:
                table = self._new_table(t0, allowed)
                table.cover(last_tick)
            table.complete(t0)
            outcome = find(table, math.inf)
        return outcome

    # --- derived from calendars and durations ---------------------------------------------------------------

    def _start_over(self, first_tick: int) -> None:
        everyone = [client for members in self._members for client in members]
        self._starts = StartMasks(everyone, self._durations, self.calendars, first_tick)
        self._knowledge = self._know_nothing()

    def _know_nothing(self) -> ServiceTable | FailedStates:
        if self._n_clusters <= _MOST_CLUSTERS_IN_A_TABLE:
            return self._new_table(self._starts.first_tick, self._starts.everyone)
        shortest = [min((self._durations[client] for client in members), default=math.inf) for members in self._members]
        return FailedStates(shortest, self.horizon)

    def _new_table(self, first_tick: int, clients: int) -> ServiceTable:
        visits: list[dict[int, int]] = [{} for _ in self._members]
        for c, members in enumerate(self._members):
            for client in members:
                if clients >> client & 1:
                    duration = self._durations[client]
                    visits[c][duration] = visits[c].get(duration, 0) | 1 << client
        return ServiceTable(self._starts, visits, self.horizon, self._max_wait, first_tick, self.calendars.last_end)

    def _preference(self, client: int) -> Preference:
        busy, duration = self.busy_ticks(client), self._durations[client]
        return busy, duration, client, 1 << client, 1 << self._cluster[client]

    def forget_before(self, now: int) -> None:
        super().forget_before(now)
        self._starts.forget_before(now)
        self._knowledge.forget_before(now)

    @contextmanager
    def _changing(self, client: int) -> Iterator[None]:
        """Keep the order of preference up to date."""
        if client in self._members[self._cluster[client]]:
            self._order.drop(client)
        try:
            yield
        finally:
            if client in self._members[self._cluster[client]]:
                self._order.put(self._preference(client))

    def _booked(self, client: int, begin: int, end: int) -> None:
        self._starts.book(client, begin, end)
        self._knowledge.booked(end)

    def _released(self, client: int, end: int) -> None:
        self._no_group_at = None
        self._refresh(client)
        self._knowledge.released(end)

    def _redefined(self, client: int) -> None:
        self._no_group_at = None
        self._longest = max(self._durations)
        self._refresh(client)
        self._knowledge = self._know_nothing()

    def _refresh(self, client: int) -> None:
        if client in self._members[self._cluster[client]]:
            self._starts.refresh(client)
        else:
            self._starts.remove(client)
