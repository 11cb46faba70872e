"""FedHusky's groups (OPT-j and OPT-k), planned exactly: one client of each cluster, back to back, nobody booked twice.

Zhou, Shi, Lou, Hou: FedHusky: Accelerating Hybrid Federated Learning with Client Hopping, Section III.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import reduce
from operator import or_
from typing import NamedTuple

from fedtempo.scheduling.calendars import Calendars
from fedtempo.scheduling.group_search import Outcome, Visit, search
from fedtempo.scheduling.group_table import FailedStates, ServiceTable, StartMasks
from fedtempo.scheduling.plan import Plan

_MOST_CLUSTERS_IN_A_TABLE = 12
_STATES_WITHOUT_TABLE = 5000
# Looking into one state costs about as much as 500 / n_clients entries of the table (measured, 50 to 1000 clients).
_CLIENT_ENTRIES_PER_STATE = 500


class _Key(NamedTuple):
    """Preference among clients, smallest first: less booked, then faster, then smaller id."""

    busy: int
    duration: int
    client: int
    client_bit: int
    cluster_bit: int


class _Laggard(NamedTuple):
    """The least busy client of a cluster, and the cluster's least busy ticks after a group without and with it."""

    client: int
    without: int
    chosen: int


class _Known(NamedTuple):
    """What is known of the calendars as they stand: who may start when, and either of two kinds of knowledge."""

    starts: StartMasks
    table: ServiceTable | None
    failed: FailedStates | None

    def forget_before(self, tick: int) -> None:
        for part in self:
            if part is not None:
                part.forget_before(tick)


