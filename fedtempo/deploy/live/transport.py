"""The lines to the clients: one thread owns the grid, sends calls, fetches replies, and looks who is there."""

from __future__ import annotations

import dataclasses
import math
import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from fedtempo.deploy.live.event_log import Ended, Named, Seen
from fedtempo.deploy.live.messages import Answer, Call, Failure, Grid, GridError, answer_of

T = TypeVar("T")

_SLOW_S = 5.0
"""An operation of the grid that takes longer than this is an outage: the run's clock stands still."""


_GRACE_S = 1.0
"""The reply to a call that an earlier server sent may be lost with it: after this long it is asked for anew."""


@dataclass(frozen=True)
class _Going:
    """A call on its way. name: under which an earlier server sent it. resend_at: when to send it once more."""

    number: int
    call: Call
    name: str | None = None
    resend_at: float = math.inf


class Lines:
    """Calls go out at once; replies are fetched every `poll_s`, less often up to `poll_max_s` while none come.

    post: told of what happens, from the thread. keep: of what a client sent, before that. run: a name for this run,
    by which clients know calls that they answered already. refresh_s: seconds between looks at who is there.
    """

    def __init__(
        self,
        grid: Grid,
        post: Callable[[Any], None],
        keep: Callable[[Any], Any],
        *,
        run: str,
        poll_s: float = 0.05,
        poll_max_s: float = 0.25,
        refresh_s: float = 5.0,
    ) -> None:
        self._grid, self._post, self._keep, self._run = grid, post, keep, run
        self._poll_s, self._poll_max_s, self._refresh_s = poll_s, poll_max_s, refresh_s
        self._outbox: queue.SimpleQueue[_Going | None] = queue.SimpleQueue()
        self._waiting: dict[str, _Going] = {}
        self._nodes: tuple[int, ...] | None = None
        self._stalled_s = 0.0
        self._operation_began: float | None = None
        self._thread = threading.Thread(target=self._work, name="grid", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def ask(self, number: int, call: Call) -> None:
        """Send a call, which is operation `number` of the run."""
        self._outbox.put(_Going(number, _sealed(call)))

    def take_up(self, number: int, name: str | None, call: Call) -> None:
        """Fetch the reply to a call that was sent before this process began; where it does not come, send it again."""
        self._outbox.put(_Going(number, _sealed(call), name, time.monotonic() + _GRACE_S))

    @property
    def stalled_s(self) -> float:
        """Seconds in which the grid's server did not answer, all together."""
        began = self._operation_began
        return self._stalled_s + (0.0 if began is None else max(0.0, time.monotonic() - began - _SLOW_S))

    @property
    def stalled(self) -> bool:
        """Whether the grid's server does not answer now."""
        began = self._operation_began
        return began is not None and time.monotonic() - began > _SLOW_S

    def close(self) -> None:
        """Send and fetch nothing any more."""
        self._outbox.put(None)
        if self._thread.is_alive():
            self._thread.join(timeout=_SLOW_S)

    # In the thread --------------------------------------------------------------------------------------------------

    def _work(self) -> None:
        try:
            self._carry()
        except Exception as error:  # noqa: BLE001  whatever it is, whoever waits must hear of it
            self._post(Ended(0, error if isinstance(error, GridError) else GridError(f"the grid failed: {error!r}")))

    def _carry(self) -> None:
        self._look()
        delay, looked_at = self._poll_s, time.monotonic()
        while True:
            try:
                going = self._outbox.get(timeout=delay if self._waiting else self._refresh_s)
            except queue.Empty:
                pass
            else:
                if going is None:
                    return
                self._send(going)
                delay = self._poll_s
                if not self._outbox.empty():
                    continue
            delay = self._poll_s if self._fetch() else min(1.5 * delay, self._poll_max_s)
            self._send_again()
            if time.monotonic() - looked_at >= self._refresh_s:
                looked_at = time.monotonic()
                self._look()

    def _look(self) -> None:
        nodes = tuple(self._timed(self._grid.node_ids))
        self._post(Seen(None if nodes == self._nodes else nodes))
        self._nodes = nodes

    def _send(self, going: _Going) -> None:
        if going.name is not None:
            self._waiting[going.name] = going
            return
        call = going.call
        named = dataclasses.replace(call, content={**call.content, "call": f"{self._run}:{going.number}"})
        name = self._timed(lambda: self._grid.push(named))
        if name is None:
            self._post(Ended(going.number, Answer(failure=Failure("gone", "its node is not known"))))
        else:
            self._waiting[name] = going
            self._post(Named(going.number, name))

    def _fetch(self) -> bool:
        """Hand over replies that have come; whether there were any."""
        if not self._waiting:
            return False
        replies = self._timed(lambda: self._grid.pull(list(self._waiting)))
        for name, reply in replies.items():
            if (going := self._waiting.pop(name, None)) is None:
                continue
            if going.resend_at < math.inf and reply.failure is not None and reply.failure.kind == "gone":
                self._send(_Going(going.number, going.call))
                continue
            answer = answer_of(going.call, reply)
            self._post(Ended(going.number, dataclasses.replace(answer, sent=self._keep(answer.sent))))
        return bool(replies)

    def _send_again(self) -> None:
        """Both may be answered: the first answer counts."""
        now = time.monotonic()
        for name, going in list(self._waiting.items()):
            if now >= going.resend_at:
                self._waiting[name] = dataclasses.replace(going, resend_at=math.inf)
                self._send(_Going(going.number, going.call))

    def _timed(self, operation: Callable[[], T]) -> T:
        began = self._operation_began = time.monotonic()
        try:
            return operation()
        finally:
            self._stalled_s += max(0.0, time.monotonic() - began - _SLOW_S)
            self._operation_began = None


def _sealed(call: Call) -> Call:
    """A call with what it carries."""
    return call if call.model is None else dataclasses.replace(call, arrays=(call.model(),), model=None)
