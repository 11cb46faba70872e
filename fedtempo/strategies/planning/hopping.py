"""Groups on the run's clock: the planners work in ticks, a run in seconds, and real visits are early or late."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

import numpy as np

from fedtempo.strategies.planning.fixed_rate import PacedPlanner
from fedtempo.strategies.planning.groups import GroupPlanner

_FOREVER = 1 << 40
"""Horizon in ticks of a run without one."""


@dataclass(eq=False)
class Group:
    """A group that was formed: its number, from 0, and its stops (client, tick at which it starts), in order."""

    number: int
    stops: tuple[tuple[int, int], ...]

    def client(self, position: int) -> int:
        """The client at a position; the group has as many positions as stops."""
        return self.stops[position][0]


class HoppingSchedule:
    """Forms groups around what is booked and follows them while they live.

    visit_s: seconds that each client's visit is expected to take; Delta_i of the FedHusky paper is this, with `guard`
    as a share on top, rounded up to ticks. horizon: no group is planned to end later. max_wait_s: how long a planned
    group's model may wait before a hop, by default not at all; how long a paced group's may wait in all, by default as
    long as it takes. min_attempt_gap_s: attempts to plan come no closer than this, failed ones counted. paced: (pace,
    length, generator) for random order at a steady pace instead of the exact planner.
    """

    def __init__(
        self,
        visit_s: Sequence[float],
        cluster: Sequence[int],
        *,
        horizon: float,
        tick_s: float = 0.1,
        guard: float = 0.0,
        max_wait_s: float | None = None,
        min_attempt_gap_s: float = 0.0,
        paced: tuple[float, int | None, np.random.Generator] | None = None,
    ) -> None:
        self._tick_s, self._guard, self._gap_s = tick_s, guard, min_attempt_gap_s
        durations = [self._ticks_up(seconds * (1 + guard)) for seconds in visit_s]
        end = _FOREVER if math.isinf(horizon) else math.floor(horizon / tick_s + 1e-9)
        n_clusters = max(cluster) + 1
        wait = None if max_wait_s is None else math.floor(max_wait_s / tick_s)
        self._rng: np.random.Generator | None = None
        self._planner: GroupPlanner | PacedPlanner
        if paced is None:
            self._planner = GroupPlanner(durations, cluster, n_clusters, end, max_wait=wait or 0)
        else:
            pace, length, self._rng = paced
            self._planner = PacedPlanner(durations, cluster, n_clusters, end, pace=pace, length=length, max_wait=wait)
        self._formed = 0
        self._last_attempt = -math.inf
        self._next_begin: dict[int, int] = {}
        """For each living group the tick from which on its next visit is booked."""
        self._begins: list[tuple[int, int]] = []
        """(that tick, the group's number) in a heap, with some that are no longer true."""

    @property
    def alive(self) -> int:
        """Groups that live."""
        return len(self._next_begin)

    @property
    def next_attempt(self) -> float:
        """When the next attempt may be made."""
        return self._last_attempt + self._gap_s

    def next_chance(self, now: float) -> float:
        """Where no group lives: when an attempt may succeed, after one that did not. Infinite where none will.

        Groups that ended before their bookings leave clients booked who do nothing, until these bookings end.
        """
        if now < self.next_attempt:
            return self.next_attempt
        tick, calendars = self._ticks_up(now), self._planner.calendars
        ends = (end for client in range(len(calendars)) for _, end in calendars.intervals(client) if end > tick)
        return min(ends, default=math.inf) * self._tick_s

    @property
    def interval_s(self) -> float:
        """Paced: seconds between the starts of groups."""
        assert isinstance(self._planner, PacedPlanner)
        return self._planner.interval * self._tick_s

    def keep(self, clients: Collection[int]) -> None:
        """Plan with these clients alone from now on."""
        for client in set(range(len(self._planner.durations))) - set(clients):
            self._planner.remove(client)

    def form(self, now: float, head: int | None = None) -> Group | None:
        """Plan and book the best group that starts now; None where there is none, or the last attempt is too near.

        head: the client that goes first (OPT-j); free where not given (OPT-k). Heads are not subject to the gap.
        """
        if head is None and now < self.next_attempt:
            return None
        self._last_attempt = now
        t0 = self._ticks_up(now)
        self._planner.forget_before(int(min(self._ticks_down(now), self._first_begin())))
        if isinstance(self._planner, PacedPlanner):
            assert self._rng is not None
            plan = self._planner.plan(t0, self._rng)
        else:
            plan = self._planner.plan(t0, head)
        if not plan:
            return None
        self._planner.book(plan)
        group = Group(self._formed, plan.stops)
        self._formed += 1
        self._set_begin(group, t0)
        return group

    def may_start(self, group: Group, position: int, now: float) -> float:
        """When the visit at a position may start, its predecessor having ended: once the client's earlier bookings end.

        That is now where everything takes as long as booked; a group that is early must not push in front.
        """
        client, begin = group.stops[position]
        before = [end for _, end in self._planner.calendars.intervals(client) if end <= begin]
        return max(now, before[-1] * self._tick_s) if before else now

    def ends(self, group: Group, position: int) -> float:
        """When the visit at a position was booked to end."""
        client, begin = group.stops[position]
        return (begin + self._planner.durations[client]) * self._tick_s

    def learn(self, client: int, visit_s: float) -> None:
        """Replace what a client's visit is expected to take; what is booked stays as it is."""
        self._planner.set_duration(client, self._ticks_up(visit_s * (1 + self._guard)))

    def goes_on(self, group: Group, position: int, now: float, *, rebook: bool, abort: bool = False) -> bool:
        """Whether a group has another visit after the one at `position`, which ended now.

        A group that runs late is moved to where its clients are free (`rebook`). One that is aborted, or can no longer
        end by the horizon, is dropped: its bookings are given back.
        """
        left = group.stops[position + 1 :]
        del self._next_begin[group.number]
        if abort or not left:
            self._release(left)
            return False
        planner, ready = self._planner, self._ticks_up(now)
        end = ready + sum(planner.durations[client] for client, _ in left)
        if rebook and ready > left[0][1] and end <= planner.horizon:
            left = planner.rebook(left, ready)
            group.stops = (*group.stops[: position + 1], *left)
            client, begin = left[-1]
            end = begin + planner.durations[client]
        if end > planner.horizon:
            self._release(left)
            return False
        self._set_begin(group, left[0][1])
        return True

    def _set_begin(self, group: Group, tick: int) -> None:
        self._next_begin[group.number] = tick
        heappush(self._begins, (tick, group.number))

    def _first_begin(self) -> float:
        """The earliest of the ticks at which living groups' next visits begin."""
        while self._begins and self._next_begin.get(self._begins[0][1]) != self._begins[0][0]:
            heappop(self._begins)
        return self._begins[0][0] if self._begins else math.inf

    def _release(self, stops: Sequence[tuple[int, int]]) -> None:
        for client, begin in stops:
            self._planner.release(client, begin)

    def _ticks_up(self, seconds: float) -> int:
        return max(1, math.ceil(seconds / self._tick_s - 1e-9)) if seconds > 0 else 0

    def _ticks_down(self, seconds: float) -> int:
        return math.floor(seconds / self._tick_s + 1e-9)
