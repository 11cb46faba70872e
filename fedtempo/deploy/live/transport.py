"""Transport of calls to clients: one thread owns the grid, sends calls, fetches replies and looks up nodes."""

from __future__ import annotations

import dataclasses
import math
import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from fedtempo.deploy.live.event_log import CallSent, NodesOnline, OperationEnded
from fedtempo.deploy.live.messages import Answer, Call, Failure, Grid, GridError
from fedtempo.deploy.live.replies import answer_of

T = TypeVar("T")

_SLOW_S = 5.0
"""If an operation of the grid takes longer than this, the rest of it is an outage, in which the run's clock stops."""

_GRACE_S = 1.0
"""Seconds after which a call is sent again whose reply may have been lost with the server process that sent it."""

_RETURN_S = 10.0
"""Seconds after an interruption of the grid's server after which calls are sent again: what the server was about to
deliver when it was killed is lost, and clients need time to connect again."""


@dataclass(frozen=True)
class _PendingCall:
    """A call without a reply yet. name: if an earlier server process sent it.

    resend_at: when to send it once more. The client recognises it and does not train again.
    """

    number: int
    call: Call
    name: str | None = None
    resend_at: float = math.inf


class Transport:
    """Sends calls immediately and polls for replies every `poll_s` to `poll_max_s` seconds, less often while none come.

    post: receives the events, in the transport's thread. store: stores the model in a result before its event is
    posted. run: name of this run, by which clients recognise calls that they have answered already. refresh_s: seconds
    between two lookups of the nodes online.
    """

    def __init__(
        self,
        grid: Grid,
        post: Callable[[Any], None],
        store: Callable[[Any], Any],
        *,
        run: str,
        poll_s: float = 0.05,
        poll_max_s: float = 0.25,
        refresh_s: float = 5.0,
    ) -> None:
        self._grid, self._post, self._store, self._run = grid, post, store, run
        self._poll_s, self._poll_max_s, self._refresh_s = poll_s, poll_max_s, refresh_s
        self._outbox: queue.SimpleQueue[_PendingCall | None] = queue.SimpleQueue()
        self._waiting: dict[str, _PendingCall] = {}
        self._nodes: tuple[int, ...] | None = None
        self._interruptions = grid.interruptions
        self._stalled_s = 0.0
        self._operation_began: float | None = None
        self._thread = threading.Thread(target=self._work, name="grid", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def send(self, number: int, call: Call) -> None:
        """Send the call of operation `number`."""
        self._outbox.put(_PendingCall(number, _with_arrays(call)))

    def take_up(self, number: int, name: str | None, call: Call) -> None:
        """Fetch the reply to a call that an earlier process sent under `name`; send it again if no reply comes."""
        self._outbox.put(_PendingCall(number, _with_arrays(call), name, time.monotonic() + _GRACE_S))

    @property
    def stalled_s(self) -> float:
        """Total length of the outages of the grid's server so far, seconds."""
        began = self._operation_began
        return self._stalled_s + (0.0 if began is None else max(0.0, time.monotonic() - began - _SLOW_S))

    @property
    def stalled(self) -> bool:
        """Whether the grid's server is not answering now."""
        began = self._operation_began
        return began is not None and time.monotonic() - began > _SLOW_S

    def close(self) -> None:
        """Stop sending and fetching."""
        self._outbox.put(None)
        if self._thread.is_alive():
            self._thread.join(timeout=_SLOW_S)

    # In the thread --------------------------------------------------------------------------------------------------

    def _work(self) -> None:
        try:
            self._loop()
        except Exception as error:  # noqa: BLE001  the run waits for replies and must learn of any error
            fatal = error if isinstance(error, GridError) else GridError(f"the grid failed: {error!r}")
            self._post(OperationEnded(0, fatal))

    def _loop(self) -> None:
        self._look_up_nodes()
        delay, looked_up_at = self._poll_s, time.monotonic()
        while True:
            try:
                pending = self._outbox.get(timeout=delay if self._waiting else self._refresh_s)
            except queue.Empty:
                pass
            else:
                if pending is None:
                    return
                self._send(pending)
                delay = self._poll_s
                if not self._outbox.empty():
                    continue
            delay = self._poll_s if self._fetch() else min(1.5 * delay, self._poll_max_s)
            self._note_interruptions()
            self._send_again()
            if time.monotonic() - looked_up_at >= self._refresh_s:
                looked_up_at = time.monotonic()
                self._look_up_nodes()

    def _look_up_nodes(self) -> None:
        nodes = tuple(self._timed(self._grid.node_ids))
        self._post(NodesOnline(None if nodes == self._nodes else nodes))
        self._nodes = nodes

    def _send(self, pending: _PendingCall) -> None:
        if pending.name is not None:
            self._waiting[pending.name] = pending
            return
        call = pending.call
        named = dataclasses.replace(call, content={**call.content, "call": f"{self._run}:{pending.number}"})
        name = self._timed(lambda: self._grid.push(named))
        if name is None:
            self._end(pending.number, Answer(failure=Failure("gone", "its node is unknown")))
        else:
            self._waiting[name] = pending
            self._post(CallSent(pending.number, name))

    def _fetch(self) -> bool:
        """Post the replies that have arrived; return whether there were any."""
        if not self._waiting:
            return False
        largest = {name: pending.call.reply_bytes for name, pending in self._waiting.items()}
        replies = self._timed(lambda: self._grid.pull(largest))
        for name, reply in replies.items():
            if (pending := self._waiting.pop(name, None)) is None:
                continue
            if reply.failure is not None and reply.failure.kind == "gone":
                if self._messages(pending.number):
                    continue
                if pending.resend_at < math.inf:
                    self._send(_PendingCall(pending.number, pending.call))
                    continue
            sender = self._grid.sender(pending.call.node)
            answer = answer_of(pending.call, dataclasses.replace(reply, sender=sender))
            self._end(pending.number, dataclasses.replace(answer, result=self._store(answer.result)))
        return bool(replies)

    def _messages(self, number: int) -> list[str]:
        """Return the names of the messages of a call that wait for a reply: two, if it was sent again."""
        return [name for name, pending in self._waiting.items() if pending.number == number]

    def _end(self, number: int, answer: Answer) -> None:
        """Post the end of a call, of which no message is waited for or sent again."""
        for name in self._messages(number):
            del self._waiting[name]
        self._post(OperationEnded(number, answer))

    def _note_interruptions(self) -> None:
        """Plan to send all calls again that wait for a reply, if the grid's server was away."""
        if self._grid.interruptions == self._interruptions:
            return
        self._interruptions = self._grid.interruptions
        resend_at = time.monotonic() + _RETURN_S
        for name, pending in self._waiting.items():
            self._waiting[name] = dataclasses.replace(pending, resend_at=resend_at)

    def _send_again(self) -> None:
        """Send calls again that are due for it. If both are answered, the first answer counts."""
        now = time.monotonic()
        for name, pending in list(self._waiting.items()):
            if now >= pending.resend_at and name in self._waiting:
                self._waiting[name] = dataclasses.replace(pending, resend_at=math.inf)
                self._send(_PendingCall(pending.number, pending.call))

    def _timed(self, operation: Callable[[], T]) -> T:
        began = self._operation_began = time.monotonic()
        try:
            return operation()
        finally:
            self._stalled_s += max(0.0, time.monotonic() - began - _SLOW_S)
            self._operation_began = None


def _with_arrays(call: Call) -> Call:
    """Return the call with its arrays attached."""
    return call if call.attached is None else dataclasses.replace(call, arrays=call.attached(), attached=None)
