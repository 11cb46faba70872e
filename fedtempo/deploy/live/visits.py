"""Visits to real clients in progress: turns, outcomes, and clients that stay busy after their visit was given up."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fedtempo.deploy.live.loop import RunLoop
from fedtempo.deploy.live.operations import Operation
from fedtempo.deploy.live.refusals import Refusals
from fedtempo.deploy.live.roster import Roster
from fedtempo.federation import Client, ClientUnavailable, Model, Visit
from fedtempo.record.recorder import Recorder
from fedtempo.runtime.client_state import ClientState
from fedtempo.runtime.open_visits import OpenVisits

_MIN_WAIT_S = 0.05
"""Shortest wait between two checks of an overdue client, seconds."""


@dataclass(slots=True)
class LiveVisitState:
    """State of one visit (`Visit.state`).

    queued: when the visit began to wait for the client's turn, seconds. node: the client's node when the visit began.
    trains: False if it only evaluates or sends examples. pending: the call that the client is busy with. due: the
    deadline of that call, and hoped: when it should have ended, in loop time. compute_s: seconds of training by the
    client's own clock. compute_scale: see `Work`. examples: number of examples in it, each counted once per use. base:
    whether the model came with what does not travel. returns: number of vectors that the client sends besides the
    model. procedure, work: of its training, see `Outliers.judge`.
    """

    number: int
    group: int | None
    queued: float
    node: int
    trains: bool = True
    pending: Operation | None = None
    due: float = 0.0
    hoped: float = 0.0
    received_at: float | None = None
    download_s: float = 0.0
    compute_s: float = 0.0
    compute_scale: float = 1.0
    examples: int = 0
    statistics: Mapping[str, float] | None = None
    base: bool = False
    returns: int = 0
    procedure: str = ""
    work: float = 0.0


class LiveVisits(OpenVisits[LiveVisitState]):
    """All visits of one deployment. begun: number of visits so far. refusals: requests that clients rejected."""

    def __init__(
        self,
        loop: RunLoop,
        states: Sequence[ClientState],
        roster: Roster,
        recorder: Recorder,
        horizon: float,
        patience_s: float,
    ) -> None:
        super().__init__(recorder, horizon)
        self._loop, self._states, self._roster = loop, states, roster
        self._patience_s = patience_s
        self.refusals = Refusals()
        self._missed: dict[int, float] = {}
        """Missed deadlines of clients that are still busy with an abandoned visit, by client id, in loop time."""

    async def begin(
        self, client: Client, model: Model, group: int | None, *, trains: bool = True
    ) -> Visit[LiveVisitState]:
        """Wait for the client's turn and hold it for a visit.

        Raises ClientUnavailable if the client is offline, still busy with an abandoned visit, or left alone because it
        rejected requests, for longer than the server's patience.
        """
        self.begun += 1
        number, queued, turns = self.begun, self._loop.run_s, self._states[client.id].turns
        if (left_s := self.refusals.left_s(client, self._now)) > 0:
            await asyncio.sleep(min(left_s, max(self._patience_s, _MIN_WAIT_S)))
            if self.refusals.left_s(client, self._now) > 0:
                raise self._never_began(number, client, model, group, queued, "it rejected the last request")
        if not await self._turn(client):
            raise self._never_began(number, client, model, group, queued, "it is still busy with an abandoned visit")
        node = None
        try:
            node = await self._roster.present(client, self._patience_s)
        finally:
            if node is None:
                turns.give()
        if node is None:
            raise self._never_began(number, client, model, group, queued, "it is offline")
        state = LiveVisitState(number, group, queued, node, trains)
        visit = Visit(client, model, self._loop.run_s, self._give_up, state)
        self._held.add(visit)
        if group is not None:
            self._recorder.begun(group, visit.started)
        return visit

    def end(self, visit: Visit[LiveVisitState], outcome: str) -> None:
        """End a visit with an outcome of the records. Its client is free once its pending call has ended."""
        if visit not in self._held:
            return  # it was cut when the run ended
        visit.finish()
        self._held.discard(visit)
        state = visit.state
        ended = self._now if outcome == "done" else self.end_s
        version, computed = visit.received.version, visit.computed
        self._record(visit.client, version, state, visit.started, state.received_at, computed, ended, outcome)
        turns, client = self._states[visit.client.id].turns, visit.client
        if state.pending is None or state.pending.future.done():
            turns.give()
            return
        state.pending.wanted = False
        self._missed[client.id] = state.due

        def free(_: object) -> None:
            self._missed.pop(client.id, None)
            turns.give()

        state.pending.future.add_done_callback(free)

    @property
    def _now(self) -> float:
        return self._loop.run_s

    async def _turn(self, client: Client) -> bool:
        """Wait for the client's turn; return False if the client is overdue and the server's patience is exhausted."""
        turns = self._states[client.id].turns
        taking = asyncio.ensure_future(turns.take())
        try:
            while not (await asyncio.wait([taking], timeout=max(self._patience_s, _MIN_WAIT_S)))[0]:
                if self._loop.now >= self._missed.get(client.id, math.inf):
                    return False
        except BaseException:
            if taking.done() and not taking.cancelled():
                turns.give()  # the turn came just as the wait was cancelled
            raise
        else:
            return True
        finally:
            taking.cancel()

    def _never_began(
        self, number: int, client: Client, model: Model, group: int | None, queued: float, reason: str
    ) -> ClientUnavailable:
        state = LiveVisitState(number, group, queued, node=0, trains=False)
        self._record(client, model.version, state, self._now, None, None, self.end_s, "unavailable")
        return ClientUnavailable(client, reason)
