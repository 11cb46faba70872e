"""The federation on real clients: visits are messages over a grid, and time is real."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from fedtempo.deploy.live.event_log import Chronicle
from fedtempo.deploy.live.loop import RunLoop
from fedtempo.deploy.live.messages import Reply, Sent, nothing, read_training, read_update, read_vector
from fedtempo.deploy.live.operations import Outside
from fedtempo.deploy.live.reception import Reception
from fedtempo.deploy.live.requests import Asking, Question
from fedtempo.deploy.live.roster import Members
from fedtempo.deploy.live.transport import Lines
from fedtempo.deploy.live.uploads import Uploads, read_examples
from fedtempo.deploy.live.visits import LiveStay, Stays
from fedtempo.errors import FedtempoError, RunError
from fedtempo.federation import Client, ClientUnavailable, ConsentError, Examples, Model, Update, Visit, Work
from fedtempo.fleet.fleet import Fleet
from fedtempo.learning.training import Training
from fedtempo.record.recorder import Recorder
from fedtempo.runs.deploy_settings import DeploySettings
from fedtempo.runtime.averaging import Averaging
from fedtempo.runtime.central import Central
from fedtempo.runtime.client_state import ClientState
from fedtempo.runtime.evaluations import Evaluations
from fedtempo.runtime.gather import at_once
from fedtempo.runtime.server import ServerSettings
from fedtempo.runtime.work import resolve

if TYPE_CHECKING:
    from fedtempo.deploy.live.server import Server

MakeLines = Callable[[Callable[[Any], None], Callable[[Any], Any]], Lines]


class LiveFederation(Central):
    """One run of a strategy on real clients (implements `fedtempo.federation.Federation`). Make it inside a RunLoop.

    A client that is given up (its visit was cancelled, or late) stays busy until its answer or its end is known.
    """

    def __init__(
        self,
        *,
        clients: Sequence[Client],
        nodes: Sequence[int],
        lines: MakeLines,
        chronicle: Chronicle,
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
        class_names: Sequence[str] = (),
        horizon: float = math.inf,
        max_commits: int | None = None,
    ) -> None:
        """nodes: where the clients are when the run begins. lines: see Outside. chronicle: what came before, and comes.

        fleet: what is believed of the clients' times before any is seen. network: the `[model]` table, and n_classes,
        by which clients build their models; class_names: by which they number classes. rules: how the server averages,
        and how many bad updates it bears.
        """
        loop = asyncio.get_running_loop()
        assert isinstance(loop, RunLoop)
        self._loop = loop
        self._clients, self._server, self._training, self._recorder = tuple(clients), server, training, recorder
        self._evaluations, self._seed, self._horizon, self._max_commits = evaluations, seed, horizon, max_commits
        self._arithmetic = server
        self._averaging = Averaging(rules, recorder, self.rng, server.sections)
        self._states = [ClientState(client, fleet, training, server.size_bytes, self.rng) for client in clients]
        self._estimator = fleet.estimator(self.rng("estimates"))
        self._uploads, self._server_visits = Uploads(), 0
        self._model = Model(0, server.initial())
        self._ended: asyncio.Future[str] = loop.create_future()
        self._named = {"class_names": list(class_names)}
        self._job = {"seed": seed, "network": dict(network), "n_classes": n_classes, "layout": server.layout}
        self._members = Members(clients, nodes)
        self._stays = Stays(loop, self._states, self._members, recorder, horizon, settings.patience_s)
        self._reception = Reception(loop, self._members)
        self._outside = Outside(loop, chronicle, lines, on_nodes=self._reception.look)
        self._reception.outside = server.outside = self._outside
        server.evaluated = self._collect
        self._asking = Asking(
            loop,
            self._outside,
            self._stays,
            self._members,
            recorder,
            settings=settings,
            rules=rules,
            vector=server.vector,
        )

    # What a strategy sees -------------------------------------------------------------------------------------------

    @property
    def now(self) -> float:
        return self._loop.run_s

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
        check = partial(read_update, num_examples=client.num_examples, sections=self._server.sections)
        sent, took_s = await self._asking.ask(visit, Question("train", content, check, expected_s, visit.received))
        self._note_training(visit, sent, took_s, work)
        stay: LiveStay = visit.state
        on_the_way_s = (took_s - stay.compute_s) / 2  # the two ways carry the same bytes; nobody can tell them apart
        stay.download_s = on_the_way_s
        stay.received_at = visit.started + on_the_way_s
        visit.computed = stay.received_at + stay.compute_s
        return self._done(visit, self._server.hold(sent.model), on_the_way_s)

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
        check = partial(read_training, num_examples=visit.client.num_examples)
        sent, took_s = await self._asking.ask(visit, Question("compute", content, check, expected_s))
        self._note_training(visit, sent, took_s, work)
        visit.computed = self.now

    async def upload(self, visit: Visit, *, to: Client | None = None) -> Update:
        if visit.computed is None:
            raise RunError(f"client {visit.client.id}: upload before compute")
        expected_s = self.estimate(visit.client).upload_s

        def check(reply: Reply) -> Sent:
            return Sent({}, 0.0, read_vector(reply, self._server.sections))

        sent, took_s = await self._asking.ask(visit, Question("send", {"stay": visit.state.number}, check, expected_s))
        return self._done(visit, self._server.hold(sent.model), took_s)

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
                check = partial(
                    read_examples, asked=content, input_shape=self._server.input_shape, n_classes=len(per_class)
                )
                question = Question("examples", {**content, **self._named}, check, self.estimate(client).upload_s)
                try:
                    async with asyncio.timeout_at(None if until is None else until):
                        sent, _ = await self._asking.ask(visit, question)
                except TimeoutError:
                    return wanted.close(cut=True)  # what is on its way is asked for again
                size_bytes = wanted.add(*sent)
                self._recorder.traffic(up=size_bytes, examples=size_bytes)
            self._stays.end(visit, "done")
        return wanted.close(cut=False)

    async def train_on_server(self, model: Model, examples: Sequence[Examples], work: Work | None = None) -> Model:
        if not any(each.size_bytes for each in examples):
            raise RunError("training at the server needs at least one example")
        training = resolve(self._training, work)
        self._server_visits += 1
        x, y = self._uploads.gathered(examples)
        return Model(model.version, await self._server.train_on(model.location, x, y, self._server_visits, training))

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

    def in_progress(self) -> list[Visit]:
        return self._stays.in_progress()

    @property
    def busy(self) -> int:
        """How many clients are in a visit now."""
        return len(self.in_progress())

    @property
    def away(self) -> bool:
        """Whether the grid's server does not answer now."""
        return self._outside.away

    @property
    def present(self) -> int:
        """How many clients are there now."""
        return sum(self._members.node(client) is not None for client in self._clients)

    def close(self) -> None:
        """No visit after this: those still held are recorded as cut, and nobody waits for an answer."""
        self._stays.close()
        self._reception.close()
        self._outside.close()

    # A visit's parts ------------------------------------------------------------------------------------------------

    async def _receive(self, visit: Visit) -> None:
        stay: LiveStay = visit.state
        self._recorder.traffic(down=self._server.size_bytes)
        question = Question(
            "receive", {"stay": stay.number}, nothing, self.estimate(visit.client).download_s, visit.received
        )
        _, stay.download_s = await self._asking.ask(visit, question)
        stay.received_at = self.now

    def _work(self, visit: Visit, work: Work | None) -> tuple[dict[str, Any], float]:
        """What a client must know to train, and how long that is expected to take, seconds."""
        state = self._states[visit.client.id]
        state.visits += 1
        training = resolve(self._training, work)
        content = {
            "stay": visit.state.number,
            "job": self._job,
            **self._named,
            "client": visit.client.id,
            "visit": state.visits,
            "training": _plain(training),
        }
        configured, asked = (each.examples_per_visit(visit.client.num_examples) for each in (self._training, training))
        return content, self.estimate(visit.client).compute_s * asked / max(1, configured)

    def _note_training(self, visit: Visit, sent: Sent, took_s: float, work: Work | None) -> None:
        visit.state.statistics, visit.state.compute_s = sent.statistics, min(sent.compute_s, took_s)
        visit.state.examples = resolve(self._training, work).examples_per_visit(visit.client.num_examples)

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

    def _collect(self) -> None:
        """Record evaluations that are over; one that failed ends the run."""
        try:
            self._evaluations.collect(math.inf)
        except FedtempoError as error:
            if not self._ended.done():
                self._ended.set_exception(error)


def _plain(training: Training) -> dict[str, Any]:
    """The fields of a training as JSON values."""
    return {
        name: sorted(value) if isinstance(value, frozenset) else value
        for name, value in dataclasses.asdict(training).items()
        if value is not None
    }
