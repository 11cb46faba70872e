"""The federation on a virtual clock: visits take the fleet's time, while training runs on real cores.

A visit's training is handed to the executor at its virtual start, and its result is waited for only at the visit's
virtual end. So visits that overlap on the clock also overlap on the cores, invisibly to strategies.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from bisect import bisect_right
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, NoReturn, TypeVar

from fedtempo.data.phases import Phases
from fedtempo.errors import ConfigError, RunError
from fedtempo.federation import Client, ClientUnavailable, Examples, Model, Update, Visit, Work
from fedtempo.fleet.fleet import Fleet
from fedtempo.fleet.variation import Factors
from fedtempo.learning.training import Training
from fedtempo.record.recorder import Recorder
from fedtempo.runtime.averaging import Averaging
from fedtempo.runtime.batch import Batch
from fedtempo.runtime.budget import Budget
from fedtempo.runtime.central import Central
from fedtempo.runtime.client_evaluations import ClientEvaluations, ClientTesting
from fedtempo.runtime.client_state import ClientState
from fedtempo.runtime.clock import VirtualLoop
from fedtempo.runtime.evaluations import Evaluations
from fedtempo.runtime.executors import Carried, Executor
from fedtempo.runtime.executors.screening import NOT_FINITE
from fedtempo.runtime.gather import at_once
from fedtempo.runtime.kept_at_commit import KeptAtCommit
from fedtempo.runtime.keyed import ClientGenerators
from fedtempo.runtime.limits import BadUpdates, Limits
from fedtempo.runtime.raw_examples import RawExamples
from fedtempo.runtime.server import ServerSettings
from fedtempo.runtime.transfers import REPORT_BYTES, TransferSizes
from fedtempo.runtime.visits import UNLIMITED, Visits
from fedtempo.runtime.work import compute_scale, must_be_whole, resolve, sends_model

T = TypeVar("T")


class Simulation(Central):
    """One simulated run of a strategy (implements `fedtempo.federation.Federation`). Must be made in a VirtualLoop."""

    def __init__(
        self,
        *,
        clients: Sequence[Client],
        fleet: Fleet,
        executor: Executor,
        training: Training,
        recorder: Recorder,
        evaluations: Evaluations,
        seed: int,
        horizon: float = math.inf,
        max_commits: int | None = None,
        budget: Budget | None = None,
        server: ServerSettings | None = None,
        size_bytes: int | None = None,
        examples: RawExamples | None = None,
        evaluate_clients: int = 0,
        client_testing: ClientTesting | None = None,
        keep_clients: bool = False,
        phases: Phases | None = None,
    ) -> None:
        """server: the `[server]` table. max_commits: number of commits after which the run ends. budget: what the
        run may use.

        size_bytes: size of a model without compression (default: that of what travels). examples: the examples that
        clients may upload; None in a run without data. evaluate_clients: see `RunSettings`.
        client_testing: how versions are evaluated on the clients' own test sets, if they are. keep_clients: whether
        `kept_at_commit` will be called. phases: when clients' examples change; None if they do not.
        """
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        server = server or ServerSettings()
        self._loop = loop
        self._clients = tuple(clients)
        self._fleet, self._executor, self._recorder = fleet, executor, recorder
        self._training, self._schedule = training.without_schedule(), training.schedule
        self._evaluations, self._seed, self._horizon = evaluations, seed, horizon
        self._max_commits, self._server_s = max_commits, server.seconds
        self._arithmetic = executor
        self._averaging = Averaging(server, recorder, self.rng, executor.sections, budget)
        self._limits = Limits(server, fleet.faults, self.rng)
        self._bad_updates = BadUpdates(server.max_bad_updates)
        self._examples, self._server_visits, self._phases = examples, 0, phases
        if phases is not None:
            evaluations.use_phases(phases)
        self._compression = server.compression
        sizes = TransferSizes.of(executor, size_bytes, server.compression)
        self._down_bytes, self._up_bytes = sizes.down, sizes.up
        self._base_bytes, self._vector_bytes = sizes.base, sizes.vector
        self._keeps = executor.sections.local > 0 or (server.compression is not None and server.compression.keeps)
        generators = ClientGenerators(seed, len(clients))
        self._states = [ClientState(client, fleet, training, sizes.down, sizes.up, generators) for client in clients]
        self._estimator = fleet.estimator(self.rng("estimates"))
        uplink, downlink = fleet.links.channels, fleet.links.download_channels
        self._uplink = asyncio.Semaphore(uplink) if uplink else None
        self._downlink = asyncio.Semaphore(downlink) if downlink else None
        self._model = Model(0, executor.initial())
        self._compute_factors = Factors(fleet.speed.variation, len(clients), partial(generators, "compute"))
        link_factors = Factors(fleet.links.variation, len(clients), partial(generators, "links"))
        self._visits = Visits(loop, self._states, fleet.availability, link_factors, recorder, horizon)
        if budget is not None:
            self._limit_use(budget, fleet, self._visits)
        self._ended: asyncio.Future[str] = self._loop.create_future()
        uses_own = executor.sections.local > 0 or (client_testing is not None and "own" in client_testing.kinds)
        drawn = self._drawn(evaluate_clients) if evaluate_clients and uses_own else []
        if executor.sections.local and drawn:
            evaluations.use_parts_of(drawn)
        if client_testing is not None:
            evaluations.use_tests_of(ClientEvaluations(executor, client_testing, drawn))
        if keep_clients:
            self._visits.at_commit = KeptAtCommit(lambda: self._model.version)
        self._undisturbed = (
            self._visits.undisturbed
            and not (self._uplink or self._downlink)
            and not (self._limits.deadlines or self._limits.faulty)
        )
        """Whether nothing can delay a visit or end it early, except the run's end or an error."""

    # What a strategy sees -------------------------------------------------------------------------------------------

    @property
    def now(self) -> float:
        return self._visits.end_s  # the clock ends a run just after its horizon

    async def train(
        self,
        client: Client,
        model: Model,
        work: Work | None = None,
        *,
        group: int | None = None,
        to: Client | None = None,
    ) -> Update:
        self._may_send(model, work)
        # Usually only the visit's end is awaited, by up to a hundred thousand visits: this takes one frame each.
        visits, trains = self._visits, sends_model(work)
        visit = visits.begin_if_free(client, model, group, trains=trains)
        if visit is None:
            visit = await visits.begin(client, model, group, trains=trains)
        if waiting := self._receive(visit, work):
            await waiting
        if waiting := self._compute(visit, work):
            await waiting
        if waiting := self._send(visit, to):
            await waiting
        try:
            if visit.state.at > self._loop.now:
                await self._loop.wake_at(visit.state.at)
        except BaseException:
            visit.release()
            raise
        return self._arrived(visit)

    async def train_all(
        self, clients: Iterable[Client], model: Model, work: Work | None = None, *, group: int | None = None
    ) -> list[Update]:
        if not self._undisturbed:
            return await super().train_all(clients, model, work, group=group)
        self._may_send(model, work)
        fixed = resolve(self._training, work) if self._schedule is None else None
        phases = partial(self._pass_phases, work=work, training=fixed)
        batch = Batch(self._loop, self._visits, model, group, phases, self._arrived, trains=sends_model(work))
        return await batch.updates(list(clients))

    async def download(self, client: Client, model: Model, *, group: int | None = None) -> Visit:
        self._averaging.may_send(model)
        visit = await self._visits.begin(client, model, group)
        if waiting := self._receive(visit, None):
            await waiting
        await self._visits.catch_up(visit)
        return visit

    async def _begin(self, client: Client, model: Model, group: int | None) -> Visit:
        return await self._visits.begin(client, model, group)

    async def _send_to_all(self, visits: Sequence[Visit]) -> list[Visit | None]:
        async def receive(visit: Visit) -> Visit | None:
            try:
                if waiting := self._visits.phase(visit, slowest_s, "receiving", None):
                    await waiting
            except ClientUnavailable:
                return None
            await self._visits.catch_up(visit)
            visit.state.received_at = self.now
            self._states[visit.client.id].has_base = True
            return visit

        base = 0 if all(self._states[visit.client.id].has_base for visit in visits) else self._base_bytes
        seconds = []
        for visit in visits:  # observe the time on the client's link, although it waits for the slowest
            owner, state = self._states[visit.client.id], visit.state
            state.download_s = owner.download_s * state.link_factor
            extra_s = self._extra_s(self._fleet.links.download_s, visit, self._down_bytes, base) if base else 0.0
            if extra_s and self._limits.deadlines:
                self._limits.wait(visit, self.estimate, extra_s=extra_s)
            seconds.append(state.download_s + extra_s)
        slowest_s = max(seconds, default=0.0)
        async with self._downlink or UNLIMITED:
            if visits:
                self._recorder.traffic(down=self._down_bytes + base)
            return await at_once(map(receive, visits))

    async def compute(self, visit: Visit, work: Work | None = None) -> None:
        if waiting := self._compute(visit, work):
            await waiting
        await self._visits.catch_up(visit)

    async def upload(self, visit: Visit, *, to: Client | None = None) -> Update:
        if waiting := self._send(visit, to):
            await waiting
        await self._visits.catch_up(visit)
        return self._arrived(visit)

    async def upload_examples(
        self, client: Client, per_class: Sequence[int], *, until: float | None = None, group: int | None = None
    ) -> Examples:
        self._must_consent(client)
        store = self._raw_examples()
        visit = await self._visits.begin(client, self._model, group, trains=False)
        visit.state.received_at = visit.computed = self.now
        factor: float = visit.state.link_factor

        def seconds(count: int) -> float:
            return self._fleet.links.upload_s(client.id, count * store.example_bytes) * factor

        with visit:
            async with self._uplink or UNLIMITED:
                requested = chosen = store.unsent(client, per_class)
                if until is not None:
                    chosen = requested[: bisect_right(range(1, len(requested) + 1), until - self.now, key=seconds)]
                if len(chosen):
                    if waiting := self._visits.phase(visit, seconds(len(chosen)), "sending examples", None):
                        await waiting
                    await self._visits.catch_up(visit)
            examples = store.send(client, chosen, len(per_class), cut=len(chosen) < len(requested))
            self._recorder.traffic(up=examples.size_bytes, examples=examples.size_bytes)
            self._visits.end(visit, "done")
            return examples

    async def train_on_server(self, model: Model, examples: Sequence[Examples], work: Work | None = None) -> Model:
        self._must_have_examples(examples)
        training = self._resolved(model, work)
        self._server_visits += 1
        rows = self._raw_examples().rows(examples)
        pending = self._executor.train_rows(model.location, rows, self._server_visits, training)
        if self._server_s:
            await self.sleep_until(self.now + self._server_s)
        return Model(model.version, pending.result().location)

    def estimate_example_s(self, client: Client) -> float:
        owner = self._states[client.id]
        true_s = self._fleet.links.upload_s(client.id, self._raw_examples().example_bytes)
        return true_s * self.estimate(client).upload_s / owner.upload_s if owner.upload_s else true_s

    def forecast(self, client: Client, begin: float, end: float) -> float:
        leaves = self._fleet.availability.available_until(client.id, begin)
        return float(leaves > begin and leaves >= end)

    async def sleep_until(self, time: float) -> None:
        if time <= self._loop.now:
            await asyncio.sleep(0)
        else:
            await self._loop.wake_at(time)

    @contextlib.contextmanager
    def preparation(self) -> Iterator[None]:
        if self._loop.now > 0:
            raise RunError(f"preparation is possible only before the clock runs, not at t = {self.now:g} s")
        self._visits.preparing = True
        try:
            yield
        finally:
            self._visits.preparing = False

    # For the runner and observers ------------------------------------------------------------------------------------

    @property
    def end_s(self) -> float:
        """The run's end if it ended now, seconds."""
        return self._visits.end_s

    @property
    def visits_begun(self) -> int:
        return self._visits.begun

    def kept_at_commit(self) -> dict[int, Any]:
        """Return the locations of what clients kept at the last commit, by client id; only if `keep_clients`."""
        assert self._visits.at_commit is not None
        return self._visits.at_commit.of(self._states)

    def in_progress(self) -> list[Visit]:
        return self._visits.in_progress()

    def close(self) -> None:
        """End the visits in progress as cut; no visit begins after this."""
        self._visits.close()

    # The phases of a visit, at its own times. Each returns a coroutine if it can block, else None, like `Visits.phase`.

    def _receive(self, visit: Visit, work: Work | None) -> Coroutine[Any, Any, None] | None:
        state, owner = visit.state, self._states[visit.client.id]
        state.work = work
        if not owner.takes_delivered(visit.received):
            state.download_s = owner.download_s * state.link_factor
            self._recorder.traffic(down=self._down_bytes)
        extra_s = self._download_extra(visit, work)
        if self._limits.deadlines:
            self._limits.wait(visit, self.estimate, extra_s=extra_s)
        if waiting := self._visits.phase(visit, state.download_s + extra_s, "receiving", self._downlink):
            return self._receive_late(visit, waiting)
        state.received_at = state.at
        owner.has_base = True
        return None

    async def _receive_late(self, visit: Visit, waiting: Coroutine[Any, Any, None]) -> None:
        await waiting
        visit.state.received_at = visit.state.at
        self._states[visit.client.id].has_base = True

    def _download_extra(self, visit: Visit, work: Work | None) -> float:
        """Count what a client receives besides the model; return how much longer the download takes, seconds.

        That is what does not travel if the client has not received it yet, and the payload of `work`.
        """
        extra = 0 if self._states[visit.client.id].has_base else self._base_bytes
        if work is not None and work.payload:
            extra += len(work.payload) * self._vector_bytes
        if not extra:
            return 0.0
        self._recorder.traffic(down=extra)
        return self._extra_s(self._fleet.links.download_s, visit, self._down_bytes, extra)

    def _extra_s(self, seconds: Callable[[int, int], float], visit: Visit, size: int, extra_bytes: int) -> float:
        """Return how much longer a transfer of `size` bytes takes with more of them. seconds: (client, bytes) of it."""
        client = visit.client.id
        factor: float = visit.state.link_factor
        return (seconds(client, size + extra_bytes) - seconds(client, size)) * factor

    def _may_send(self, model: Model, work: Work | None) -> None:
        """Raise ConfigError if clients may not receive the model or the payload."""
        self._averaging.may_send(model, () if work is None else work.payload)

    def _begin_training(self, visit: Visit, training: Training, work: Work | None, begins: float | None = None) -> None:
        """Hand a visit's training to the executor. begins: when it begins (default: as soon as the client is ready)."""
        state, owner, received = visit.state, self._states[visit.client.id], visit.received.location
        client: int = owner.client.id
        if self._phases is not None:
            client = self._phases.holder(client, max(state.at, self._loop.now) if begins is None else begins)
        if not self._keeps and (work is None or work.procedure is None):
            state.training = self._executor.train(received, client, owner.visits, training)
            return
        carried = Carried(owner.kept)
        if work is not None:
            payload = tuple(model.location for model in work.payload)
            carried = Carried(owner.kept, work.procedure, payload, work.returns, work.numbers)
        state.keeps = True
        state.training = self._executor.train(received, client, owner.visits, training, carried)

    def _drawn(self, count: int) -> list[ClientState]:
        """Return the clients whose parts evaluations use, the same during the whole run."""
        everyone = len(self._states)
        if count >= everyone:
            return list(self._states)
        drawn = self.rng("evaluated clients").choice(everyone, count, replace=False)
        return [self._states[i] for i in sorted(drawn.tolist())]

    def _compute(self, visit: Visit, work: Work | None) -> Coroutine[Any, Any, None] | None:
        """Start the training and let its time pass."""
        client, state = visit.client, visit.state
        owner = self._states[client.id]
        if work is not None and state.work is not work:
            must_be_whole(work)
        state.work = work
        training = self._resolved(visit.received, work)
        examples, mean_s = owner.planned(training)
        scale = compute_scale(work)
        owner.visits += 1
        seconds, fault = mean_s * self._compute_factors.next(client.id), None
        if self._limits.faulty:
            fault = self._limits.fault(client, owner.visits)
            seconds *= self._limits.compute_factor(fault)
        state.compute_s = owner.as_configured_s(seconds, examples)
        seconds *= scale
        if self._limits.deadlines:
            self._limits.wait(visit, self.estimate, work=mean_s * scale / owner.mean_compute_s())
        if not self._visits.undisturbed:
            fails_at = self._fleet.availability.failure_point(client.id, owner.failures)
            if fails_at is not None:
                return self._fail(visit, seconds * fails_at)
        state.faulty = fault is not None
        if fault == "hang":
            state.silent = True
            return self._visits.phase(visit, math.inf, "computing", None)
        if fault is not None and not self._executor.trains:
            state.flaw = self._limits.flaw(fault)
        self._begin_training(visit, training, work)
        if waiting := self._visits.phase(visit, seconds, "computing", None):
            return waiting  # the client leaves before it has computed
        visit.computed = state.at
        return None

    async def _fail(self, visit: Visit, seconds: float) -> NoReturn:
        """End a visit whose client fails after `seconds` of computing. Raises ClientUnavailable."""
        if waiting := self._visits.phase(visit, seconds, "computing", None):
            await waiting
        await self._visits.catch_up(visit)
        self._visits.end(visit, "unavailable")
        raise ClientUnavailable(visit.client, f"it failed while computing at t = {self.now:g} s")

    def _send(self, visit: Visit, to: Client | None) -> Coroutine[Any, Any, None] | None:
        client, state = visit.client, visit.state
        if state.training is None or visit.computed is None:
            raise RunError(f"client {client.id}: upload before compute")
        state.upload_s = seconds = self._states[client.id].upload_s * state.link_factor
        if not sends_model(state.work):
            seconds = self._report_s(visit)
        elif state.work is not None and state.work.returns:
            along = state.work.returns * self._vector_bytes
            extra_s = self._extra_s(self._fleet.links.upload_s, visit, self._up_bytes, along)
            if self._limits.deadlines:
                self._limits.wait(visit, self.estimate, extra_s=extra_s)
            seconds += extra_s
        elif to is not None and self._compression is None:  # a change means nothing to a client without its base
            neighbour, direct = self._states[to.id], self._fleet.links.peer_s(client.id, to.id, self._up_bytes)
            if direct is not None and direct <= seconds + neighbour.download_s:
                state.neighbour = neighbour  # else the server relays the model
                return self._visits.phase(visit, direct, "sending", None)
        return self._visits.phase(visit, seconds, "sending", self._uplink)

    def _report_s(self, visit: Visit) -> float:
        """Return how long a client sends its measurements alone, seconds."""
        factor: float = visit.state.link_factor
        return self._fleet.links.upload_s(visit.client.id, REPORT_BYTES) * factor

    def _pass_phases(self, visit: Visit, work: Work | None, training: Training | None) -> None:
        """Do `_receive`, `_compute` and `_send` for a visit that nothing can delay or end early.

        training: that of all visits with this work; None if it depends on when a visit begins.
        """
        if training is None:
            training = self._resolved(visit.received, work)
        client, state = visit.client, visit.state
        owner = self._states[client.id]
        if not owner.takes_delivered(visit.received):
            state.download_s = owner.download_s * state.link_factor
            self._recorder.traffic(self._down_bytes)
        download_s = state.download_s + self._download_extra(visit, work)
        examples, mean_s = owner.planned(training)
        seconds = mean_s * self._compute_factors.next(client.id)
        state.compute_s = owner.as_configured_s(seconds, examples)
        seconds *= compute_scale(work)
        state.upload_s = owner.upload_s * state.link_factor
        upload_s = state.upload_s
        if not sends_model(work):
            state.work = work
            upload_s = self._report_s(visit)
        elif work is not None and work.returns:
            state.work = work
            along = work.returns * self._vector_bytes
            upload_s += self._extra_s(self._fleet.links.upload_s, visit, self._up_bytes, along)
        owner.visits += 1
        owner.has_base = True
        computed = self._visits.pass_all(visit, download_s, seconds, upload_s)
        self._begin_training(visit, training, work, state.received_at)
        visit.computed = computed

    def _arrived(self, visit: Visit) -> Update:
        """End a visit whose model has arrived at the server, at the present time of the clock."""
        client, state = visit.client, visit.state
        trained = state.training.result()
        reports = not sends_model(state.work)
        if reports:
            self._recorder.traffic(up=REPORT_BYTES)
        elif state.neighbour is None:
            along = 0 if state.work is None else state.work.returns * self._vector_bytes
            self._recorder.traffic(up=self._up_bytes, along=along)
        else:
            self._recorder.traffic(relay=self._up_bytes)
        self._estimator.observe(client.id, state.download_s, state.compute_s, state.upload_s)
        if (flaw := trained.flaw or state.flaw) is not None:
            self._refuse(visit, flaw)
        model = visit.received if reports else Model(visit.received.version, trained.location)
        sent = tuple(Model(model.version, location) for location in trained.sent) if trained.sent else ()
        if state.neighbour is not None:
            state.neighbour.deliver(model)
        state.statistics = shown = trained.statistics
        if self._averaging.guards:
            for received in sent if reports else (model, *sent):
                self._averaging.arrived(received, client)
            shown = self._averaging.statistics(shown)
        if shown:
            self._recorder.told(statistics=len(shown))
        computed = visit.computed
        assert computed is not None
        now = self.now
        update = Update(client, visit.received, model, client.num_examples, shown, visit.started, computed, now, sent)
        self._visits.end(visit, "done")
        return update

    def _refuse(self, visit: Visit, flaw: str) -> NoReturn:
        """End a visit with a bad update; too many of these end the run. Raises ClientUnavailable."""
        self._visits.end(visit, "refused")
        if flaw.endswith(NOT_FINITE) and not visit.state.faulty:
            self._recorder.health.refused(self.now, visit.client.id, flaw)
        too_many = self._bad_updates.add(visit.client, flaw, self.now)
        if too_many is not None and not self._ended.done():
            self._ended.set_exception(too_many)
        raise ClientUnavailable(visit.client, f"its update was rejected: {flaw}")

    def _raw_examples(self) -> RawExamples:
        if self._examples is None:
            raise RunError("this run has no data: examples cannot be uploaded")
        if self._phases is not None:
            raise ConfigError("data.partition.drift: clients cannot upload examples that change; remove it")
        return self._examples
