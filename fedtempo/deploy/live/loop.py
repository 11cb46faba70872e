"""Real time for a run, in instants: the clock of a deployment advances only when nothing is left to do.

An instant is a reading of the clock together with the events that had arrived from outside by then. Everything that
follows from it happens before the next instant. So a run is a function of its instants, and replaying them repeats the
run bit for bit.
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
"""Start of the loop's clock during preparation, in seconds before time 0: no timer of the run can be due there."""

_TURNS = 1000
"""Iterations of the loop within one instant; after these, time advances and events are received in any case."""

_LONGEST_S, _SHORTEST_S = 1.0, 0.002
"""Bounds of one wait, seconds: signal handlers take effect in time, and a stopped clock is not polled too often."""


@dataclass(frozen=True)
class Instant:
    """A time on the loop's clock, and the events from outside that had arrived by then, in order."""

    time: float
    events: tuple[Any, ...] = ()


class RunLoop(VirtualLoop):
    """An event loop whose time is seconds since the run began, not counting outages of the grid's server.

    away_s: returns the total length of outages in seconds. live: False while recorded instants are replayed.
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
        """Replay the instants of `past`, then continue with new ones.

        deliver: called in the loop for each event. record: called for each new instant, before anything follows from
        it. go_live: called once, after the last replayed instant.
        """
        self._past.extend(past)
        self._deliver, self._record, self._go_live = deliver, record, go_live
        self.live = not self._past
        if self.live:
            go_live()

    def post(self, event: Any) -> None:
        """Add an event from outside. Thread-safe."""
        self._inbox.put(event)

    def call_soon_threadsafe(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        """Run a callback in the loop, as in asyncio, which uses it to cancel a run; it is not recorded."""
        handle = asyncio.Handle(callback, args, self, context)
        self._inbox.put(handle)
        return handle

    def stand_still(self) -> None:
        """Hold the run's time at 0. Timers set before wait for the run; those set from now on work."""
        self.preparing = True
        self._set(-_STANDSTILL_S)

    def begin(self) -> None:
        """Begin the run at 0 s."""
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
        """Advance to the next instant in which there is something to do."""
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
        """Return when the next timer is due; None if there is no timer."""
        timers = self._timers
        while timers and timers[0][2].cancelled():
            if not isinstance(heapq.heappop(timers)[2], asyncio.Future):
                self._cancelled_timers -= 1
        return timers[0][0] if timers else None

    def _wait(self) -> Instant:
        """Wait for the next instant: a timer is due, an event has arrived, or a callback is ready."""
        due, events = self._due(), []
        while True:
            now = self._reading()
            left = _LONGEST_S if due is None else due - now
            try:
                if self._ready or left <= 0:  # type: ignore[attr-defined]
                    event = self._inbox.get_nowait()
                else:
                    event = self._inbox.get(timeout=min(max(left, _SHORTEST_S), _LONGEST_S))
                while True:
                    if isinstance(event, asyncio.Handle):
                        self._ready.append(event)  # type: ignore[attr-defined]
                    else:
                        events.append(event)
                    event = self._inbox.get_nowait()
            except queue.Empty:
                pass
            now = self._reading()
            if events or self._ready or (due is not None and now >= due):  # type: ignore[attr-defined]
                return Instant(now, tuple(events))


def play(main: Coroutine[Any, Any, T]) -> T:
    """Run `main` on a new RunLoop, also inside a running loop; Ctrl-C cancels it and raises KeyboardInterrupt."""
    with set_aside(), asyncio.Runner(loop_factory=RunLoop) as runner:
        return runner.run(main)
