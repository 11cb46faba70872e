"""What the search for a group knows: which clients may start when, and which clusters can still be served.

Clients and clusters are bits of integers, so that one machine operation handles many of them. A *rest* is the set
of clusters that a group has yet to visit (bit c for cluster c).
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache, reduce
from operator import or_
from typing import Protocol

from fedtempo.strategies.planning.calendars import Calendars


class StartMasks:
    """For each tick, the clients whose calendars allow a visit to start then: bit i for client i.

    Ticks before the last booked end are stored; after it every client may start. The horizon is ignored. durations and
    calendars are the planner's, shared with it; `refresh` reads them again. Stored masks are bytes, so that changing a
    bit takes constant time.
    """

    def __init__(self, clients: Iterable[int], durations: Sequence[int], calendars: Calendars, first_tick: int) -> None:
        self._durations = durations
        self._calendars = calendars
        self.first_tick = first_tick
        self._masks: list[bytearray] = []
        self._octets = -(-len(durations) // 8)
        self.everyone = 0
        for client in clients:
            self.refresh(client)

    def at(self, tick: int) -> int:
        position = tick - self.first_tick
        return int.from_bytes(self._masks[position], "little") if position < len(self._masks) else self.everyone

    def between(self, first: int, last: int) -> list[int]:
        """Return the masks of the ticks in [first, last)."""
        stored = self._masks[first - self.first_tick : max(last - self.first_tick, 0)]
        return [int.from_bytes(mask, "little") for mask in stored] + [self.everyone] * (last - first - len(stored))

    def book(self, client: int, begin: int, end: int) -> None:
        """Clear the starts of visits that would overlap [begin, end)."""
        masks, base = self._masks, self.first_tick
        if (missing := end - base - len(masks)) > 0:
            everyone = self.everyone.to_bytes(self._octets, "little")
            masks.extend(bytearray(everyone) for _ in range(missing))
        octet, others = client >> 3, 255 ^ 1 << (client & 7)
        for mask in masks[max(begin - self._durations[client] + 1 - base, 0) : max(end - base, 0)]:
            mask[octet] &= others

    def refresh(self, client: int) -> None:
        """Read the client's calendar and duration again."""
        self.everyone |= 1 << client
        octet, bit = client >> 3, 1 << (client & 7)
        for mask in self._masks:
            mask[octet] |= bit
        for begin, end in self._calendars.intervals(client):
            self.book(client, begin, end)

    def remove(self, client: int) -> None:
        """Never let the client start again."""
        self.everyone &= ~(1 << client)
        octet, others = client >> 3, 255 ^ 1 << (client & 7)
        for mask in self._masks:
            mask[octet] &= others

    def forget_before(self, tick: int) -> None:
        del self._masks[: max(tick - self.first_tick, 0)]
        self.first_tick = max(self.first_tick, tick)


class Knowledge(Protocol):
    """Whether a group that arrives at `tick` could still serve the clusters of `rest` and end in time.

    False is proved, True may be optimistic. Proofs stay valid after bookings, which only remove possibilities;
    releasing an interval invalidates those for ticks before its end.
    """

    def possible(self, rest: int, tick: int) -> bool: ...
    def rule_out(self, rest: int, tick: int) -> None: ...
    def booked(self, end: int) -> None: ...
    def released(self, end: int) -> None: ...
    def forget_before(self, tick: int) -> None: ...


class FailedStates:
    """Knowledge gained from failed searches only; for any number of clusters.

    shortest: the shortest duration in each cluster.
    """

    def __init__(self, shortest: Sequence[float], horizon: int) -> None:
        self._horizon = horizon
        self._failed: dict[int, set[int]] = {}

        @lru_cache(maxsize=1 << 16)
        def shortest_sum(rest: int) -> float:
            lowest = rest & -rest
            return shortest[lowest.bit_length() - 1] + shortest_sum(rest ^ lowest) if rest else 0

        self._shortest_sum: Callable[[int], float] = shortest_sum

    def possible(self, rest: int, tick: int) -> bool:
        failed = self._failed.get(tick)
        return (failed is None or rest not in failed) and tick + self._shortest_sum(rest) <= self._horizon

    def rule_out(self, rest: int, tick: int) -> None:
        self._failed.setdefault(tick, set()).add(rest)

    def booked(self, end: int) -> None:
        """Do nothing: bookings do not invalidate failures."""

    def released(self, end: int) -> None:
        self.forget_before(end)

    def forget_before(self, tick: int) -> None:
        for past in [failed for failed in self._failed if failed < tick]:
            del self._failed[past]


