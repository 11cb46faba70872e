"""Visits to real clients while they last: turns, how each ended, and clients that are busy beyond their visit."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fedtempo.deploy.live.loop import RunLoop
from fedtempo.deploy.live.operations import Asked
from fedtempo.deploy.live.roster import Members
from fedtempo.federation import Client, ClientUnavailable, Model, Visit
from fedtempo.record.recorder import Recorder, VisitRow
from fedtempo.runtime.client_state import ClientState

_SHORT_S = 0.05
"""Where the server has no patience it still looks no more often than this."""


@dataclass(slots=True)
class LiveStay:
    """One visit (`Visit.state`). trains: False where the client sends raw examples instead.

    node: where the client was when the visit began. pending: the call that the client is busy with, due by then on the
    loop's time. examples: whose gradients it computed, each as often as it was used, in compute_s by its own clock.
    """

    number: int
    group: int | None
    queued: float
    node: int
    trains: bool = True
    pending: Asked | None = None
    due: float = 0.0
    received_at: float | None = None
    download_s: float = 0.0
    compute_s: float = 0.0
    examples: int = 0
    statistics: Mapping[str, float] | None = None


class Stays:
    """All visits of one deployment. begun: how many."""

    def __init__(
        self,
        loop: RunLoop,
        states: Sequence[ClientState],
        members: Members,
        recorder: Recorder,
        horizon: float,
        patience_s: float,
    ) -> None:
        self._loop, self._states, self._members = loop, states, members
        self._recorder, self._horizon, self._patience_s = recorder, horizon, patience_s
        self.begun = 0
        self._held: set[Visit] = set()
        self._due: dict[int, float] = {}
        """When clients that were given up should have answered, by the loop's time."""
        self._closing = False

    async def begin(self, client: Client, model: Model, group: int | None, *, trains: bool = True) -> Visit:
        """Wait for the client's turn and hold it for a visit.

        Raises ClientUnavailable where it is away, or still busy with a visit that was given up, for longer than the
        server's patience.
        """
        self.begun += 1
        number, queued, turns = self.begun, self._loop.run_s, self._states[client.id].turns
        if not await self._turn(client):
            raise self._never_began(number, client, model, group, queued, "it is busy with a visit that was given up")
        node = None
        try:
            node = await self._members.present(client, self._patience_s)
        finally:
            if node is None:
                turns.give()
        if node is None:
            raise self._never_began(number, client, model, group, queued, "it is not there")
        visit = Visit(client, model, self._loop.run_s, self._give_up)
        visit.state = LiveStay(number, group, queued, node, trains)
        self._held.add(visit)
        if group is not None:
            self._recorder.begun(group, visit.started)
        return visit

    def end(self, visit: Visit, outcome: str) -> None:
        """A visit is over: an outcome of the records. Its client is free when it has ended what it is busy with."""
        if visit not in self._held:
            return  # cut when the run ended
        visit.finish()
        self._held.discard(visit)
        stay: LiveStay = visit.state
        self._record(visit.client, visit.received, stay, visit.started, visit.computed, outcome)
        turns, client = self._states[visit.client.id].turns, visit.client
        if stay.pending is None or stay.pending.future.done():
            turns.give()
            return
        stay.pending.wanted = False
        self._due[client.id] = stay.due

        def free(_: object) -> None:
            self._due.pop(client.id, None)
            turns.give()

        stay.pending.future.add_done_callback(free)

    def close(self) -> None:
        """No visit after this: those still held are recorded as cut."""
        self._closing = True
        for visit in sorted(self._held, key=lambda visit: visit.state.number):
            visit.release()

    def in_progress(self) -> list[Visit]:
        """Those that hold their client now. Another thread may ask: copying a set is one step."""
        return list(self._held)

    @property
    def end_s(self) -> float:
        """The run's end, were it now."""
        return min(self._loop.run_s, self._horizon)

    async def _turn(self, client: Client) -> bool:
        """Wait for the client's turn; False where it is overdue and the server has no more patience."""
        turns = self._states[client.id].turns
        taking = asyncio.ensure_future(turns.take())
        try:
            while not (await asyncio.wait([taking], timeout=max(self._patience_s, _SHORT_S)))[0]:
                if self._loop.now >= self._due.get(client.id, math.inf):
                    return False
        except BaseException:
            if taking.done() and not taking.cancelled():
                turns.give()  # it came just as the wait for it was cancelled
            raise
        else:
            return True
        finally:
            taking.cancel()

    def _never_began(
        self, number: int, client: Client, model: Model, group: int | None, queued: float, reason: str
    ) -> ClientUnavailable:
        stay = LiveStay(number, group, queued, node=0, trains=False)
        self._record(client, model, stay, self._loop.run_s, None, "unavailable")
        return ClientUnavailable(client, reason)

    def _record(
        self, client: Client, model: Model, stay: LiveStay, started: float, computed: float | None, outcome: str
    ) -> None:
        self._recorder.visit(
            VisitRow(
                stay.number,
                client.id,
                stay.group,
                model.version,
                stay.queued,
                started,
                stay.received_at,
                computed,
                self._loop.run_s if outcome == "done" else self.end_s,
                outcome,
                client.num_examples if stay.trains else 0,
                stay.statistics.get("loss") if stay.statistics else None,
            )
        )

    def _give_up(self, visit: Visit) -> None:
        """A visit was released before its end; one that began as the run ended is nothing to tell of."""
        if self._closing and visit.started >= self.end_s:
            self._held.discard(visit)
        else:
            self.end(visit, "cut" if self._closing else "cancelled")
