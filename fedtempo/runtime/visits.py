"""Visits in progress: clients are held, time goes by for them, and how each visit ended is recorded."""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Coroutine, Sequence
from typing import Any, Literal, NoReturn

from fedtempo.errors import RunError
from fedtempo.federation import Client, ClientUnavailable, Model, Visit
from fedtempo.fleet.presence import Availability, Present
from fedtempo.fleet.variation import Factors
from fedtempo.record.recorder import Recorder
from fedtempo.runtime.client_state import ClientState, Stay
from fedtempo.runtime.clock import VirtualLoop

Obstacle = Literal["left", "late", "silent"]
"""What ends a phase: the client leaves, is late, or does not answer and nobody gives it up."""

UNLIMITED = contextlib.nullcontext()
"""Stands for channels where there is no limit to them."""

_STUCK = 1_000_000
"""Visits at one instant after which a run is taken to be stuck there."""


class _Late(ClientUnavailable):
    """The server gave a visit up."""


class Visits:
    """All visits of one run. begun: how many. preparing: while True, nothing takes time."""

    def __init__(
        self,
        loop: VirtualLoop,
        states: Sequence[ClientState],
        availability: Availability,
        link_factors: Factors,
        recorder: Recorder,
        horizon: float,
    ) -> None:
        """link_factors: each visit's times on the link over their means."""
        self._loop, self._states, self._availability = loop, states, availability
        self._stays = isinstance(availability, Present)
        self.undisturbed = isinstance(availability, Present) and availability.never_fails
        """Whether every client stays, and none fails."""
        self._link_factors = link_factors
        self._recorder, self._horizon = recorder, horizon
        self.begun = 0
        self.preparing = self._closing = False
        self._held: set[Visit] = set()
        self._instant, self._at_instant = 0.0, 0

    async def begin(self, client: Client, model: Model, group: int | None, *, trains: bool = True) -> Visit:
        """Wait for the client's turn and hold it for a visit."""
        visit = self.begin_if_free(client, model, group, trains=trains)
        if visit is None:
            stay, turn = self.queue(client, group, trains=trains)
            await self._states[client.id].turns.taken(turn)
            visit = self.hold(client, model, stay)
        return visit

    def begin_if_free(self, client: Client, model: Model, group: int | None, *, trains: bool = True) -> Visit | None:
        """As `begin`, where nothing has to be awaited for it; None, and nothing has happened, where something has."""
        if not self._states[client.id].turns.take_if_free():
            return None
        self.begun += 1
        return self.hold(client, model, Stay(self.begun, group, self._loop.now, trains))

    def queue(self, client: Client, group: int | None, *, trains: bool = True) -> tuple[Stay, asyncio.Future[None]]:
        """Let a visit wait for its client's turn: what is known of it by now, and a future for the turn.

        The turn must lead to `hold` or `give_turn`; cancel the future to leave the queue before it has come.
        """
        self.begun += 1
        return Stay(self.begun, group, self._loop.now, trains), self._states[client.id].turns.queue(self._loop)

    def give_turn(self, client: Client) -> None:
        """Pass a client's turn on without a visit."""
        self._states[client.id].turns.give()

    def hold(self, client: Client, model: Model, stay: Stay) -> Visit:
        """The client's turn has come."""
        stay.at = now = self._loop.now
        visit = Visit(client, model, now, self._give_up, stay)
        self._held.add(visit)
        if stay.group is not None:
            self._recorder.begun(stay.group, now)
        if now != self._instant:
            self._instant, self._at_instant = now, 0
        self._at_instant += 1
        if self._at_instant > _STUCK:
            self._stuck()
        stay.link_factor = self._link_factors.next(client.id)
        return visit

    def phase(
        self, visit: Visit, seconds: float, doing: str, channels: asyncio.Semaphore | None
    ) -> Coroutine[Any, Any, None] | None:
        """Let a phase go by on the visit's own time; returns what must be awaited first, where anything must.

        ClientUnavailable comes out of that where the client leaves, or the server gives it up, before the phase's end;
        the visit is over then. The clock follows by `catch_up`: phases that nothing else waits for then cost it one
        wait together.
        """
        stay = visit.state
        if channels is not None and seconds:
            return self._slow_phase(visit, seconds, doing, channels)
        if self._stays and stay.patience_s == math.inf and 0.0 <= seconds < math.inf and not self.preparing:
            now = self._loop.now  # nothing can come between
            stay.at = (stay.at if stay.at > now else now) + seconds
            return None
        obstacle = self._obstacle(visit, seconds, doing)
        return None if obstacle is None else self._slow_phase(visit, seconds, doing, obstacle)

    def pass_all(self, visit: Visit, download_s: float, compute_s: float, upload_s: float) -> float:
        """Let all phases of a visit that has just begun go by; return when its client has computed.

        Only for visits that nothing can delay or end early.
        """
        visit_s = download_s + compute_s + upload_s
        if not (download_s >= 0.0 and compute_s >= 0.0 and upload_s >= 0.0 and visit_s < math.inf):
            for seconds, doing in (download_s, "receiving"), (compute_s, "computing"), (upload_s, "sending"):
                if not 0.0 <= seconds < math.inf:
                    self._no_time(visit, seconds, doing)
        if self.preparing:
            download_s = compute_s = upload_s = 0.0
        stay = visit.state
        stay.received_at = received = stay.at + download_s
        computed: float = received + compute_s
        stay.at = computed + upload_s
        return computed

    async def _slow_phase(self, visit: Visit, seconds: float, doing: str, needs: asyncio.Semaphore | Obstacle) -> None:
        """A phase that needs a channel, or that something ends."""
        try:
            if isinstance(needs, str):
                await self._give_way(visit, needs, doing)
            await self.catch_up(visit)
            async with needs:
                if (obstacle := self._obstacle(visit, seconds, doing)) is not None:
                    await self._give_way(visit, obstacle, doing)
                await self.catch_up(visit)
        except ClientUnavailable as lost:
            self.end(visit, "late" if isinstance(lost, _Late) else "unavailable")
            raise
        except BaseException:
            visit.release()
            raise

    async def catch_up(self, visit: Visit) -> None:
        """Wait until the clock is where the visit is on its own time."""
        if visit.state.at > self._loop.now:
            try:
                await self._loop.wake_at(visit.state.at)
            except BaseException:
                visit.release()
                raise

    def _obstacle(self, visit: Visit, seconds: float, doing: str) -> Obstacle | None:
        """Let time go by for a client; where something ends that, what, and only so much time goes by."""
        client, stay = visit.client, visit.state
        if not (0.0 <= seconds < math.inf or stay.silent):
            self._no_time(visit, seconds, doing)
        if self.preparing:
            return "late" if stay.silent else None
        now = self._loop.now
        begins = stay.at if stay.at > now else now
        leaves = self._availability.available_until(client.id, begins)
        gives_up = begins + stay.patience_s
        ends = leaves if leaves < gives_up else gives_up
        if ends < begins + seconds or leaves <= begins:
            stay.at = ends if ends > begins else begins
            return "late" if gives_up < leaves else "left"
        if stay.silent:
            return "silent"
        stay.at = begins + seconds
        stay.patience_s -= seconds
        return None

    def _no_time(self, visit: Visit, seconds: float, doing: str) -> NoReturn:
        visit.release()
        raise RunError(f"client {visit.client.id}: {doing} takes {seconds!r} s; it must be finite and not negative")

    async def _give_way(self, visit: Visit, obstacle: Obstacle, doing: str) -> NoReturn:
        """ClientUnavailable, at the instant at which the client leaves or the server has waited enough."""
        client = visit.client
        if obstacle == "silent":
            await self._loop.create_future()  # for ever: nobody set a deadline
        if self.preparing:
            raise _Late(client, f"it did not answer while {doing} in the preparation")
        await (self.catch_up(visit) if visit.state.at > self._loop.now else asyncio.sleep(0))
        if obstacle == "late":
            raise _Late(client, f"it had not answered while {doing} at its deadline, t = {self._loop.now:g} s")
        raise ClientUnavailable(client, f"it left while {doing} at t = {self._loop.now:g} s")

    def end(self, visit: Visit, outcome: str) -> None:
        """A visit is over, with an outcome of `schema.OUTCOMES`; its client is free."""
        if visit not in self._held:
            return  # cut when the run ended
        visit.finish()
        self._held.remove(visit)
        stay: Stay = visit.state
        client = visit.client
        ended, received, computed = self._loop.now, stay.received_at, visit.computed
        if outcome != "done":
            ended = self.end_s
            received, computed = _if_passed(received, ended), _if_passed(computed, ended)
        self._recorder.visit(
            (
                stay.number,
                client.id,
                stay.group,
                visit.received.version,
                stay.queued,
                visit.started,
                received,
                computed,
                ended,
                outcome,
                client.num_examples if stay.trains else 0,
                stay.statistics.get("loss") if stay.statistics else None,
            )
        )
        self._states[client.id].turns.give()

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
        """The run's end, were it now: its last instant lies just after the horizon, and does not count."""
        return min(self._loop.now, self._horizon)

    def _give_up(self, visit: Visit) -> None:
        """A visit was released before its upload; one that began as the run ended is nothing to tell of."""
        if self._closing and visit.started >= self.end_s:
            self._held.discard(visit)
        else:
            self.end(visit, "cut" if self._closing else "cancelled")

    def _stuck(self) -> NoReturn:
        """A strategy that begins visits without end while time stands still is an error, not a hang."""
        raise RunError(
            f"{_STUCK:,} visits began at t = {self._instant:g} s and time did not move: visits take no time on this "
            "fleet; give it a link or a computing time, or end the run by max_commits"
        )


def _if_passed(instant: float | None, ended: float) -> float | None:
    """What lies after a visit's end did not happen."""
    return instant if instant is None or instant <= ended else None
