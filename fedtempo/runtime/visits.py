"""Simulated visits in progress: turns, the time of phases, and outcomes."""

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
from fedtempo.runtime.client_state import ClientState, VisitState
from fedtempo.runtime.clock import VirtualLoop
from fedtempo.runtime.kept_at_commit import KeptAtCommit
from fedtempo.runtime.open_visits import OpenVisits

Obstacle = Literal["left", "late", "silent"]
"""Why a phase ends early: the client leaves, is late, or is silent without a deadline."""

UNLIMITED = contextlib.nullcontext()
"""Replaces a semaphore if channels are unlimited."""

_STUCK = 1_000_000
"""Number of visits at one instant after which a run counts as stuck."""


class _Late(ClientUnavailable):
    """The server gave up a visit at its deadline."""


class Visits(OpenVisits[VisitState]):
    """All visits of one simulated run. preparing: while True, nothing takes time."""

    def __init__(
        self,
        loop: VirtualLoop,
        states: Sequence[ClientState],
        availability: Availability,
        link_factors: Factors,
        recorder: Recorder,
        horizon: float,
    ) -> None:
        """link_factors: transfer times of each visit relative to their means."""
        super().__init__(recorder, horizon)
        self._loop, self._states, self._availability = loop, states, availability
        self._stays = isinstance(availability, Present)
        self.undisturbed = isinstance(availability, Present) and availability.never_fails
        """Whether every client stays, and none fails."""
        self._link_factors = link_factors
        self.preparing = False
        self.at_commit: KeptAtCommit | None = None
        """Notified of what clients keep, if the run keeps it."""
        self._instant, self._at_instant = 0.0, 0

    async def begin(self, client: Client, model: Model, group: int | None, *, trains: bool = True) -> Visit[VisitState]:
        """Wait for the client's turn and hold it for a visit."""
        visit = self.begin_if_free(client, model, group, trains=trains)
        if visit is None:
            state, turn = self.queue(client, group, trains=trains)
            await self._states[client.id].turns.taken(turn)
            visit = self.hold(client, model, state)
        return visit

    def begin_if_free(
        self, client: Client, model: Model, group: int | None, *, trains: bool = True
    ) -> Visit[VisitState] | None:
        """Begin a visit if its client is free; otherwise do nothing and return None."""
        if not self._states[client.id].turns.take_if_free():
            return None
        self.begun += 1
        return self.hold(client, model, VisitState(self.begun, group, self._loop.now, trains))

    def queue(
        self, client: Client, group: int | None, *, trains: bool = True
    ) -> tuple[VisitState, asyncio.Future[None]]:
        """Queue a visit for its client's turn; return the visit's state and a future that is done when the turn comes.

        Then call `hold` or `give_turn`; to leave the queue before that, cancel the future.
        """
        self.begun += 1
        return VisitState(self.begun, group, self._loop.now, trains), self._states[client.id].turns.queue(self._loop)

    def give_turn(self, client: Client) -> None:
        """Pass a client's turn on without a visit."""
        self._states[client.id].turns.give()

    def hold(self, client: Client, model: Model, state: VisitState) -> Visit[VisitState]:
        """Begin the visit of a client whose turn has come."""
        state.at = now = self._loop.now
        visit = Visit(client, model, now, self._give_up, state)
        self._held.add(visit)
        if state.group is not None:
            self._recorder.begun(state.group, now)
        if now != self._instant:
            self._instant, self._at_instant = now, 0
        self._at_instant += 1
        if self._at_instant > _STUCK:
            self._stuck()
        state.link_factor = self._link_factors.next(client.id)
        return visit

    def phase(
        self, visit: Visit[VisitState], seconds: float, doing: str, channels: asyncio.Semaphore | None
    ) -> Coroutine[Any, Any, None] | None:
        """Let a phase pass on the visit's own time. Return a coroutine if the phase can block, else None.

        The coroutine raises ClientUnavailable, and the visit has ended, if the client leaves or is given up before the
        phase's end. The clock follows with `catch_up`, so that several phases in a row cost it a single wait.
        """
        state = visit.state
        if channels is not None and seconds:
            return self._slow_phase(visit, seconds, doing, channels)
        if self._stays and state.patience_s == math.inf and 0.0 <= seconds < math.inf and not self.preparing:
            now = self._loop.now  # nothing can interrupt this phase
            state.at = (state.at if state.at > now else now) + seconds
            return None
        obstacle = self._obstacle(visit, seconds, doing)
        return None if obstacle is None else self._slow_phase(visit, seconds, doing, obstacle)

    def pass_all(self, visit: Visit[VisitState], download_s: float, compute_s: float, upload_s: float) -> float:
        """Let all phases of a visit that has just begun pass; return when its client has computed, seconds.

        Only for visits that nothing can delay or end early.
        """
        visit_s = download_s + compute_s + upload_s
        if not (download_s >= 0.0 and compute_s >= 0.0 and upload_s >= 0.0 and visit_s < math.inf):
            for seconds, doing in (download_s, "receiving"), (compute_s, "computing"), (upload_s, "sending"):
                if not 0.0 <= seconds < math.inf:
                    self._bad_duration(visit, seconds, doing)
        if self.preparing:
            download_s = compute_s = upload_s = 0.0
        state = visit.state
        state.received_at = received = state.at + download_s
        computed: float = received + compute_s
        state.at = computed + upload_s
        return computed

    async def _slow_phase(
        self, visit: Visit[VisitState], seconds: float, doing: str, needs: asyncio.Semaphore | Obstacle
    ) -> None:
        """Pass a phase that needs a channel or that ends early."""
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

    async def catch_up(self, visit: Visit[VisitState]) -> None:
        """Wait until the clock has reached the visit's own time."""
        if visit.state.at > self._loop.now:
            try:
                await self._loop.wake_at(visit.state.at)
            except BaseException:
                visit.release()
                raise

    def _obstacle(self, visit: Visit[VisitState], seconds: float, doing: str) -> Obstacle | None:
        """Let the time of a phase pass; if the phase ends early, return why, and let only the time until then pass."""
        client, state = visit.client, visit.state
        if not (0.0 <= seconds < math.inf or state.silent):
            self._bad_duration(visit, seconds, doing)
        if self.preparing:
            return "late" if state.silent else None
        now = self._loop.now
        begins = state.at if state.at > now else now
        leaves = self._availability.available_until(client.id, begins)
        gives_up = begins + state.patience_s
        ends = leaves if leaves < gives_up else gives_up
        if ends < begins + seconds or leaves <= begins:
            state.at = ends if ends > begins else begins
            return "late" if gives_up < leaves else "left"
        if state.silent:
            return "silent"
        state.at = begins + seconds
        state.patience_s -= seconds
        return None

    def _bad_duration(self, visit: Visit[VisitState], seconds: float, doing: str) -> NoReturn:
        visit.release()
        raise RunError(f"client {visit.client.id}: {doing} takes {seconds!r} s; it must be finite and not negative")

    async def _give_way(self, visit: Visit[VisitState], obstacle: Obstacle, doing: str) -> NoReturn:
        """Raise ClientUnavailable at the instant at which the client leaves or its deadline passes."""
        client = visit.client
        if obstacle == "silent":
            await self._loop.create_future()  # wait forever: there is no deadline
        if self.preparing:
            raise _Late(client, f"it did not answer while {doing} in the preparation")
        await (self.catch_up(visit) if visit.state.at > self._loop.now else asyncio.sleep(0))
        if obstacle == "late":
            raise _Late(client, f"it had not answered while {doing} at its deadline, t = {self._loop.now:g} s")
        raise ClientUnavailable(client, f"it left while {doing} at t = {self._loop.now:g} s")

    def end(self, visit: Visit[VisitState], outcome: str) -> None:
        """End a visit with an outcome of `schema.OUTCOMES`; its client is free."""
        if visit not in self._held:
            return  # it was cut when the run ended
        visit.finish()
        self._held.remove(visit)
        state = visit.state
        client = visit.client
        ended, received, computed = self.end_s, state.received_at, visit.computed
        if outcome != "done":
            received, computed = _if_passed(received, ended), _if_passed(computed, ended)
        self._record(client, visit.received.version, state, visit.started, received, computed, ended, outcome)
        if state.keeps and computed is not None and not self._closing:
            self._keep(state, self._states[client.id])
        self._states[client.id].turns.give()

    def _keep(self, state: VisitState, owner: ClientState) -> None:
        """Note what a client keeps after its training, even if its update is lost."""
        assert state.training is not None
        kept = state.training.result().state
        if kept is not None:
            if self.at_commit is not None:
                self.at_commit.replaced(owner)
            owner.kept = kept

    @property
    def _now(self) -> float:
        return self._loop.now

    def _stuck(self) -> NoReturn:
        """Raise RunError for a strategy that begins visits endlessly while time stands still."""
        raise RunError(
            f"{_STUCK:,} visits began at t = {self._instant:g} s and time did not move: visits take no time on this "
            "fleet; give it a link or a computing time, or end the run by max_commits"
        )


def _if_passed(instant: float | None, ended: float) -> float | None:
    """Return an instant, or None if it lies after the visit's end and so never came."""
    return instant if instant is None or instant <= ended else None
