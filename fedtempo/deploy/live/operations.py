"""All that a run on real clients asks of the world outside its event loop, numbered in the order of asking."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from fedtempo.deploy.live.event_log import Chronicle, Ended, Named, Seen
from fedtempo.deploy.live.loop import RunLoop
from fedtempo.deploy.live.messages import Answer, Call, Failure, GridError, nothing
from fedtempo.deploy.live.transport import Lines

Start = Callable[[int], None]
"""Begins an operation, given its number; `Outside.ended` is told of its end."""


@dataclass(eq=False)
class Asked:
    """An operation that was asked for. wanted: False where nobody waits for it any more.

    The future ends with the result, whether or not anybody waits; never cancel it.
    """

    number: int
    future: asyncio.Future[Any]
    start: Start
    call: Call | None = None
    wanted: bool = True


class Outside:
    """Operations of one run: calls over the lines, and what the server's own thread computes.

    While a resumed run happens again, what is over in its record is not begun, and the rest waits until the run is
    where it was: replies to calls whose names are known are fetched, what does not come is asked again. A client
    answers a call that it has answered already from memory.
    """

    def __init__(
        self,
        loop: RunLoop,
        chronicle: Chronicle,
        lines: Callable[[Callable[[Any], None], Callable[[Any], Any]], Lines],
        *,
        on_nodes: Callable[[Sequence[int]], None],
    ) -> None:
        """lines: makes the lines, given where events go and what keeps models. on_nodes: hears who is there."""
        self._loop, self._chronicle, self._on_nodes = loop, chronicle, on_nodes
        self._number = 0
        self._open: dict[int, Asked] = {}
        self._names: dict[int, str] = {}
        self._nodes: tuple[int, ...] = ()
        self._error: GridError | None = None
        self._closed = False
        self._lines = lines(loop.post, chronicle.keep)
        loop.away_s = lambda: self._lines.stalled_s
        past, chronicle.past = chronicle.past, []
        loop.follow(past, deliver=self._deliver, record=chronicle.add, go_live=self._go_live)

    def call(self, call: Call) -> Asked:
        """Send a call; its future ends with an Answer, or raises GridError: the grid's server is gone for good."""
        return self._ask(lambda number: self._lines.ask(number, call), call)

    def compute(self, start: Start) -> Asked:
        """Have something computed beside the loop."""
        return self._ask(start)

    def keep(self, sent: Any) -> Any:
        """What came, its model kept; from any thread."""
        return self._chronicle.keep(sent)

    def ended(self, number: int, result: Any) -> None:
        """An operation is over; from any thread."""
        self._loop.post(Ended(number, result))

    def hang_up(self, node: int) -> None:
        """A node has left for good: calls to it end as "gone"."""
        for asked in [asked for asked in self._open.values() if asked.call is not None and asked.call.node == node]:
            self._end(asked.number, Answer(failure=Failure("gone", "its node was replaced by another")))

    @property
    def away(self) -> bool:
        """Whether the grid's server does not answer now; for other threads."""
        return self._lines.stalled

    def close(self) -> None:
        """Nothing is asked or written down any more, and nobody waits for an answer."""
        self._closed = True
        self._chronicle.stop()
        self._lines.close()
        for asked in self._open.values():
            asked.future.cancel()
        self._open.clear()

    def _ask(self, start: Start, call: Call | None = None) -> Asked:
        self._number += 1
        asked = Asked(self._number, self._loop.create_future(), start, call)
        if self._closed:
            return asked  # of a task that is being unwound
        if self._error is not None:
            asked.future.set_exception(self._error)
            return asked
        self._open[asked.number] = asked
        if self._loop.live:
            self._begin(asked)
        return asked

    def _begin(self, asked: Asked) -> None:
        self._chronicle.flush()
        asked.start(asked.number)

    def _go_live(self) -> None:
        """The run is where it was: begin what was in progress then."""
        self._lines.start()
        for asked in list(self._open.values()):
            if asked.call is None:
                asked.start(asked.number)
                continue
            # Of a call that nobody waits for, only its end matters: the client answers the next one after it.
            again = asked.call if asked.wanted else Call(asked.call.node, "describe", {}, check=nothing)
            self._lines.take_up(asked.number, self._names.get(asked.number), again)

    def _deliver(self, event: Any) -> None:
        match event:
            case Ended(number, GridError() as error) if number == 0:
                self._fail(error)
            case Ended(number, result):
                self._end(number, result)
            case Named(number, name):
                self._names[number] = name
            case Seen(nodes):
                self._nodes = self._nodes if nodes is None else nodes
                self._on_nodes(self._nodes)

    def _end(self, number: int, result: Any) -> None:
        self._names.pop(number, None)
        asked = self._open.pop(number, None)
        if asked is None or asked.future.done():
            return
        if isinstance(result, BaseException):
            asked.future.set_exception(result)
            asked.future.exception()  # where nobody waits any more, nobody needs to be told
        else:
            asked.future.set_result(result)

    def _fail(self, error: GridError) -> None:
        self._error = error
        for number in list(self._open):
            self._end(number, error)