class GroupPlanner:
    """Plans one group at a time around what is booked, and keeps the calendars.

    In the paper's symbols: Delta_i is `durations[i]`, m(i) `cluster[i]`, C `n_clusters`, T `horizon`, B_i the client's
    calendar; theta_i * T is its booked ticks. All times are integer ticks, intervals half-open; a visit may begin when
    another ends.

    A group serves every cluster that has a client (see `remove`) once. Its first visit starts at t0, each other one
    where the one before ends, or up to `max_wait` ticks later. It maximises z, the least booked ticks over *all*
    clients once it is booked (Eq. 14a). Of the best groups the one is taken whose visits have, in order, the smallest
    (wait, booked ticks, duration, id).

    How: z depends on who is chosen, not on the order, and only through the least busy client of each cluster, its
    laggard. A larger z than that of a group at hand needs the laggards of all clusters that hold z down, so the
    planner finds any group, then forces those laggards and searches again, until z cannot rise. Up to 12 clusters the
    search turns to a table of everything that can still be served, which decides each case and answers for all later
    ticks until the next booking; with more clusters it ends after `node_budget` states, and the status says so.

    durations: ticks of each client's visit, (n_clients,), positive. cluster: (n_clients,), in 0..n_clusters - 1.
    horizon: last tick at which a group may end. calendars: kept by this planner from now on; default none booked.
    past_busy: ticks of work that the calendars do not know of, (n_clients,). node_budget: states that one search may
    look into; default 5000, or as many as cost what the table costs.
    Raises ValueError naming the argument that is not usable.
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
        n_clients = len(durations)
        if calendars is None:
            calendars = Calendars(n_clients)
        past = [0] * n_clients if past_busy is None else list(past_busy)
        for name, values in (("cluster", cluster), ("calendars", calendars), ("past_busy", past)):
            if len(values) != n_clients:
                raise ValueError(f"{name} is for {len(values)} clients, durations for {n_clients}; they must agree")
        for client, (duration, c) in enumerate(zip(durations, cluster)):
            _check_duration(client, duration)
            if not 0 <= c < n_clusters:
                raise ValueError(f"cluster[{client}] = {c} must lie in 0..{n_clusters - 1}")
        if max_wait < 0:
            raise ValueError(f"max_wait = {max_wait} must not be negative")
        self.horizon = horizon
        self.calendars = calendars
        self._durations = [int(duration) for duration in durations]
        self._cluster = [int(c) for c in cluster]
        self._n_clusters = n_clusters
        self._max_wait = max_wait
        self._past_busy = past
        self._node_budget = node_budget
        self._now = 0
        self._members = [0] * n_clusters
        for client, c in enumerate(self._cluster):
            self._members[c] |= 1 << client
        self._order = sorted(self._key(client) for client in range(n_clients))
        self._known: _Known | None = None
        self._no_group_at: int | None = None

    @property
    def durations(self) -> tuple[int, ...]:
        """Ticks of each client's visit, as estimated now."""
        return tuple(self._durations)

    def busy_ticks(self, client: int) -> int:
        """Everything that the client was and is booked for."""
        return self.calendars.busy_ticks(client) + self._past_busy[client]

    # --- planning ---------------------------------------------------------------------------------------------------

    def plan(self, t0: int, head: int | None = None) -> Plan:
        """The best group that starts at tick t0: OPT-k; OPT-j where `head` is given, the client that goes first.

        Books nothing. Raises ValueError where t0 lies before a forgotten tick, or head was removed.
        """
        if t0 < self._now:
            raise ValueError(f"t0 = {t0} lies before {self._now}, up to where calendars are forgotten")
        if head is not None and not self._members[self._cluster[head]] >> head & 1:
            raise ValueError(f"head = {head} was removed from the planner")
        if not any(self._members) or (head is None and self._no_group_at == t0):
            return Plan("infeasible")
        outcome = self._search(t0, head)
        if outcome.proved and outcome.stops is None and head is None:
            self._no_group_at = t0
        laggards = self._laggards(head)
        bound = min(laggard.chosen for laggard in laggards.values())
        if outcome.stops is None:
            return Plan("infeasible") if outcome.proved else Plan("unknown", bound=bound)
        while True:
            stops = outcome.stops
            chosen = {client for client, _ in stops}
            z = min(each.chosen if each.client in chosen else each.without for each in laggards.values())
            if bound <= z:
                return self._plan(stops, z, z)
            needed = self._members.copy()
            for c, laggard in laggards.items():
                if laggard.without <= z:
                    needed[c] = 1 << laggard.client
            if head is not None:
                needed[self._cluster[head]] = 1 << head
            outcome = self._search(t0, head, needed)
            if outcome.stops is None:
                return self._plan(stops, z, z if outcome.proved else bound)

    def _plan(self, stops: tuple[tuple[int, int], ...], z: int, bound: int) -> Plan:
        durations = tuple(self._durations[client] for client, _ in stops)
        return Plan("optimal" if z == bound else "feasible", stops, durations, stops[-1][1] + durations[-1], z, bound)

    def _laggards(self, head: int | None) -> dict[int, _Laggard]:
        """The laggard of each cluster that has clients. In the head's cluster there is nothing to choose."""
        least: dict[int, _Key] = {}
        second: dict[int, int] = {}
        missing = sum(min(members.bit_count(), 2) for members in self._members)
        for key in self._order:
            c = self._cluster[key.client]
            if c not in least:
                least[c] = key
            elif c not in second:
                second[c] = key.busy
            else:
                continue
            missing -= 1
            if not missing:
                break
        laggards = {}
        for c, key in least.items():
            chosen = min(key.busy + key.duration, second.get(c, key.busy + key.duration))
            laggards[c] = _Laggard(key.client, key.busy, chosen)
        if head is not None:
            c = self._cluster[head]
            fixed = laggards[c].chosen if laggards[c].client == head else laggards[c].without
            laggards[c] = _Laggard(head, fixed, fixed)
        return laggards

    def _search(self, t0: int, head: int | None, needed: Sequence[int] | None = None) -> Outcome:
        """The preferred group that starts at t0, of the clients in `needed` (masks by cluster) or of all."""
        members = self._members if needed is None else needed
        restricted = needed is not None
        to_serve = sum(1 << c for c, clients in enumerate(members) if clients)
        everyone = reduce(or_, members)
        starts, table, failed = self._known = self._known or self._learn()
        order, wait = self._order, self._max_wait

        def choices(rest: int, tick: int, first: bool) -> Iterator[Visit]:
            allowed = 1 << head if first and head is not None else everyone
            for begin in (tick,) if first or not wait else range(tick, tick + wait + 1):
                if free := starts.at(begin) & allowed:
                    for _, duration, client, client_bit, cluster_bit in order:
                        if free & client_bit and rest & cluster_bit:
                            yield Visit(client, begin, begin + duration, rest & ~cluster_bit)

        if failed is not None:
            budget = _STATES_WITHOUT_TABLE if self._node_budget is None else self._node_budget
            return search(to_serve, t0, choices, failed, budget, restricted=restricted)

        assert table is not None
        last_tick = t0 + self._n_clusters * (max(self._durations) + wait)
        table.cover(last_tick)
        if head is None and not table.can_start(to_serve, t0):
            return Outcome(None, proved=True)
        entries = (self.calendars.last_end if restricted else table.exact_from) - t0
        budget = entries * len(self._durations) // _CLIENT_ENTRIES_PER_STATE
        budget = max(budget, self._n_clusters) if self._node_budget is None else self._node_budget
        outcome = search(to_serve, t0, choices, table, budget, restricted=restricted)
        if not outcome.proved:
            if restricted:
                table = self._new_table(starts, members, t0)
                table.cover(last_tick)
            table.complete(t0)
            outcome = search(to_serve, t0, choices, table, math.inf, restricted=restricted)
        return outcome

    def _learn(self) -> _Known:
        starts = StartMasks(self._durations, reduce(or_, self._members), self.calendars, self._now)
        if self._n_clusters <= _MOST_CLUSTERS_IN_A_TABLE:
            return _Known(starts, self._new_table(starts, self._members, self._now), None)
        shortest = [math.inf] * self._n_clusters
        for key in self._order:
            c = self._cluster[key.client]
            shortest[c] = min(shortest[c], key.duration)
        return _Known(starts, None, FailedStates(shortest, self.horizon))

    def _new_table(self, starts: StartMasks, members: Sequence[int], first_tick: int) -> ServiceTable:
        visits: list[dict[int, int]] = [{} for _ in members]
        for key in self._order:
            c = self._cluster[key.client]
            if members[c] & key.client_bit:
                visits[c][key.duration] = visits[c].get(key.duration, 0) | key.client_bit
        return ServiceTable(starts, visits, self.horizon, self._max_wait, first_tick, self.calendars.last_end)

    # --- booking ----------------------------------------------------------------------------------------------------

    def book(self, plan: Plan) -> None:
        """Book all stops of a plan, for the durations that it was made with."""
        for (client, begin), duration in zip(plan.stops, plan.durations):
            self._book(client, begin, begin + duration)

    def book_stop(self, client: int, begin: int) -> None:
        """Book one visit of the client, for its estimated duration."""
        self._book(client, begin, begin + self._durations[client])

    def release(self, client: int, begin: int) -> None:
        """Take back the visit of the client that is booked from `begin` on. Raises ValueError if there is none."""
        with self._reordered(client):
            self.calendars.release(client, begin)
        self._forget_knowledge()

    def rebook(self, stops: Sequence[tuple[int, int]], ready: int) -> tuple[tuple[int, int], ...]:
        """Move the stops that are left to a group to where their clients are free, from tick `ready` on, in order.

        Each stop starts as soon as its client is free for its whole duration and the one before has ended. Returns
        the new stops; the caller looks whether they end by the horizon.
        """
        for client, begin in stops:
            self.release(client, begin)
        moved = []
        for client, _ in stops:
            begin = self.calendars.next_free(client, ready, self._durations[client])
            self.book_stop(client, begin)
            moved.append((client, begin))
            ready = begin + self._durations[client]
        return tuple(moved)

    def set_duration(self, client: int, ticks: int) -> None:
        """Replace the estimate of a client's duration. What is booked stays booked as it is."""
        _check_duration(client, ticks)
        if ticks != self._durations[client]:
            with self._reordered(client):
                self._durations[client] = ticks
            self._forget_knowledge()

    def remove(self, client: int) -> None:
        """Never plan this client again: it died. Its bookings stay. A cluster without clients is no longer served."""
        if self._members[self._cluster[client]] >> client & 1:
            self._order.remove(self._key(client))
            self._members[self._cluster[client]] &= ~(1 << client)
            self._forget_knowledge()

    def forget_before(self, now: int) -> None:
        """Drop what ended by `now`; no group can be planned to start earlier from here on."""
        if now > self._now:
            self._now = now
            self.calendars.forget_before(now)
            if self._known is not None:
                self._known.forget_before(now)

    def _book(self, client: int, begin: int, end: int) -> None:
        with self._reordered(client):
            self.calendars.book(client, begin, end)
        if self._known is not None:
            self._known.starts.book(client, begin, end)
            if self._known.table is not None:
                self._known.table.booked(end)

    def _forget_knowledge(self) -> None:
        """Bookings only take possibilities away; after any other change what was proved impossible may be possible."""
        self._known = None
        self._no_group_at = None

    def _key(self, client: int) -> _Key:
        return _Key(self.busy_ticks(client), self._durations[client], client, 1 << client, 1 << self._cluster[client])

    @contextmanager
    def _reordered(self, client: int) -> Iterator[None]:
        """Keep the order of preference while the client's booked ticks or duration change."""
        planned = self._members[self._cluster[client]] >> client & 1
        if planned:
            del self._order[bisect_left(self._order, self._key(client))]
        try:
            yield
        finally:
            if planned:
                insort(self._order, self._key(client))


def _check_duration(client: int, ticks: int) -> None:
    if ticks < 1:
        raise ValueError(f"durations[{client}] = {ticks} must be at least 1 tick")
