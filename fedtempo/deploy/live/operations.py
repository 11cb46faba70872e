"""External operations of a run on real clients, numbered in the order of their start so that they can be replayed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from fedtempo.deploy.live.event_log import CallSent, EventLog, NodesOnline, OperationEnded
from fedtempo.deploy.live.loop import RunLoop
from fedtempo.deploy.live.messages import Answer, Call, Failure, GridError, nothing
from fedtempo.deploy.live.transport import Transport

Start = Callable[[int], None]
"""Starts an operation, given its number; its end is reported to `Operations.ended`."""


@dataclass(eq=False)
class Operation:
    """An operation in progress. wanted: False if nobody waits for its result any more.

    The future always ends with the result, whether or not anybody waits for it; never cancel it.
    """

    number: int
    future: asyncio.Future[Any]
    start: Start
    call: Call | None = None
    wanted: bool = True


class Operations:
    """Operations of one run: calls over the transport, and computations in the server's own thread.

    While a resumed run is replayed, operations that ended in its log are not started, and the others wait until the
    replay has caught up. Then the replies to calls whose names are known are fetched, and calls without a reply are
    sent again; a client repeats its latest answer from memory.
    """

    def __init__(
        self,
        loop: RunLoop,
        event_log: EventLog,
        transport: Callable[[Callable[[Any], None], Callable[[Any], Any]], Transport],
        *,
        on_nodes: Callable[[Sequence[int]], None],
    ) -> None:
        """Connect the operations to the run's loop.

        transport: makes the transport, given a function that receives events and one that stores results. on_nodes:
        called with the nodes online whenever they are looked up.
        """
        self._loop, self._event_log, self._on_nodes = loop, event_log, on_nodes
        self._number = 0
        self._open: dict[int, Operation] = {}
        self._names: dict[int, str] = {}
        self._nodes: tuple[int, ...] = ()
        self._error: GridError | None = None
        self._closed = False
        self._transport = transport(loop.post, event_log.store)
        loop.away_s = lambda: self._transport.stalled_s
        past, event_log.past = event_log.past, []
        loop.follow(past, deliver=self._deliver, record=event_log.add, go_live=self._go_live)

    def call(self, call: Call) -> Operation:
        """Send a call. Its future ends with an Answer, or with GridError if the grid's server is lost for good."""
        return self._ask(lambda number: self._transport.send(number, call), call)

    def compute(self, start: Start) -> Operation:
        """Start a computation outside the loop."""
        return self._ask(start)

    def store(self, result: Any) -> Any:
        """Return a result with its model stored, see `EventLog.store`. Thread-safe."""
        return self._event_log.store(result)

    def ended(self, number: int, result: Any) -> None:
        """Report the end of an operation. Thread-safe."""
        self._loop.post(OperationEnded(number, result))

    def hang_up(self, node: int) -> None:
        """End all calls to a node as "gone": it has been replaced."""
        for operation in list(self._open.values()):
            if operation.call is None or operation.call.node != node:
                continue
            self._end(operation.number, Answer(failure=Failure("gone", "its node was replaced by another")))

    @property
    def away(self) -> bool:
        """Whether the grid's server is not answering now. Thread-safe."""
        return self._transport.stalled

    def close(self) -> None:
        """Start and log nothing from now on, and stop waiting for results."""
        self._closed = True
        self._event_log.stop()
        self._transport.close()
        for operation in self._open.values():
            operation.future.cancel()
        self._open.clear()

    def _ask(self, start: Start, call: Call | None = None) -> Operation:
        self._number += 1
        operation = Operation(self._number, self._loop.create_future(), start, call)
        if self._closed:
            return operation  # requested by a task that is being cancelled
        if self._error is not None:
            operation.future.set_exception(self._error)
            return operation
        self._open[operation.number] = operation
        if self._loop.live:
            self._begin(operation)
        return operation

    def _begin(self, operation: Operation) -> None:
        self._event_log.flush()
        operation.start(operation.number)

    def _go_live(self) -> None:
        """Start the operations that were in progress when the run was killed: the replay has caught up."""
        self._transport.start()
        for operation in list(self._open.values()):
            if operation.call is None:
                operation.start(operation.number)
                continue
            # Of an unwanted call only the end matters: the client answers the next call after it.
            again = operation.call if operation.wanted else Call(operation.call.node, "describe", {}, check=nothing)
            self._transport.take_up(operation.number, self._names.get(operation.number), again)

    def _deliver(self, event: Any) -> None:
        match event:
            case OperationEnded(number, GridError() as error) if number == 0:
                self._fail(error)
            case OperationEnded(number, result):
                self._end(number, result)
            case CallSent(number, name):
                self._names[number] = name
            case NodesOnline(nodes):
                self._nodes = self._nodes if nodes is None else nodes
                self._on_nodes(self._nodes)

    def _end(self, number: int, result: Any) -> None:
        self._names.pop(number, None)
        operation = self._open.pop(number, None)
        if operation is None or operation.future.done():
            return
        if isinstance(result, BaseException):
            operation.future.set_exception(result)
            operation.future.exception()  # marks it as retrieved, so that asyncio does not log it
        else:
            operation.future.set_result(result)

    def _fail(self, error: GridError) -> None:
        self._error = error
        for number in list(self._open):
            self._end(number, error)
