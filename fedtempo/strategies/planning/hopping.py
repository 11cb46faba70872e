"""Groups on the run's clock: planners work in ticks, a run in seconds, and real visits end early or late."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import NamedTuple

import numpy as np

from fedtempo.strategies.planning.fixed_rate import PacedPlanner
from fedtempo.strategies.planning.groups import GroupPlanner

_FOREVER = 1 << 40
"""Horizon in ticks of a run that has none."""


class Pace(NamedTuple):
    """Settings of a `PacedPlanner`, and the generator that draws the order of clusters."""

    pace: float
    rng: np.random.Generator
    length: int | None = None


@dataclass(eq=False)
class Group:
    """A group that was formed: its number, counted from 0, and its stops (client, start tick) in order."""

    number: int
    stops: tuple[tuple[int, int], ...]

    def client(self, position: int) -> int:
        """Return the client of the stop at `position`."""
        return self.stops[position][0]


class HoppingSchedule:
    """Forms groups around what is already booked, and keeps their bookings up to date while they live.

    visit_s: expected duration of each client's visit, seconds; with the share `guard` added and rounded up to ticks it
    is Delta_i of the FedHusky paper. horizon: no group is planned to end later. max_wait_s: longest wait of a planned
    group's model before a hop. min_attempt_gap_s: least time between attempts to plan, failed ones included.
    most_alive: no group is formed while this many are alive (None: no limit). paced: random order at a steady pace
    instead of the exact planner. first_group: generator that draws the first group with a given head, in place of
    planning it.
    """

    def __init__(
        self,
        visit_s: Sequence[float],
        cluster: Sequence[int],
        *,
        horizon: float,
        tick_s: float = 0.1,
        guard: float = 0.0,
        max_wait_s: float = 0.0,
        min_attempt_gap_s: float = 0.0,
        most_alive: int | None = None,
        paced: Pace | None = None,
        first_group: np.random.Generator | None = None,
    ) -> None:
        self._tick_s, self._guard, self._gap_s, self._most_alive = tick_s, guard, min_attempt_gap_s, most_alive
        self._first_group = first_group
        self._clients = list(range(len(visit_s)))
        durations = [self._ticks_up(seconds * (1 + guard)) for seconds in visit_s]
        end = _FOREVER if math.isinf(horizon) else math.floor(horizon / tick_s + 1e-9)
        n_clusters = max(cluster) + 1
        self._rng: np.random.Generator | None = None
        self._planner: GroupPlanner | PacedPlanner
        if paced is None:
            max_wait = math.floor(max_wait_s / tick_s)
            self._planner = GroupPlanner(durations, cluster, n_clusters, end, max_wait=max_wait)
        else:
            pace, self._rng, length = paced
            self._planner = PacedPlanner(durations, cluster, n_clusters, end, pace=pace, length=length)
        self._formed = 0
        self._last_attempt = -math.inf
        self._next_begin: dict[int, int] = {}
        """For each living group, the tick at which its next visit is booked to begin."""
        self._begins: list[tuple[int, int]] = []
        """A heap of (that tick, the group's number); outdated entries are skipped when they reach the top."""

    @property
    def paced(self) -> bool:
        """Whether groups are formed at a steady pace, in random order."""
        return self._rng is not None

    @property
    def clients(self) -> Sequence[int]:
        """Ascending ids of the clients that groups are planned with."""
        return self._clients

    @property
    def alive(self) -> int:
        """Number of living groups."""
        return len(self._next_begin)

    @property
    def next_attempt(self) -> float:
        """Earliest time of the next attempt, seconds."""
        return self._last_attempt + self._gap_s

    def next_chance(self, now: float) -> float:
        """Return when an attempt may succeed next, after one failed while no group lives; infinite if none will.

        A group that ended before its bookings did leaves its clients booked but idle until those bookings end.
        """
        if now < self.next_attempt:
            return self.next_attempt
        tick, calendars = self._ticks_up(now), self._planner.calendars
        ends = (end for client in range(len(calendars)) for _, end in calendars.intervals(client) if end > tick)
        return min(ends, default=math.inf) * self._tick_s

    @property
    def interval_s(self) -> float:
        """Seconds between attempts of a paced schedule."""
        assert isinstance(self._planner, PacedPlanner)
        return self._planner.interval * self._tick_s

    def keep(self, clients: Collection[int]) -> None:
        """Plan with these clients only from now on."""
        kept = set(clients)
        for client in self._clients:
            if client not in kept:
                self._planner.remove(client)
        self._clients = [client for client in self._clients if client in kept]

    def form(self, now: float, head: int | None = None) -> Group | None:
        """Plan and book a group that starts now.

        Returns None if none fits, if too many groups are alive, or if the last attempt was too recent.

        head: the client that goes first (OPT-j); by default the planner chooses it (OPT-k). The least time between
        attempts does not apply if a head is given.
        """
        if self._most_alive is not None and self.alive >= self._most_alive:
            return None
        if head is None and now < self.next_attempt:
            return None
        self._last_attempt = now
        t0 = self._ticks_up(now)
        self._planner.forget_before(int(min(self._ticks_down(now), self._first_begin())))
        if isinstance(self._planner, PacedPlanner):
            assert self._rng is not None
            plan = self._planner.plan(t0, self._rng)
        elif head is not None and self._first_group is not None and not self._formed:
            plan = self._planner.random_plan(t0, head, self._first_group)
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
        """Return when the visit at `position` may start after its predecessor: once its client's earlier bookings end.

        This is `now` if every visit takes as long as booked; a group that is early must not jump the queue.
        """
        client, begin = group.stops[position]
        before = [end for _, end in self._planner.calendars.intervals(client) if end <= begin]
        return max(now, before[-1] * self._tick_s) if before else now

    def ends(self, group: Group, position: int) -> float:
        """Return when the visit at `position` is booked to end, seconds."""
        client, begin = group.stops[position]
        return (begin + self._planner.durations[client]) * self._tick_s

    def learn(self, client: int, visit_s: float) -> None:
        """Update the expected duration of a client's visit; existing bookings stay as they are."""
        self._planner.set_duration(client, self._ticks_up(visit_s * (1 + self._guard)))

    def goes_on(self, group: Group, position: int, now: float, *, rebook: bool, abort: bool = False) -> bool:
        """Return whether a group continues after its visit at `position`, which ended now.

        With `rebook`, the rest of a group that runs late moves to times when its clients are free. A group that is
        aborted, or can no longer end by the horizon, is dropped and its bookings are released.
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
        """Return the earliest tick at which a living group's next visit is booked to begin."""
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
