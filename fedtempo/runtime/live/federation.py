"""The federation on real clients: visits are messages over a grid, and time is real."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from fedtempo.errors import ConfigError, RunError
from fedtempo.federation import (
    Client,
    ClientUnavailable,
    ConsentError,
    Examples,
    Model,
    Update,
    Visit,
    Work,
)
from fedtempo.fleet.fleet import Fleet
from fedtempo.learning.training import Training
from fedtempo.record.recorder import Recorder
from fedtempo.runtime.averaging import Averaging
from fedtempo.runtime.central import Central
from fedtempo.runtime.client_state import ClientState
from fedtempo.runtime.evaluations import Evaluations
from fedtempo.runtime.live.calls import BadUpdate, Call, Kind, Reply, read_training, read_vector
from fedtempo.runtime.live.lines import Lines
from fedtempo.runtime.live.loop import RunLoop
from fedtempo.runtime.live.members import Description, Members
from fedtempo.runtime.live.server import Server
from fedtempo.runtime.live.settings import DeploySettings
from fedtempo.runtime.live.stays import LiveStay, Stays
from fedtempo.runtime.live.uploads import Uploads, read_examples
from fedtempo.runtime.server import ServerSettings
from fedtempo.runtime.simulation import resolve
from fedtempo.runtime.together import at_once

T = TypeVar("T")

_DESCRIBE_S = 60.0
"""Seconds for which a new node may take to say who it is."""


class LiveFederation(Central):
    """One run of a strategy on real clients (implements `fedtempo.federation.Federation`). Make it inside a RunLoop.

    A client that is given up (its visit was cancelled, or late) stays busy until its answer or its end is known.
    """

    def __init__(
        self,
        *,
        clients: Sequence[Client],
        nodes: Sequence[int],
        lines: Callable[[Callable[[Sequence[int]], None]], Lines],
        fleet: Fleet,
        server: Server,
        network: Mapping[str, Any],
        n_classes: int,
        training: Training,
        settings: DeploySettings,
        rules: ServerSettings,
        recorder: Recorder,
        evaluations: Evaluations,
        seed: int,
        horizon: float = math.inf,
        max_commits: int | None = None,
    ) -> None:
        """nodes: where the clients are now. lines: makes the lines, given who wants to hear which nodes are there.

        fleet: what is believed of the clients' times before any is seen. network: the `[model]` table, and n_classes,
        by which clients build their models. rules: how the server averages, and how many bad updates it bears.
        """
        loop = asyncio.get_running_loop()
        assert isinstance(loop, RunLoop)
        self._loop = loop
        self._clients, self._server, self._training, self._recorder = tuple(clients), server, training, recorder
        self._settings, self._evaluations, self._seed, self._horizon = settings, evaluations, seed, horizon
        self._max_commits, self._rules, self._refused = max_commits, rules, 0
        self._arithmetic = server
        self._averaging = Averaging(rules, recorder, self.rng)
        self._states = [ClientState(client, fleet, training, server.size_bytes, self.rng) for client in clients]
        self._estimator = fleet.estimator(self.rng("estimates"))
        self._members = Members(clients, nodes)
        self._stays = Stays(loop, self._states, self._members, recorder, horizon, settings.patience_s)
        self._lines = lines(self._look_around)
        self._introductions: set[asyncio.Task[None]] = set()
        self._introducing: set[int] = set()
        self._uploads, self._server_visits = Uploads(), 0
        self._model = Model(0, server.initial())
        self._ended: asyncio.Future[str] = loop.create_future()
        self._job = {"seed": seed, "network": dict(network), "n_classes": n_classes, "layout": server.layout}

        def evaluated() -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(self._collect)

        server.evaluated = evaluated

    # What a strategy sees -------------------------------------------------------------------------------------------

    @property
    def now(self) -> float:
        return self._loop.now

    async def train(
        self,
        client: Client,
        model: Model,
        work: Work | None = None,
        *,
        group: int | None = None,
        to: Client | None = None,
    ) -> Update:
        self._averaging.may_send(model)
        visit = await self._stays.begin(client, model, group)
        content, expected_compute_s = self._work(visit, work)
        expected = self.estimate(client)
        expected_s = expected.download_s + expected_compute_s + expected.upload_s
        self._recorder.traffic(down=self._server.size_bytes)
        reply, took_s = await self._ask(visit, "train", content, visit.received, expected_s)
        with self._checked(visit):
            self._note_training(visit, reply, work)
            vector = read_vector(reply, self._server.size)
        stay: LiveStay = visit.state
        stay.compute_s = min(stay.compute_s, took_s)
        on_the_way_s = (took_s - stay.compute_s) / 2  # the two ways carry the same bytes; nobody can tell them apart
        stay.download_s = on_the_way_s
        stay.received_at = visit.started + on_the_way_s
        visit.computed = stay.received_at + stay.compute_s
        return self._done(visit, self._server.hold(vector), on_the_way_s)

    async def download(self, client: Client, model: Model, *, group: int | None = None) -> Visit:
        self._averaging.may_send(model)
        visit = await self._stays.begin(client, model, group)
        await self._receive(visit)
        return visit

    async def multicast(self, clients: Iterable[Client], model: Model, *, group: int | None = None) -> list[Visit]:
        self._averaging.may_send(model)
        asked = list(clients)
        if len(set(asked)) < len(asked):
            raise RunError(f"a client is named twice in a multicast to {[client.id for client in asked]}")
        begun: list[Visit] = []

        async def begin(client: Client) -> None:
            with contextlib.suppress(ClientUnavailable):
                begun.append(await self._stays.begin(client, model, group))

        async def receive(visit: Visit) -> Visit | None:
            try:
                await self._receive(visit)
            except ClientUnavailable:
                return None
            return visit

        try:
            await at_once(map(begin, asked))
            begun.sort(key=lambda visit: asked.index(visit.client))
            received = await at_once(map(receive, begun))
        except BaseException:
            for visit in begun:
                visit.release()
            raise
        return [visit for visit in received if visit is not None]

    async def compute(self, visit: Visit, work: Work | None = None) -> None:
        content, expected_s = self._work(visit, work)
        reply, took_s = await self._ask(visit, "compute", content, None, expected_s)
        with self._checked(visit):
            self._note_training(visit, reply, work)
        visit.state.compute_s = min(visit.state.compute_s, took_s)
        visit.computed = self.now

    async def upload(self, visit: Visit, *, to: Client | None = None) -> Update:
        if visit.computed is None:
            raise RunError(f"client {visit.client.id}: upload before compute")
        expected_s = self.estimate(visit.client).upload_s
        reply, took_s = await self._ask(visit, "send", {"stay": visit.state.number}, None, expected_s)
        with self._checked(visit):
            vector = read_vector(reply, self._server.size)
        return self._done(visit, self._server.hold(vector), took_s)

    async def upload_examples(
        self, client: Client, per_class: Sequence[int], *, until: float | None = None, group: int | None = None
    ) -> Examples:
        if not client.shares_examples:
            raise ConsentError(f"client {client.id} did not agree to share examples")
        self._averaging.may_gather()
        visit = await self._stays.begin(client, self._model, group, trains=False)
        visit.state.received_at = visit.computed = self.now
        wanted = self._uploads.begin(client, per_class)
        with visit:
            while (content := wanted.next_call()) is not None:
                try:
                    async with asyncio.timeout_at(None if until is None else until):
                        reply, _ = await self._ask(visit, "examples", content, None, self.estimate(client).upload_s)
                except TimeoutError:
                    return wanted.close(cut=True)  # what is on its way is asked for again
                with self._checked(visit):
                    sent = read_examples(reply, content, self._server.input_shape, len(per_class))
                size_bytes = wanted.add(*sent)
                self._recorder.traffic(up=size_bytes, examples=size_bytes)
            self._stays.end(visit, "done")
        return wanted.close(cut=False)

    async def train_on_server(self, model: Model, examples: Sequence[Examples], work: Work | None = None) -> Model:
        if not any(each.size_bytes for each in examples):
            raise RunError("training at the server needs at least one example")
        training = self._training if work is None else resolve(self._training, work)
        self._server_visits += 1
        x, y = self._uploads.gathered(examples)
        trained = await asyncio.wrap_future(self._server.train_on(model.location, x, y, self._server_visits, training))
        return Model(model.version, trained.location)

    def estimate_example_s(self, client: Client) -> float:
        return self.estimate(client).upload_s * self._server.example_bytes / self._server.size_bytes

    async def sleep_until(self, time: float) -> None:
        await asyncio.sleep(max(0.0, time - self.now))

    @contextlib.contextmanager
    def preparation(self) -> Iterator[None]:
        if self._model.version or self._loop.preparing:
            raise RunError("preparation is possible once, before the first commit")
        self._loop.stand_still()
        try:
            yield
        finally:
            self._loop.begin()

    # What drives it -------------------------------------------------------------------------------------------------

    @property
    def end_s(self) -> float:
        """The run's end, were it now."""
        return self._stays.end_s

    @property
    def visits_begun(self) -> int:
        return self._stays.begun

    @property
    def present(self) -> int:
        """How many clients are there now."""
        return sum(self._members.node(client) is not None for client in self._clients)

    def close(self) -> None:
        """No visit after this: those still held are recorded as cut, and nobody waits for an answer."""
        self._stays.close()
        for introduction in self._introductions:
            introduction.cancel()
        self._lines.close()

    # A visit's parts ------------------------------------------------------------------------------------------------

    async def _receive(self, visit: Visit) -> None:
        stay: LiveStay = visit.state
        self._recorder.traffic(down=self._server.size_bytes)
        expected_s = self.estimate(visit.client).download_s
        _, stay.download_s = await self._ask(visit, "receive", {"stay": stay.number}, visit.received, expected_s)
        stay.received_at = self.now

    def _work(self, visit: Visit, work: Work | None) -> tuple[dict[str, Any], float]:
        """What a client must know to train, and how long that is expected to take, seconds."""
        state = self._states[visit.client.id]
        state.visits += 1
        training = self._training if work is None else resolve(self._training, work)
        content = {
            "stay": visit.state.number,
            "job": self._job,
            "client": visit.client.id,
            "visit": state.visits,
            "training": _plain(training),
        }
        configured, asked = (each.examples_per_visit(visit.client.num_examples) for each in (self._training, training))
        return content, self.estimate(visit.client).compute_s * asked / max(1, configured)

    async def _ask(
        self, visit: Visit, kind: Kind, content: Mapping[str, Any], model: Model | None, expected_s: float
    ) -> tuple[Reply, float]:
        """The client's answer and the seconds it took; the visit is over where there is none.

        Raises ClientUnavailable where the node is gone, its program failed, or it is later than the deadline.
        """
        settings, stay = self._settings, visit.state
        factor = settings.deadline_factor if self._rules.deadline is None else self._rules.deadline
        deadline_s = max(settings.deadline_floor_s, factor * expected_s)
        arrays = () if model is None else (self._server.vector(model.location),)
        call = Call(stay.node, kind, content, arrays, ttl_s=2 * deadline_s + settings.outage_s)
        began = self._loop.time()
        stay.due = began + deadline_s
        try:
            reply = await self._within(visit, call, deadline_s)
            if reply.failure is not None and reply.failure.kind == "crashed":
                reply = await self._within(visit, call, deadline_s)
        except TimeoutError:
            self._members.doubt(visit.client)
            stay.pending.add_done_callback(lambda future: self._late_answer(visit.client, future))
            self._stays.end(visit, "late")
            raise ClientUnavailable(visit.client, f"no answer within {deadline_s:.3g} s") from None
        except BaseException:
            visit.release()
            raise
        if reply.failure is not None:
            if reply.failure.kind == "gone":
                self._members.doubt(visit.client)
            self._stays.end(visit, "unavailable")
            raise ClientUnavailable(visit.client, reply.failure.reason)
        if (refusal := reply.content.get("refused")) is not None:
            self._stays.end(visit, "unavailable")
            raise ClientUnavailable(visit.client, f"it refuses: {refusal}")
        return reply, self._loop.time() - began

    async def _within(self, visit: Visit, call: Call, deadline_s: float) -> Reply:
        """The answer to a call; TimeoutError after `deadline_s`, not counting what the grid's server was away."""
        pending = visit.state.pending = self._lines.ask(call)
        began, stalled_s = self._loop.time(), self._lines.stalled_s
        while not pending.done():
            counted_s = self._loop.time() - began - (self._lines.stalled_s - stalled_s)
            if counted_s >= deadline_s:
                raise TimeoutError
            await asyncio.wait([pending], timeout=deadline_s - counted_s)
        return pending.result()

    def _late_answer(self, client: Client, future: asyncio.Future[Reply]) -> None:
        if not future.cancelled() and future.exception() is None and future.result().failure is None:
            self._members.heard(client)

    @contextlib.contextmanager
    def _checked(self, visit: Visit) -> Iterator[None]:
        """Within it, a bad update ends the visit as refused: ClientUnavailable."""
        try:
            yield
        except BadUpdate as error:
            self._recorder.note("refused", {"client": visit.client.id, "visit": visit.state.number, "why": str(error)})
            self._stays.end(visit, "refused")
            self._refused += 1
            if self._rules.max_bad_updates is not None and self._refused == self._rules.max_bad_updates + 1:
                raise RunError(
                    f"{self._refused} updates were refused by t = {self.now:g} s, server.max_bad_updates = "
                    f"{self._rules.max_bad_updates}; the last was of client {visit.client.id}: {error}"
                ) from error
            raise ClientUnavailable(visit.client, f"its update is refused: {error}") from None

    def _note_training(self, visit: Visit, reply: Reply, work: Work | None) -> None:
        sent = read_training(reply, visit.client.num_examples)
        visit.state.statistics, visit.state.compute_s = sent.statistics, sent.compute_s
        visit.state.examples = (self._training if work is None else resolve(self._training, work)).examples_per_visit(
            visit.client.num_examples
        )

    def _done(self, visit: Visit, location: Any, upload_s: float) -> Update:
        """The visit has brought back a model."""
        client, stay, computed = visit.client, visit.state, visit.computed
        assert computed is not None
        self._recorder.traffic(up=self._server.size_bytes)
        compute_s = self._states[client.id].as_configured_s(stay.compute_s, stay.examples)
        self._estimator.observe(client.id, stay.download_s, compute_s, upload_s)
        model = Model(visit.received.version, location)
        self._averaging.arrived(model, client)
        told = self._averaging.statistics(stay.statistics)
        self._recorder.told(statistics=len(told))
        update = Update(client, visit.received, model, client.num_examples, told, visit.started, computed, self.now)
        self._stays.end(visit, "done")
        return update

    # Who is there ---------------------------------------------------------------------------------------------------

    def _look_around(self, nodes: Sequence[int]) -> None:
        """These nodes are there now: ask those that are new who they are."""
        for node in self._members.seen(nodes):
            if node not in self._introducing:
                self._introducing.add(node)
                task = self._loop.create_task(self._introduce(node))
                self._introductions.add(task)
                task.add_done_callback(self._introductions.discard)

    async def _introduce(self, node: int) -> None:
        pending = self._lines.ask(Call(node, "describe", {}, ttl_s=_DESCRIBE_S))
        try:
            await asyncio.wait([pending], timeout=_DESCRIBE_S)
            if not pending.done() or pending.exception() is not None or pending.result().failure is not None:
                return
            with contextlib.suppress(ConfigError):  # it is no client of ours
                told = Description.read(pending.result().content)
                former = self._members.introduce(node, told)
                if former is not None:
                    self._lines.hang_up(former)
        finally:
            self._introducing.discard(node)

    def _collect(self) -> None:
        """Record evaluations that are over; one that failed ends the run."""
        try:
            self._evaluations.collect(math.inf)
        except RunError as error:
            if not self._ended.done():
                self._ended.set_exception(error)


def _plain(training: Training) -> dict[str, Any]:
    """The fields of a training as JSON values."""
    return {
        name: sorted(value) if isinstance(value, frozenset) else value
        for name, value in dataclasses.asdict(training).items()
        if value is not None
    }
