"""Visits in progress: clients are held, time goes by for them, and how each visit ended is recorded."""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Sequence

from fedtempo.errors import RunError
from fedtempo.federation import Client, ClientUnavailable, Model, Visit
from fedtempo.fleet.availability import Availability
from fedtempo.record.recorder import Recorder
from fedtempo.runtime.client_state import ClientState, Stay
from fedtempo.runtime.clock import VirtualLoop

UNLIMITED = contextlib.nullcontext()
"""Stands for channels where there is no limit to them."""

_STUCK = 1_000_000
"""Visits at one instant after which a run is taken to be stuck there."""


class Visits:
    """All visits of one run. begun: how many. preparing: while True, nothing takes time."""

    def __init__(
        self,
        loop: VirtualLoop,
        states: Sequence[ClientState],
        availability: Availability,
        recorder: Recorder,
        horizon: float,
    ) -> None:
        self._loop, self._states, self._availability = loop, states, availability
        self._recorder, self._horizon = recorder, horizon
        self.begun = 0
        self.preparing = self._closing = False
        self._held: set[Visit] = set()
        self._instant, self._at_instant = 0.0, 0

    async def begin(self, client: Client, model: Model, group: int | None, *, trains: bool = True) -> Visit:
        """Wait for the client's turn and hold it for a visit."""
        self.begun += 1
        stay, state = Stay(self.begun, group, self._loop.time(), trains), self._states[client.id]
        await state.turns.take()
        visit = Visit(client, model, self._loop.time(), self._give_up)
        visit.state = stay
        self._held.add(visit)
        self._count_instant()
        stay.link_factor = state.link_factor()
        return visit

    async def phase(self, visit: Visit, seconds: float, doing: str, channels: asyncio.Semaphore | None) -> None:
        """Let a phase of a visit go by; ClientUnavailable, and the visit is over, where the client leaves before."""
        try:
            if channels is None or not seconds:
                await self.pass_time(visit.client, seconds, doing)
            else:
                async with channels:
                    await self.pass_time(visit.client, seconds, doing)
        except ClientUnavailable:
            self.end(visit, "unavailable")
            raise
        except BaseException:
            visit.release()
            raise

    async def pass_time(self, client: Client, seconds: float, doing: str) -> None:
        """Let time go by for a client; ClientUnavailable, at the instant at which it leaves, where that comes first."""
        if not 0.0 <= seconds < math.inf:
            raise RunError(f"client {client.id}: {doing} takes {seconds!r} s; it must be finite and not negative")
        if self.preparing:
            return
        now = self._loop.time()
        leaves = self._availability.available_until(client.id, now)
        if leaves < now + seconds or leaves <= now:
            await (self._loop.wake_at(leaves) if leaves > now else asyncio.sleep(0))
            raise ClientUnavailable(client, f"it left while {doing} at t = {self._loop.time():g} s")
        if seconds:
            await self._loop.wake_at(now + seconds)

    def end(self, visit: Visit, outcome: str) -> None:
        """A visit is over: "done", "unavailable", "cancelled" or "cut"; its client is free."""
        if visit not in self._held:
            return  # cut when the run ended
        visit.finish()
        self._held.discard(visit)
        stay: Stay = visit.state
        self._recorder.visit(
            (
                stay.number,
                visit.client.id,
                stay.group,
                visit.received.version,
                stay.queued,
                visit.started,
                stay.received_at,
                visit.computed,
                self._loop.time() if outcome == "done" else self.end_s,
                outcome,
                visit.client.num_examples if stay.trains else 0,
                stay.statistics.get("loss") if stay.statistics else None,
            )
        )
        self._states[visit.client.id].turns.give()

    def close(self) -> None:
        """No visit after this: those still held are recorded as cut."""
        self._closing = True
        for visit in sorted(self._held, key=lambda visit: visit.state.number):
            visit.release()

    @property
    def end_s(self) -> float:
        """The run's end, were it now: its last instant lies just after the horizon, and does not count."""
        return min(self._loop.time(), self._horizon)

    def _give_up(self, visit: Visit) -> None:
        """A visit was released before its upload; one that began as the run ended is nothing to tell of."""
        if self._closing and visit.started >= self.end_s:
            self._held.discard(visit)
        else:
            self.end(visit, "cut" if self._closing else "cancelled")

    def _count_instant(self) -> None:
        """A strategy that begins visits without end while time stands still is an error, not a hang."""
        now = self._loop.time()
        if now != self._instant:
            self._instant, self._at_instant = now, 0
        self._at_instant += 1
        if self._at_instant > _STUCK:
            raise RunError(
                f"{_STUCK:,} visits began at t = {now:g} s and time did not move: visits take no time on this fleet; "
                "give it a link or a computing time, or end the run by max_commits"
            )
