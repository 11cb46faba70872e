"""The federation on real clients: visits are messages over a grid, and time is real time."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from fedtempo.deploy.live.announced import Patience, credited
from fedtempo.deploy.live.event_log import EventLog
from fedtempo.deploy.live.joining import Admission, LateJoiners
from fedtempo.deploy.live.loop import RunLoop
from fedtempo.deploy.live.messages import (
    SMALL_REPLY_BYTES,
    Reply,
    TrainingResult,
    nothing,
)
from fedtempo.deploy.live.operations import Operations
from fedtempo.deploy.live.outliers import Outliers
from fedtempo.deploy.live.packing import packed
from fedtempo.deploy.live.replies import read_sent, read_training, read_update
from fedtempo.deploy.live.requests import Request, Requests
from fedtempo.deploy.live.roster import Roster
from fedtempo.deploy.live.transport import Transport
from fedtempo.deploy.live.uploads import BATCH, Uploads, read_examples
from fedtempo.deploy.live.visits import LiveVisits
from fedtempo.deploy.loads import Loads
from fedtempo.errors import FedtempoError, RunError
from fedtempo.federation import Client, ClientUnavailable, Examples, Model, Update, Visit, Work
from fedtempo.fleet.fleet import Fleet
from fedtempo.learning.compressed import CompressedTransfers
from fedtempo.learning.training import Training
from fedtempo.record.recorder import Recorder
from fedtempo.runs.config import toml_value
from fedtempo.runs.deploy_settings import DeploySettings
from fedtempo.runtime.averaging import Averaging
from fedtempo.runtime.budget import Budget
from fedtempo.runtime.central import Central
from fedtempo.runtime.client_state import ClientState
from fedtempo.runtime.evaluations import Evaluations
from fedtempo.runtime.executors import Vector
from fedtempo.runtime.executors.arithmetic import Statistics
from fedtempo.runtime.gather import at_once
from fedtempo.runtime.server import ServerSettings
from fedtempo.runtime.transfers import REPORT_BYTES, TransferSizes, transfers_of
from fedtempo.runtime.work import compute_scale, must_be_whole, resolve, sends_model

if TYPE_CHECKING:
    from fedtempo.deploy.live.server import Server

MakeTransport = Callable[[Callable[[Any], None], Callable[[Any], Any]], Transport]


class LiveFederation(Central):
    """One run of a strategy on real clients (implements `fedtempo.federation.Federation`). Must be made in a RunLoop.

    A client whose visit was given up (cancelled or late) stays busy until its call has ended.
    """

    def __init__(
        self,
        *,
        clients: Sequence[Client],
        nodes: Sequence[int],
        transport: MakeTransport,
        event_log: EventLog,
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
        run: str,
        exchange: Mapping[str, Any],
        admission: Admission,
        loads: Loads,
        horizon: float = math.inf,
        max_commits: int | None = None,
        budget: Budget | None = None,
    ) -> None:
        """Connect to the clients and, for a resumed run, prepare the replay of its log.

        nodes: the clients' nodes when the run begins. transport: see Operations. event_log: past and new events. fleet:
        prior estimates of the clients' times. network: the `[model]` table, from which clients build their models
        together with n_classes and exchange (what travels). run: the run's name, under which clients keep what stays
        with them. admission: which clients may join. rules: the `[server]` table (averaging, deadline, limit on bad
        updates). loads: where the machines' loads are noted.
        """
        loop = asyncio.get_running_loop()
        assert isinstance(loop, RunLoop)
        self._loop = loop
        self._clients, self._server, self._recorder = tuple(clients), server, recorder
        self._training, self._schedule = training.without_schedule(), training.schedule
        self._evaluations, self._seed, self._horizon, self._max_commits = evaluations, seed, horizon, max_commits
        self._arithmetic = server
        self._averaging = Averaging(rules, recorder, self.rng, server.sections, budget)
        self._compression = rules.compression
        self._sizes = sizes = TransferSizes.of(server, compression=rules.compression)
        self._states = [ClientState(client, fleet, training, sizes.down, sizes.up, self.rng) for client in clients]
        self._estimator = fleet.estimator(self.rng("estimates"))
        self._uploads, self._server_visits = Uploads(), 0
        self._model = Model(0, server.initial())
        self._ended: asyncio.Future[str] = loop.create_future()
        self._class_names = admission.data_names.of_classes
        self._job = {"seed": seed, "network": dict(network), "n_classes": n_classes, "layout": server.layout}
        if server.augment is not None:
            self._job["augment"] = server.augment
        self._job |= {"run": run, **({"exchange": dict(exchange)} if exchange else {})}
        if rules.compression is not None:
            self._job["compression"] = toml_value(rules.compression)
        self._has_base: dict[int, int] = {}
        """The node to which each client's base, what does not travel, has been sent, by client id."""
        self._roster = Roster(clients, nodes)
        self._visits = LiveVisits(loop, self._states, self._roster, recorder, horizon, settings.patience_s)
        if budget is not None:
            self._limit_use(budget, fleet, self._visits)
        self._late_joiners = LateJoiners(loop, self._roster, admission)
        self._operations = Operations(loop, event_log, transport, on_nodes=self._late_joiners.look)
        self._late_joiners.operations = server.operations = self._operations
        server.evaluated = self._collect
        self._credited = credited([client.num_examples for client in clients], settings.max_change)
        self._outliers = Outliers(settings.max_change, self._visits, lambda: loop.now)
        self.loads = loads
        self._requests = Requests(
            loop,
            self._operations,
            self._visits,
            self._roster,
            recorder,
            settings=settings,
            rules=rules,
            exchanged=server.exchanged,
            base=server.base,
            patience=Patience(self._clients, lambda client: self.estimate(client).visit_s),
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
        payload, returns = ((), 0) if work is None else (work.payload, work.returns)
        self._averaging.may_send(model, payload)
        reports = not sends_model(work)
        visit = await self._visits.begin(client, model, group, trains=not reports)
        content, training, expected_compute_s = self._work(visit, work)
        expected = self.estimate(client)
        base, sizes = self._needs_base(visit), self._sizes
        more = (base * sizes.base + len(payload) * sizes.vector) / max(1, sizes.down)
        more_up = -1.0 if reports else self._along(returns)
        expected_s = expected.download_s * (1 + more) + expected_compute_s + expected.upload_s * (1 + more_up)
        self._count_download(base, len(payload))
        transfers = self._transfers(visit, self._states[client.id].visits)
        received: list[Vector] = []
        check: Callable[[Reply], TrainingResult] = partial(
            read_update,
            received=received,
            num_examples=client.num_examples,
            sections=self._server.sections,
            returns=returns,
            decode=None if transfers is None else transfers.uploaded,
            training=training,
        )
        if reports:
            check = partial(read_training, num_examples=client.num_examples, training=training)
        check = self.loads.noting(client.id, check)
        pack = self._pack(transfers)
        request = Request(
            "train",
            {**content, "base": base},
            check,
            expected_s,
            visit.received,
            base,
            payload,
            pack,
            self._reply_bytes(0 if reports else 1 + returns),
            None if reports else visit.received,
            received,
        )
        result, took_s = await self._send(visit, request)
        await self._judge(visit, result)
        self._note_training(visit, result, took_s, work)
        state = visit.state
        # Both directions count with the same time per byte, since they cannot be told apart.
        upload_share = sizes.up / sizes.down if sizes.down else 1.0
        transfer_s = (took_s - state.compute_s) / (1 + more + upload_share * (1 + more_up))
        state.download_s = transfer_s
        # While a run is prepared, its time stands still.
        state.received_at = min(visit.started + transfer_s, self.now)
        visit.computed = min(state.received_at + state.compute_s, self.now)
        return self._done(visit, result, transfer_s * upload_share)

    async def download(self, client: Client, model: Model, *, group: int | None = None) -> Visit:
        self._averaging.may_send(model)
        visit = await self._visits.begin(client, model, group)
        await self._receive(visit)
        return visit

    async def _begin(self, client: Client, model: Model, group: int | None) -> Visit:
        return await self._visits.begin(client, model, group)

    async def _send_to_all(self, visits: Sequence[Visit]) -> list[Visit | None]:
        async def receive(visit: Visit) -> Visit | None:
            try:
                await self._receive(visit)
            except ClientUnavailable:
                return None
            return visit

        return await at_once(map(receive, visits))

    async def compute(self, visit: Visit, work: Work | None = None) -> None:
        if work is not None:
            must_be_whole(work)
        content, training, expected_s = self._work(visit, work)
        content["base"] = visit.state.base
        training_check = partial(read_training, num_examples=visit.client.num_examples, training=training)
        check = self.loads.noting(visit.client.id, training_check)
        result, took_s = await self._send(visit, Request("compute", content, check, expected_s, base=visit.state.base))
        visit.state.returns = 0 if work is None else work.returns
        self._note_training(visit, result, took_s, work)
        visit.computed = self.now

    async def upload(self, visit: Visit, *, to: Client | None = None) -> Update:
        if visit.computed is None:
            raise RunError(f"client {visit.client.id}: upload before compute")
        returns = visit.state.returns
        more = 1 + self._along(returns)
        expected_s = self.estimate(visit.client).upload_s * more
        transfers = self._transfers(visit, self._states[visit.client.id].visits)
        decode = None if transfers is None else transfers.uploaded

        received: list[Vector] = []
        check = partial(read_sent, sections=self._server.sections, returns=returns, decode=decode, received=received)
        content = {"stay": visit.state.number}
        size = self._reply_bytes(1 + returns)
        request = Request(
            "send", content, check, expected_s, reply_bytes=size, measured=visit.received, received=received
        )
        result, took_s = await self._requests.send(visit, request)
        await self._judge(visit, result)
        return self._done(visit, result, took_s / more)

    async def upload_examples(
        self, client: Client, per_class: Sequence[int], *, until: float | None = None, group: int | None = None
    ) -> Examples:
        self._must_consent(client)
        visit = await self._visits.begin(client, self._model, group, trains=False)
        visit.state.received_at = visit.computed = self.now
        upload = self._uploads.begin(client, per_class)
        with visit:
            while (content := upload.next_call()) is not None:
                form = self._server.example_form
                check = partial(read_examples, request=content, form=form, n_classes=len(per_class))
                request = Request(
                    "examples",
                    {**content, **self._class_names},
                    check,
                    self.estimate(client).upload_s,
                    reply_bytes=SMALL_REPLY_BYTES + 4 * BATCH * self._server.example_bytes,
                )
                try:
                    async with asyncio.timeout_at(None if until is None else until):
                        batch, _ = await self._requests.send(visit, request)
                except TimeoutError:
                    return upload.close(cut=True)  # the batch in transit will be requested again
                size_bytes = upload.add(*batch)
                self._recorder.traffic(up=size_bytes, examples=size_bytes)
            self._visits.end(visit, "done")
        return upload.close(cut=False)

    async def train_on_server(self, model: Model, examples: Sequence[Examples], work: Work | None = None) -> Model:
        self._must_have_examples(examples)
        training = self._resolved(model, work)
        self._server_visits += 1
        x, y = self._uploads.gathered(examples)
        return Model(model.version, await self._server.train_on(model.location, x, y, self._server_visits, training))

    def estimate_example_s(self, client: Client) -> float:
        return self.estimate(client).upload_s * self._server.example_bytes / self._sizes.up

    def forecast(self, client: Client, begin: float, end: float) -> float:
        return float(self._roster.node(client) is not None)

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

    # For the runner and observers -----------------------------------------------------------------------------------

    @property
    def end_s(self) -> float:
        """The run's end if it ended now, seconds."""
        return self._visits.end_s

    @property
    def visits_begun(self) -> int:
        return self._visits.begun

    def in_progress(self) -> list[Visit]:
        return self._visits.in_progress()

    @property
    def busy(self) -> int:
        """Number of clients in a visit now."""
        return len(self.in_progress())

    @property
    def away(self) -> bool:
        """Whether the grid's server is not answering now."""
        return self._operations.away

    @property
    def present(self) -> int:
        """Number of clients that are online and responsive now."""
        return sum(self._roster.node(client) is not None for client in self._clients)

    def close(self) -> None:
        """End the visits in progress as cut and stop waiting for answers; no visit begins after this."""
        self._visits.close()
        self._late_joiners.close()
        self._operations.close()

    # Parts of a visit ------------------------------------------------------------------------------------------------

    async def _receive(self, visit: Visit) -> None:
        state = visit.state
        state.base = base = self._needs_base(visit)
        more = 1 + base * self._sizes.base / max(1, self._sizes.down)
        self._count_download(base, 0)
        expected_s = self.estimate(visit.client).download_s * more
        pack = self._pack(self._transfers(visit, self._states[visit.client.id].visits + 1))
        content = {"stay": state.number}
        request = Request("receive", content, nothing, expected_s, visit.received, base, pack=pack)
        _, took_s = await self._requests.send(visit, request)
        state.download_s = took_s / more
        state.received_at = self.now

    def _needs_base(self, visit: Visit) -> bool:
        """Return whether the client still needs what does not travel."""
        return bool(self._server.sections.fixed) and self._has_base.get(visit.client.id) != visit.state.node

    def _count_download(self, base: bool, payload: int) -> None:
        sizes = self._sizes
        self._recorder.traffic(down=sizes.down + base * sizes.base + payload * sizes.vector)

    def _along(self, vectors: int) -> float:
        """Return the size of vectors that a client sends besides its model, relative to the latter."""
        return vectors * self._sizes.vector / max(1, self._sizes.up)

    def _reply_bytes(self, vectors: int) -> int:
        """Return the size of the largest reply with so many vectors."""
        return SMALL_REPLY_BYTES + 2 * vectors * self._sizes.model

    def _transfers(self, visit: Visit, number: int) -> CompressedTransfers | None:
        """Return the compressed transfers of a client's visit `number`, if they are compressed."""
        if self._compression is None:
            return None
        parameters = self._server.sections.trainable
        return transfers_of(self._compression, parameters, self._seed, visit.client.id, number)

    def _pack(self, transfers: CompressedTransfers | None) -> Callable[[Vector], Any] | None:
        if transfers is None:
            return None
        parameters = self._server.sections.trainable
        return lambda model: packed(transfers.download(model[:parameters]), model[parameters:])

    def _placed(self, received: Model, result: TrainingResult) -> Any:
        """Return the location of the model that a client sent, or whose change from `received` it sent."""
        location = self._server.place(result.model)
        if self._compression is None:
            return location
        own_statistics = Statistics([location], _first) if self._server.sections.statistics else None
        return self._server.apply(_changed, [received.location, location], own_statistics)

    async def _send(self, visit: Visit, request: Request) -> tuple[TrainingResult, float]:
        """Send a request to train. Whatever goes wrong, the client's next visit brings what does not travel again."""
        known = self._has_base.pop(visit.client.id, None)
        result, took_s = await self._requests.send(visit, request)
        node = visit.state.node if request.base else known
        if node is not None:
            self._has_base[visit.client.id] = node
        return result, took_s

    async def _judge(self, visit: Visit, result: TrainingResult) -> None:
        """Reject an update that is far outside the others. Raises ClientUnavailable then."""
        try:
            flaw = await self._outliers.judge(visit, visit.state.procedure, visit.state.work, result.lengths)
        except BaseException:
            visit.release()
            raise
        if flaw is not None:
            self._requests.reject(visit, flaw)

    def _work(self, visit: Visit, work: Work | None) -> tuple[dict[str, Any], Training | None, float]:
        """Return the content of a training call, the training if no procedure replaces it, and its expected seconds."""
        state = self._states[visit.client.id]
        state.visits += 1
        training = self._resolved(visit.received, work)
        visit.state.procedure = "" if work is None or work.procedure is None else work.procedure
        visit.state.work = training.steps_per_visit(self._credited[visit.client.id]) * training.lr
        content = {
            "stay": visit.state.number,
            "job": self._job,
            **self._class_names,
            "client": visit.client.id,
            "visit": state.visits,
            "training": _plain(training),
        }
        if work is not None and work.procedure is not None:
            content |= {"procedure": work.procedure, "returns": work.returns}
            if work.numbers is not None:
                content["numbers"] = dict(work.numbers)
        n = visit.client.num_examples
        configured, requested = self._training.examples_per_visit(n), training.examples_per_visit(n)
        share = compute_scale(work) * requested / max(1, configured)
        measured = training if work is None or work.procedure is None else None
        return content, measured, self.estimate(visit.client).compute_s * share

    def _note_training(self, visit: Visit, result: TrainingResult, took_s: float, work: Work | None) -> None:
        visit.state.statistics, visit.state.compute_s = result.statistics, min(result.compute_s, took_s)
        visit.state.compute_scale = compute_scale(work)
        visit.state.examples = resolve(self._training, work).examples_per_visit(visit.client.num_examples)

    def _done(self, visit: Visit, result: TrainingResult, upload_s: float) -> Update:
        """End a visit that returned a model or measurements. upload_s: time of a model's upload alone."""
        client, state, computed = visit.client, visit.state, visit.computed
        assert computed is not None
        reports = result.model is None
        up = REPORT_BYTES if reports else self._sizes.up
        self._recorder.traffic(up=up, along=len(result.sent) * self._sizes.vector)
        compute_s = self._states[client.id].as_configured_s(state.compute_s / state.compute_scale, state.examples)
        self._estimator.observe(client.id, state.download_s, compute_s, upload_s)
        version = visit.received.version
        model = visit.received if reports else Model(version, self._placed(visit.received, result))
        sent = [Model(version, self._server.place(received)) for received in result.sent]
        for arrived in sent if reports else (model, *sent):
            self._averaging.arrived(arrived, client)
        statistics = self._averaging.statistics(state.statistics)
        self._recorder.told(statistics=len(statistics))
        n, started = client.num_examples, visit.started
        update = Update(client, visit.received, model, n, statistics, started, computed, self.now, tuple(sent))
        self._visits.end(visit, "done")
        return update

    def _collect(self) -> None:
        """Record evaluations that have ended; an error in one ends the run."""
        try:
            self._evaluations.collect(math.inf)
        except FedtempoError as error:
            if not self._ended.done():
                self._ended.set_exception(error)


def _changed(model: Vector, change: Vector) -> Vector:
    return model + change


def _first(statistics: Sequence[Vector]) -> Vector:
    return statistics[0]


def _plain(training: Training) -> dict[str, Any]:
    """Return the fields of a training as JSON values."""
    return {
        name: sorted(value) if isinstance(value, frozenset) else value
        for name, value in dataclasses.asdict(training).items()
        if value is not None
    }
