"""The lines to the clients: one thread owns the grid, sends calls, fetches replies, and looks who is there."""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar, TypeVarTuple, Unpack

from fedtempo.runtime.live.calls import Call, Failure, Grid, GridError, Reply

T = TypeVar("T")
A = TypeVarTuple("A")

_SLOW_S = 5.0
"""An operation of the grid that takes longer than this is an outage: deadlines do not count it."""


@dataclass(frozen=True, eq=False)
class _Asked:
    call: Call
    future: asyncio.Future[Reply]


class Lines:
    """Calls go out at once; replies are fetched every `poll_s`, less often up to `poll_max_s` while none come.

    refresh_s: seconds between looks at who is there. Use within a running event loop, and close at the end.
    """

    def __init__(
        self,
        grid: Grid,
        on_nodes: Callable[[Sequence[int]], None],
        *,
        poll_s: float = 0.05,
        poll_max_s: float = 0.25,
        refresh_s: float = 5.0,
    ) -> None:
        self._grid, self._on_nodes = grid, on_nodes
        self._poll_s, self._poll_max_s, self._refresh_s = poll_s, poll_max_s, refresh_s
        self._loop = asyncio.get_running_loop()
        self._outbox: queue.SimpleQueue[_Asked | None] = queue.SimpleQueue()
        self._waiting: dict[str, _Asked] = {}
        self._open: set[_Asked] = set()
        self._stalled_s = 0.0
        self._operation_began: float | None = None
        self._error: GridError | None = None
        self._thread = threading.Thread(target=self._work, name="grid", daemon=True)
        self._thread.start()

    def ask(self, call: Call) -> asyncio.Future[Reply]:
        """Send a call. The future ends with the reply, whether or not anybody still waits for it; never cancel it.

        It raises GridError where the grid's server is gone for good.
        """
        asked = _Asked(call, self._loop.create_future())
        if self._error is not None:
            asked.future.set_exception(self._error)
        else:
            self._open.add(asked)
            self._outbox.put(asked)
        return asked.future

    def hang_up(self, node: int) -> None:
        """A node has left for good: its calls end as "gone"."""
        for asked in [asked for asked in self._open if asked.call.node == node]:
            self._end(asked, Reply(failure=Failure("gone", "its node was replaced by another")))

    @property
    def stalled_s(self) -> float:
        """Seconds in which the grid's server did not answer, all together."""
        began = self._operation_began
        return self._stalled_s + (0.0 if began is None else max(0.0, time.monotonic() - began - _SLOW_S))

    def close(self) -> None:
        """Nobody waits for anything any more."""
        self._outbox.put(None)
        self._thread.join(timeout=_SLOW_S)
        for asked in self._open:
            if not asked.future.done():
                asked.future.cancel()
        self._open.clear()

    # In the thread --------------------------------------------------------------------------------------------------

    def _work(self) -> None:
        try:
            self._carry()
        except Exception as error:  # noqa: BLE001  whatever it is, whoever waits must hear of it
            failed = error if isinstance(error, GridError) else GridError(f"the grid failed: {error!r}")
            self._call_soon(self._fail, failed)

    def _carry(self) -> None:
        delay, looked_at = self._poll_s, -self._refresh_s
        while True:
            try:
                asked = self._outbox.get(timeout=delay if self._waiting else self._refresh_s)
            except queue.Empty:
                pass
            else:
                if asked is None:
                    return
                self._send(asked)
                delay = self._poll_s
                if not self._outbox.empty():
                    continue
            delay = self._poll_s if self._fetch() else min(1.5 * delay, self._poll_max_s)
            if time.monotonic() - looked_at >= self._refresh_s:
                looked_at = time.monotonic()
                self._call_soon(self._on_nodes, self._timed(self._grid.node_ids))

    def _send(self, asked: _Asked) -> None:
        name = self._timed(lambda: self._grid.push(asked.call))
        if name is None:
            self._call_soon(self._end, asked, Reply(failure=Failure("gone", "its node is not known")))
        else:
            self._waiting[name] = asked

    def _fetch(self) -> bool:
        """Hand over replies that have come; whether there were any."""
        if not self._waiting:
            return False
        replies = self._timed(lambda: self._grid.pull(list(self._waiting)))
        for name, reply in replies.items():
            if (asked := self._waiting.pop(name, None)) is not None:
                self._call_soon(self._end, asked, reply)
        return bool(replies)

    def _timed(self, operation: Callable[[], T]) -> T:
        began = self._operation_began = time.monotonic()
        try:
            return operation()
        finally:
            self._stalled_s += max(0.0, time.monotonic() - began - _SLOW_S)
            self._operation_began = None

    def _call_soon(self, function: Callable[[Unpack[A]], None], *arguments: *A) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(function, *arguments)

    # In the loop ----------------------------------------------------------------------------------------------------

    def _end(self, asked: _Asked, reply: Reply) -> None:
        self._open.discard(asked)
        if not asked.future.done():
            asked.future.set_result(reply)

    def _fail(self, error: GridError) -> None:
        self._error = error
        for asked in self._open:
            if not asked.future.done():
                asked.future.set_exception(error)
                asked.future.exception()  # where nobody waits any more, nobody needs to be told
        self._open.clear()
