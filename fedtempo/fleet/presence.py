"""Availability during a run. Times are seconds on the run's clock; intervals are half-open, [begin, end)."""

from __future__ import annotations

import math
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable
from typing import Protocol

import numpy as np

from fedtempo.fleet.streams import Streams


class Availability(Protocol):
    """When a fleet's clients are available. Answers do not depend on the order of the calls."""

    def available_until(self, client: int, t: float) -> float:
        """Return when the client leaves: `t` if it is away at `t`, infinity if it stays."""
        ...

    def next_available(self, client: int, t: float) -> float:
        """Return the first time from `t` on when the client is available; infinity if there is none."""
        ...

    def failure_point(self, client: int, visit_rng: Callable[[], np.random.Generator]) -> float | None:
        """Return the share of the computation after which this visit fails; None if it does not.

        visit_rng: returns the visit's generator, which is only made if it is called.
        """
        ...


class Present:
    """Clients that are always available and whose visits fail with some probability."""

    def __init__(self, failure: float = 0.0) -> None:
        self._failure = failure

    @property
    def never_fails(self) -> bool:
        """Whether no visit fails."""
        return self._failure == 0

    def available_until(self, client: int, t: float) -> float:
        return math.inf

    def next_available(self, client: int, t: float) -> float:
        return t

    def failure_point(self, client: int, visit_rng: Callable[[], np.random.Generator]) -> float | None:
        if self._failure == 0:
            return None
        u = visit_rng().random()
        return u / self._failure if u < self._failure else None  # u is uniform below the probability


class Switching:
    """Clients that become available and unavailable at random times, which are drawn as needed."""

    def __init__(self, on_at_start: list[bool], mean_on_s: float, mean_off_s: float, streams: Streams) -> None:
        self._on_at_start = on_at_start
        self._mean_s = {True: mean_on_s, False: mean_off_s}
        self._streams = streams
        self._changes = [array("d") for _ in on_at_start]

    def _state(self, client: int, t: float) -> tuple[bool, float]:
        """Return whether the client is available at `t`, and until when this holds."""
        changes = self._changes[client]
        while not changes or changes[-1] <= t:
            on = self._on_at_start[client] ^ (len(changes) % 2 == 1)
            stay_s = self._mean_s[on] * self._streams[client].standard_exponential()
            changes.append((changes[-1] if changes else 0.0) + stay_s)
        passed = bisect_right(changes, t)
        return self._on_at_start[client] ^ (passed % 2 == 1), changes[passed]

    def available_until(self, client: int, t: float) -> float:
        on, until = self._state(client, t)
        return until if on else t

    def next_available(self, client: int, t: float) -> float:
        on, until = self._state(client, t)
        return t if on else until

    def failure_point(self, client: int, visit_rng: Callable[[], np.random.Generator]) -> float | None:
        return None


class Scheduled:
    """Clients with known windows, sorted and disjoint, repeated every `period` seconds (None: not repeated).

    period: one for all clients, or one per client.
    """

    def __init__(self, windows: list[list[tuple[float, float]]], period: float | list[float | None] | None) -> None:
        self._begins = [[begin for begin, _ in of_client] for of_client in windows]
        self._ends = [[end for _, end in of_client] for of_client in windows]
        self._periods = period if isinstance(period, list) else [period] * len(windows)

    def of(self, clients: Iterable[int]) -> Scheduled:
        """Return the schedule of these clients, in this order."""
        chosen = list(clients)
        windows = [list(zip(self._begins[client], self._ends[client])) for client in chosen]
        return Scheduled(windows, [self._periods[client] for client in chosen])

    @property
    def last_s(self) -> float:
        """The time from which on every client is away; infinity if one returns again and again."""
        periods = [period for begins, period in zip(self._begins, self._periods) if begins]
        if any(period is not None for period in periods):
            return math.inf
        return max((ends[-1] for ends in self._ends if ends), default=0.0)

    def _cycle(self, client: int, t: float) -> int:
        """Return the cycle of `t`, consistent with `_time`: a plain division may round past a boundary."""
        period = self._periods[client]
        if period is None:
            return 0
        cycle = math.floor(t / period)
        return cycle + (self._time(client, cycle + 1, 0.0) <= t) - (self._time(client, cycle, 0.0) > t)

    def _time(self, client: int, cycle: int, inside: float) -> float:
        period = self._periods[client]
        return inside if period is None else cycle * period + inside

    def _latest(self, client: int, cycle: int, t: float) -> int:
        """Return the position of the last window that began by `t` in this cycle, -1 if none did."""
        return bisect_right(self._begins[client], t, key=lambda begin: self._time(client, cycle, begin)) - 1

    def available_until(self, client: int, t: float) -> float:
        begins, ends, cycle = self._begins[client], self._ends[client], self._cycle(client, t)
        position = self._latest(client, cycle, t)
        if position < 0 or t >= self._time(client, cycle, ends[position]):
            return t
        period = self._periods[client]
        if ends[position] == period and begins[0] == 0:  # the window continues in the next cycle
            return math.inf if ends[0] == period else self._time(client, cycle + 1, ends[0])
        return self._time(client, cycle, ends[position])

    def next_available(self, client: int, t: float) -> float:
        begins, cycle = self._begins[client], self._cycle(client, t)
        if self.available_until(client, t) > t:
            return t
        position = self._latest(client, cycle, t) + 1
        if position < len(begins):
            return self._time(client, cycle, begins[position])
        repeats = bool(begins) and self._periods[client] is not None
        return self._time(client, cycle + 1, begins[0]) if repeats else math.inf

    def failure_point(self, client: int, visit_rng: Callable[[], np.random.Generator]) -> float | None:
        return None


def parts_of_window(begin: float, end: float, period_s: float | None) -> list[tuple[float, float]]:
    """Return a window as one part, or two if it lasts over the end of a period. Raises ValueError if it is none.

    Without a period, end must be after begin. With one, both lie in it, and a window whose end is before its begin
    lasts over the end of the period, such as from 22 h to 6 h.
    """
    if 0 <= begin < end and end <= (math.inf if period_s is None else period_s):
        return [(begin, end)]
    if period_s is None:
        hint = "; a window over midnight needs period_s = 86400" if 0 <= end < begin else ""
        raise ValueError(f"[{begin}, {end}] must have 0 <= begin < end{hint}")
    if not (0 <= end < begin < period_s):
        raise ValueError(f"[{begin}, {end}] must lie between 0 and period_s = {period_s}, with two different ends")
    return [(0.0, end), (begin, period_s)] if end > 0 else [(begin, period_s)]


def merged(windows: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the same times as sorted windows that neither overlap nor touch."""
    disjoint: list[tuple[float, float]] = []
    for begin, end in sorted(windows):
        if disjoint and begin <= disjoint[-1][1]:
            disjoint[-1] = (disjoint[-1][0], max(end, disjoint[-1][1]))
        else:
            disjoint.append((begin, end))
    return disjoint
