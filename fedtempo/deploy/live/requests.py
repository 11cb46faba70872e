"""Requests of a visit to its client, one call at a time and each with a deadline, and the handling of the answers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

from fedtempo.deploy.live.announced import Patience
from fedtempo.deploy.live.loop import RunLoop
from fedtempo.deploy.live.messages import SMALL_REPLY_BYTES, Answer, Arrays, Call, Kind, Reply, nothing
from fedtempo.deploy.live.operations import Operations
from fedtempo.deploy.live.roster import Roster
from fedtempo.deploy.live.visits import LiveVisits, LiveVisitState
from fedtempo.federation import Client, ClientUnavailable, Model, Visit
from fedtempo.record.recorder import Recorder
from fedtempo.runs.deploy_settings import DeploySettings
from fedtempo.runtime.executors import Vector
from fedtempo.runtime.executors.screening import NOT_FINITE
from fedtempo.runtime.limits import BadUpdates
from fedtempo.runtime.server import ServerSettings

_HOPED_S = 5.0
"""Seconds within which no call is overdue; after these, one that takes twice as long as expected is."""

log = logging.getLogger("fedtempo.run")


@dataclass(frozen=True)
class Request:
    """A request of a visit.

    content: JSON values. check: see Call. expected_s: seconds that the answer is expected to take. model: whose
    parameters to attach. base: whether to attach what does not travel, too. payload: models to attach after these.
    pack: makes what is sent of the model's vector, if it is compressed. reply_bytes: see Call. measured: the model from
    which the answer's change is measured; its vector is put into `received` when the request is sent.
    """

    kind: Kind
    content: Mapping[str, Any]
    check: Callable[[Reply], Any]
    expected_s: float
    model: Model | None = None
    base: bool = False
    payload: tuple[Model, ...] = ()
    pack: Callable[[Vector], Any] | None = None
    reply_bytes: int = SMALL_REPLY_BYTES
    measured: Model | None = None
    received: list[Vector] = field(default_factory=list)


class Requests:
    """Sends the requests of one run's visits, and ends visits without a usable answer.

    exchanged: returns the part of the model at a location that travels. base: what does not travel. patience: bounds
    how long one client is waited for.
    """

    def __init__(
        self,
        loop: RunLoop,
        operations: Operations,
        visits: LiveVisits,
        roster: Roster,
        recorder: Recorder,
        *,
        settings: DeploySettings,
        rules: ServerSettings,
        exchanged: Callable[[Any], Vector],
        base: Vector,
        patience: Patience,
    ) -> None:
        self._loop, self._operations, self._visits, self._roster = loop, operations, visits, roster
        self._recorder, self._settings, self._rules = recorder, settings, rules
        self._exchanged, self._base, self._patience = exchanged, base, patience
        self._bad_updates = BadUpdates(rules.max_bad_updates)
        self._reported_late: set[int] = set()
        """Clients whose lateness the log has reported."""

    async def send(self, visit: Visit[LiveVisitState], request: Request) -> tuple[Any, float]:
        """Send a request; return the checked answer and the seconds it took.

        Raises ClientUnavailable, and ends the visit, if the node is gone, its program failed, the deadline passed, the
        client rejects it, or its update is unusable. Raises RunError after too many unusable updates.
        """
        settings, state = self._settings, visit.state
        factor = settings.deadline_factor if self._rules.deadline is None else self._rules.deadline
        expected_s = request.expected_s * self._patience.share(visit.client)
        deadline_s = max(settings.deadline_floor_s, factor * expected_s)
        call = Call(
            state.node,
            request.kind,
            request.content,
            ttl_s=2 * deadline_s + settings.outage_s,
            attached=None if request.model is None and request.measured is None else lambda: self._arrays(request),
            check=request.check,
            reply_bytes=request.reply_bytes,
        )
        began = self._loop.now
        state.due, state.hoped = began + deadline_s, began + max(_HOPED_S, 2 * expected_s)
        try:
            answer = await self._answer(visit, call)
            if answer.failure is not None and answer.failure.kind == "crashed":
                state.due = self._loop.now + deadline_s
                answer = await self._answer(visit, call)
        except TimeoutError:
            self._give_up(visit, deadline_s)
            raise ClientUnavailable(visit.client, f"no answer within {deadline_s:.3g} s") from None
        except BaseException:
            visit.release()
            raise
        self._check(visit, answer)
        return answer.result, self._loop.now - began

    def _arrays(self, request: Request) -> Arrays:
        if request.measured is not None:
            request.received[:] = [self._exchanged(request.measured.location)]
        if request.model is None:
            return ()
        model, *payload = (self._exchanged(each.location) for each in (request.model, *request.payload) if each)
        if request.pack is not None:
            model = request.pack(model)
        return (model, *([self._base] if request.base else []), *payload)

    async def _answer(self, visit: Visit[LiveVisitState], call: Call) -> Answer:
        """Return the answer to a call. Raises TimeoutError if it has not arrived when it is due."""
        state = visit.state
        state.pending = self._operations.call(call)
        future = state.pending.future
        await asyncio.wait([future], timeout=state.due - self._loop.now)
        if not future.done():
            raise TimeoutError
        answer: Answer = future.result()
        return answer

    def _give_up(self, visit: Visit[LiveVisitState], deadline_s: float) -> None:
        pending = visit.state.pending
        assert pending is not None
        if self._loop.live and visit.client.id not in self._reported_late:
            self._reported_late.add(visit.client.id)
            online = "online" if self._roster.node(visit.client) is not None else "offline"
            self._warn(
                f"client {visit.client.name} does not answer: no reply within {deadline_s:.3g} s from node "
                f"{visit.state.node}, which is {online}; further late answers of this client are not logged"
            )
        self._roster.mark_unresponsive(visit.client)
        pending.future.add_done_callback(lambda future: self._late_answer(visit.client, future))
        self._visits.end(visit, "late")

    def _late_answer(self, client: Client, future: asyncio.Future[Answer]) -> None:
        if not future.cancelled() and future.exception() is None and future.result().failure is None:
            self._roster.mark_responsive(client)

    def _check(self, visit: Visit[LiveVisitState], answer: Answer) -> None:
        client = visit.client
        if answer.failure is not None:
            if answer.failure.kind == "gone":
                self._roster.mark_unresponsive(client)
            self._visits.end(visit, "unavailable")
            raise ClientUnavailable(client, answer.failure.reason)
        if answer.refusal is not None:
            self._visits.end(visit, "unavailable")
            if (line := self._visits.refusals.add(client, answer.refusal, self._loop.run_s)) is not None:
                self._warn(line)
            raise ClientUnavailable(client, f"it rejects the request: {answer.refusal}")
        if answer.flaw is not None:
            self.reject(visit, answer.flaw)
        self._visits.refusals.forgive(client)

    def reject(self, visit: Visit[LiveVisitState], flaw: str) -> NoReturn:
        """End a visit whose update is unusable, and tell its client why.

        Raises ClientUnavailable, or RunError after too many unusable updates.
        """
        client = visit.client
        self._warn(f"client {client.name}: its update is rejected: {flaw}")
        self._recorder.note("refused", {"client": client.id, "visit": visit.state.number, "why": flaw})
        self._visits.end(visit, "refused")
        if flaw.endswith(NOT_FINITE):
            self._recorder.health.refused(self._loop.run_s, client.id, flaw)
        self._notify(visit, flaw)
        if (too_many := self._bad_updates.add(client, flaw, self._loop.run_s)) is not None:
            raise too_many
        raise ClientUnavailable(client, f"its update was rejected: {flaw}")

    def _notify(self, visit: Visit[LiveVisitState], flaw: str) -> None:
        """Tell the client why its update was rejected, without waiting for the reply."""
        content = {"stay": visit.state.number, "why": flaw}
        notice = Call(visit.state.node, "notice", content, ttl_s=self._settings.outage_s, check=nothing)
        self._operations.call(notice).wanted = False

    def _warn(self, line: str) -> None:
        """Log a warning, except while a resumed run is replayed."""
        if self._loop.live:
            log.warning("%s", line)
