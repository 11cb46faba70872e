"""What a visit asks of its client: one call at a time, with a deadline; and what its answer means."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from fedtempo.deploy.live.loop import RunLoop
from fedtempo.deploy.live.messages import Answer, Call, Kind, Reply, nothing
from fedtempo.deploy.live.operations import Outside
from fedtempo.deploy.live.roster import Members
from fedtempo.deploy.live.visits import LiveStay, Stays
from fedtempo.errors import RunError
from fedtempo.federation import Client, ClientUnavailable, Model, Visit
from fedtempo.record.recorder import Recorder
from fedtempo.runs.deploy_settings import DeploySettings
from fedtempo.runtime.executors import Vector
from fedtempo.runtime.executors.screening import NOT_FINITE
from fedtempo.runtime.server import ServerSettings

log = logging.getLogger("fedtempo.run")


@dataclass(frozen=True)
class Question:
    """A call of a visit. content: JSON values. check: see Call. expected_s: what its answer is expected to take.

    model: whose parameters it carries.
    """

    kind: Kind
    content: Mapping[str, Any]
    check: Callable[[Reply], Any]
    expected_s: float
    model: Model | None = None


class Asking:
    """Asks clients for one run, and ends visits that bring nothing. vector: the parameters at a location."""

    def __init__(
        self,
        loop: RunLoop,
        outside: Outside,
        stays: Stays,
        members: Members,
        recorder: Recorder,
        *,
        settings: DeploySettings,
        rules: ServerSettings,
        vector: Callable[[Any], Vector],
    ) -> None:
        self._loop, self._outside, self._stays, self._members = loop, outside, stays, members
        self._recorder, self._settings, self._rules, self._vector = recorder, settings, rules, vector
        self._refused = 0
        self._silent: set[int] = set()
        """Clients of whose silence the log has told."""

    async def ask(self, visit: Visit, question: Question) -> tuple[Any, float]:
        """What the client's answer was read as, and the seconds it took; the visit is over where it is of no use.

        Raises ClientUnavailable where the node is gone, its program failed, it is later than the deadline, it refuses,
        or what it sent is no update. Raises RunError after too many of the last.
        """
        settings, stay = self._settings, visit.state
        factor = settings.deadline_factor if self._rules.deadline is None else self._rules.deadline
        deadline_s = max(settings.deadline_floor_s, factor * question.expected_s)
        model, vector = question.model, self._vector
        call = Call(
            stay.node,
            question.kind,
            question.content,
            ttl_s=2 * deadline_s + settings.outage_s,
            model=None if model is None else lambda: vector(model.location),
            check=question.check,
        )
        began = self._loop.now
        stay.due = began + deadline_s
        try:
            answer = await self._within(visit, call)
            if answer.failure is not None and answer.failure.kind == "crashed":
                stay.due = self._loop.now + deadline_s
                answer = await self._within(visit, call)
        except TimeoutError:
            self._give_up(visit, deadline_s)
            raise ClientUnavailable(visit.client, f"no answer within {deadline_s:.3g} s") from None
        except BaseException:
            visit.release()
            raise
        self._must_be_of_use(visit, answer)
        return answer.sent, self._loop.now - began

    async def _within(self, visit: Visit, call: Call) -> Answer:
        """The answer to a call. Raises TimeoutError where it does not come until it is due."""
        stay: LiveStay = visit.state
        stay.pending = self._outside.call(call)
        future = stay.pending.future
        await asyncio.wait([future], timeout=stay.due - self._loop.now)
        if not future.done():
            raise TimeoutError
        answer: Answer = future.result()
        return answer

    def _give_up(self, visit: Visit, deadline_s: float) -> None:
        pending = visit.state.pending
        assert pending is not None
        if self._loop.live and visit.client.id not in self._silent:
            self._silent.add(visit.client.id)
            where = "which is there" if self._members.node(visit.client) is not None else "which is not there"
            self._tell(
                f"client {visit.client.name} does not answer: nothing came within {deadline_s:.3g} s from node "
                f"{visit.state.node}, {where}; this is said once"
            )
        self._members.doubt(visit.client)
        pending.future.add_done_callback(lambda future: self._late_answer(visit.client, future))
        self._stays.end(visit, "late")

    def _late_answer(self, client: Client, future: asyncio.Future[Answer]) -> None:
        if not future.cancelled() and future.exception() is None and future.result().failure is None:
            self._members.heard(client)

    def _must_be_of_use(self, visit: Visit, answer: Answer) -> None:
        client = visit.client
        if answer.failure is not None:
            if answer.failure.kind == "gone":
                self._members.doubt(client)
            self._stays.end(visit, "unavailable")
            raise ClientUnavailable(client, answer.failure.reason)
        if answer.refusal is not None:
            self._stays.end(visit, "unavailable")
            self._tell(f"client {client.name} refuses: {answer.refusal}")
            raise ClientUnavailable(client, f"it refuses: {answer.refusal}")
        if answer.flaw is None:
            return
        self._tell(f"client {client.name}: its update is refused: {answer.flaw}")
        self._recorder.note("refused", {"client": client.id, "visit": visit.state.number, "why": answer.flaw})
        self._stays.end(visit, "refused")
        if answer.flaw.endswith(NOT_FINITE):
            self._recorder.health.refused(self._loop.run_s, client.id, answer.flaw)
        self._notify(visit, answer.flaw)
        self._refused += 1
        if self._rules.max_bad_updates is not None and self._refused == self._rules.max_bad_updates + 1:
            raise RunError(
                f"{self._refused} updates were refused by t = {self._loop.run_s:g} s, server.max_bad_updates = "
                f"{self._rules.max_bad_updates}; the last was of client {client.id}: {answer.flaw}"
            )
        raise ClientUnavailable(client, f"its update is refused: {answer.flaw}")

    def _notify(self, visit: Visit, flaw: str) -> None:
        """Tell the client why its update was refused; nobody waits until it has heard."""
        content = {"stay": visit.state.number, "why": flaw}
        notice = Call(visit.state.node, "notice", content, ttl_s=self._settings.outage_s, check=nothing)
        self._outside.call(notice).wanted = False

    def _tell(self, line: str) -> None:
        """Warn whoever reads the log; not again while a resumed run happens again."""
        if self._loop.live:
            log.warning("%s", line)
