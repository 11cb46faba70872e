"""Real time for a run, in instants: the clock of a deployment moves only where nothing is left to do.

An instant is a reading of the clock and what had come from outside by then. Everything that follows from it happens
before the next: so a run is a function of its instants, and happens again, to the bit, where they are given to it.
"""

from __future__ import annotations

import asyncio
import heapq
import queue
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from contextvars import Context
from dataclasses import dataclass
from typing import Any, TypeVar, TypeVarTuple

from fedtempo.runtime.clock import VirtualLoop, set_aside

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

_STANDSTILL_S = 1e6
"""How far before time 0 the loop's clock runs during preparation: no timer of the run comes into reach there."""

_TURNS = 1000
"""A strategy that never waits gets no further than this within one instant: then time moves, and what came is seen."""

_LONGEST_S, _SHORTEST_S = 1.0, 0.002
"""Bounds of one wait: what a signal's handler did is seen, and a clock that stands still is not read without end."""


@dataclass(frozen=True)
class Instant:
    """time: on the loop's clock. events: what came from outside, in order."""

    time: float
    events: tuple[Any, ...] = ()


class RunLoop(VirtualLoop):
    """An event loop whose time is seconds since the run began, without those in which the server of the grid was away.

    away_s: seconds in which it was, all together. live: False while recorded instants happen again.
    """

    def __init__(self) -> None:
        super().__init__()
        self.away_s: Callable[[], float] = lambda: 0.0
        self.live = True
        self.preparing = False
        self._zero = time.monotonic()
        self._turns = 0
        self._inbox: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._past: deque[Instant] = deque()
        self._deliver: Callable[[Any], None] = lambda event: None
        self._record: Callable[[Instant], None] = lambda instant: None
        self._go_live: Callable[[], None] = lambda: None

    def follow(
        self,
        past: Iterable[Instant],
        *,
        deliver: Callable[[Any], None],
        record: Callable[[Instant], None],
        go_live: Callable[[], None],
    ) -> None:
        """Let these instants happen again, then go on with new ones.

        deliver: called in the loop for each event. record: called for each new instant, before anything follows from
        it. go_live: called once, after the last recorded instant.
        """
        self._past.extend(past)
        self._deliver, self._record, self._go_live = deliver, record, go_live
        self.live = not self._past
        if self.live:
            go_live()

    def post(self, event: Any) -> None:
        """Something has come from outside; from any thread."""
        self._inbox.put(event)

    def call_soon_threadsafe(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        """As asyncio's, which ends a run by it; it is in no record."""
        handle = asyncio.Handle(callback, args, self, context)
        self._inbox.put(handle)
        return handle

    def stand_still(self) -> None:
        """From now on the run's time is 0. Timers that were set for the run wait; those that are set meanwhile work."""
        self.preparing = True
        self._set(-_STANDSTILL_S)

    def begin(self) -> None:
        """The run begins: it is 0 s."""
        self.preparing = False
        self._set(0.0)

    @property
    def run_s(self) -> float:
        """Seconds since the run began."""
        return 0.0 if self.preparing else self.now

    def _set(self, now: float) -> None:
        self.now = now
        self._zero = time.monotonic() - self.away_s() - now

    def _reading(self) -> float:
        return max(self.now, time.monotonic() - self.away_s() - self._zero)

    def _run_once(self) -> None:
        self._turns += 1
        if not self._stopping and (not self._ready or self._turns > _TURNS):  # type: ignore[attr-defined]
            self._move_on()
        super()._run_once()

    def _move_on(self) -> None:
        """Come to the next instant in which there is something to do."""
        self._turns = 0
        while True:
            instant = self._next_instant()
            self.now = instant.time
            for event in instant.events:
                self.call_soon(self._deliver, event)
            due = self._due()
            if self._ready or (due is not None and due <= self.now):  # type: ignore[attr-defined]
                return

    def _next_instant(self) -> Instant:
        if self._past:
            return self._past.popleft()
        if not self.live:
            self.live = True
            self._set(self.now)
            self._go_live()
        instant = self._wait()
        self._record(instant)
        return instant

    def _due(self) -> float | None:
        """When the next timer is due, None where there is none."""
        timers = self._timers
        while timers and timers[0][2].cancelled():
            if not isinstance(heapq.heappop(timers)[2], asyncio.Future):
                self._cancelled_timers -= 1
        return timers[0][0] if timers else None

    def _wait(self) -> Instant:
        """The next instant: a timer is due, something has come, or something is ready."""
        due, events = self._due(), []
        while True:
            now = self._reading()
            left = _LONGEST_S if due is None else due - now
            try:
                if self._ready or left <= 0:  # type: ignore[attr-defined]
                    came = self._inbox.get_nowait()
                else:
                    came = self._inbox.get(timeout=min(max(left, _SHORTEST_S), _LONGEST_S))
                while True:
                    if isinstance(came, asyncio.Handle):
                        self._ready.append(came)  # type: ignore[attr-defined]
                    else:
                        events.append(came)
                    came = self._inbox.get_nowait()
            except queue.Empty:
                pass
            now = self._reading()
            if events or self._ready or (due is not None and now >= due):  # type: ignore[attr-defined]
                return Instant(now, tuple(events))


def play(main: Coroutine[Any, Any, T]) -> T:
    """Run `main` on a loop of its own, within another too; Ctrl-C cancels it and raises KeyboardInterrupt."""
    with set_aside(), asyncio.Runner(loop_factory=RunLoop) as runner:
        return runner.run(main)