class ServiceTable:
    """For each tick, the set of all rests that can be served from then on, as one integer: bit `rest` of entry `tick`.

    It is computed by dynamic programming backwards in time. If at tick t client i of cluster c serves a group with c in
    its rest, the rest without c remains at tick t + d_i. So entry t is the union, over the clients that may start at t,
    of entry t + d_i with c added to every rest that lacks it: one shift for all 2^C rests. After the last booking
    calendars do not matter, and an entry follows from the sums of the shortest durations.

    visits[c] maps each duration in cluster c to the mask of the clients with that duration. Entries from `exact_from`
    on are exact; earlier ones are upper bounds (they never miss a possible rest) until `complete` is called. With
    `max_wait` > 0 a group may wait up to that many ticks before each visit except the first; the rests that can be
    served on *arrival* at t are then the union of the entries t..t + max_wait.
    """

    def __init__(
        self,
        starts: StartMasks,
        visits: Sequence[Mapping[int, int]],
        horizon: int,
        max_wait: int,
        first_tick: int,
        last_end: int,
    ) -> None:
        self._starts = starts
        self._horizon = horizon
        self._max_wait = max_wait
        self._base = first_tick
        self.exact_from = min(max(last_end, first_tick), horizon + 1)
        self._longest = max((duration for durations in visits for duration in durations), default=0)
        self._entries: list[int] = []
        self._arrivals: list[int] = [] if max_wait else self._entries
        self._sums, self._served = _served_by_sum(tuple(min(durations, default=math.inf) for durations in visits))
        self.kinds = sum(map(len, visits))
        n_rests = 1 << len(visits)
        clients_of = [reduce(or_, durations.values(), 0) for durations in visits]
        # lacking[c]: the rests that do not contain c. The pattern of 2^c ones, 2^c zeros is a geometric series.
        lacking = [((1 << n_rests) - 1) // ((1 << (1 << c)) + 1) for c in range(len(visits))]

        @lru_cache(maxsize=1 << 14)
        def durations_within(cluster: int, clients: int) -> tuple[int, ...]:
            return tuple(duration for duration, mask in visits[cluster].items() if mask & clients)

        @lru_cache(maxsize=1 << 13)
        def steps(clients: int) -> tuple[tuple[int, int, tuple[int, ...]], ...]:
            return tuple(
                (lacking[cluster], 1 << cluster, durations_within(cluster, clients & members))
                for cluster, members in enumerate(clients_of)
                if clients & members
            )

        self._steps = steps

    def can_start(self, rest: int, tick: int) -> bool:
        """Return whether a group whose next visit starts exactly at `tick` may serve `rest`."""
        return bool(self._entries[tick - self._base] >> rest & 1)

    def possible(self, rest: int, tick: int) -> bool:
        return bool(self._arrivals[tick - self._base] >> rest & 1)

    def rule_out(self, rest: int, tick: int) -> None:
        self._arrivals[tick - self._base] &= ~(1 << rest)

    def cover(self, last_tick: int) -> None:
        """Add entries for all ticks that a search up to `last_tick` may look at."""
        beyond = self._longest + self._max_wait + 1
        last_tick = min(max(last_tick, self.exact_from), self._horizon) + beyond
        missing = [self._without_calendars(t) for t in range(self._base + len(self._entries), last_tick + 1)]
        self._entries.extend(missing)
        if self._max_wait:
            self._arrivals.extend(missing)

    def booked(self, end: int) -> None:
        """React to the booking of an interval that ends at `end`: earlier entries are now upper bounds."""
        self.exact_from = max(self.exact_from, min(end, self._horizon + 1))

    def released(self, end: int) -> None:
        """React to the release of an interval that ends at `end`: earlier entries are no longer known."""
        self.exact_from = max(self.exact_from, min(end, self._horizon + 1))
        known = range(self._base, self._base + len(self._entries))
        hopeful = [self._without_calendars(tick) for tick in known[: max(end - self._base, 0)]]
        self._entries[: len(hopeful)] = hopeful
        if self._max_wait:
            self._arrivals[: len(hopeful)] = hopeful

    def complete(self, tick: int) -> None:
        """Make the entries from `tick` on exact."""
        entries, arrivals, wait, steps = self._entries, self._arrivals, self._max_wait, self._steps
        masks = self._starts.between(tick, self.exact_from)
        position = self.exact_from - self._base
        for clients in reversed(masks):
            position -= 1
            entry = 1  # nothing left to serve
            for lacking, cluster_bit, durations in steps(clients):
                after = 0
                for duration in durations:
                    after |= arrivals[position + duration]
                entry |= (after & lacking) << cluster_bit
            entries[position] = entry
            if wait:
                arrivals[position] = reduce(or_, entries[position : position + wait + 1])
        self.exact_from = min(self.exact_from, tick)

    def forget_before(self, tick: int) -> None:
        past = max(tick - self._base, 0)
        del self._entries[:past]
        if self._max_wait:
            del self._arrivals[:past]
        self._base += past
        self.exact_from = max(self.exact_from, self._base)

    def _without_calendars(self, tick: int) -> int:
        return self._served[bisect_right(self._sums, self._horizon - tick)]


@lru_cache(maxsize=8)
def _served_by_sum(shortest: tuple[float, ...]) -> tuple[list[float], list[int]]:
    """Return the times to serve each rest if no client is booked: the sums of its clusters' shortest durations.

    Returns the sums in ascending order, and for each k the set of the rests with the k smallest sums.
    """
    sums: list[float] = [0]
    for duration in shortest:
        sums += [total + duration for total in sums]
    served, union = [0], 0
    by_sum = sorted((rest for rest in range(len(sums)) if sums[rest] < math.inf), key=sums.__getitem__)
    for rest in by_sum:
        union |= 1 << rest
        served.append(union)
    return [sums[rest] for rest in by_sum], served
