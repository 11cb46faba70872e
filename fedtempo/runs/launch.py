"""Launch a run: build its executor and recorder, and play its strategy on the virtual clock."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedtempo.data.sources import NOTHING
from fedtempo.errors import ConfigError, FedtempoError
from fedtempo.federation import gives_own_models
from fedtempo.fleet.presence import Scheduled
from fedtempo.learning.training import Training
from fedtempo.parts.inputs import numbers_per_example
from fedtempo.record import Recorder, RunFolder
from fedtempo.record.client_measures import Kind
from fedtempo.record.journal import Journal
from fedtempo.record.models import ModelFiles
from fedtempo.record.recorder import Observer, VisitRow
from fedtempo.runs.client_layers import layers_of
from fedtempo.runs.config import Config
from fedtempo.runs.facts import facts_of
from fedtempo.runs.foresight import Pace, check_length, schedule_only, visit_times, work_without_time
from fedtempo.runs.models import TrainedModels, models_of, record_models
from fedtempo.runs.world import World, build_world, training_of
from fedtempo.runtime.client_evaluations import ClientTesting
from fedtempo.runtime.evaluations import Evaluations
from fedtempo.runtime.executor_settings import ExecutorSettings
from fedtempo.runtime.executors import Executor
from fedtempo.runtime.executors.journalled import Journalled
from fedtempo.runtime.executors.none import NoTraining
from fedtempo.runtime.raw_examples import RawExamples
from fedtempo.runtime.runner import Driven, simulate
from fedtempo.runtime.simulation import Simulation
from fedtempo.runtime.transfers import TransferSizes
from fedtempo.runtime.verify import Verified

if TYPE_CHECKING:
    from fedtempo.runtime.executors.job import ClientTests, Job

Watch = Callable[[Driven, Evaluations], None]

_LATE = 5.0
"""Multiple of the slowest client's visit after which a run warns that nobody trains."""
_TRIED_VISITS, _TRIED_S, _TRIED_TIMES = 20_000, 1.0, 20.0
"""Limits of a trial schedule: visits, real seconds, multiple of the slowest client's visit."""


def unsaid(line: str) -> None:
    """Discard a line."""


@contextlib.contextmanager
def rare_collections(n_clients: int) -> Iterator[None]:
    """Collect cyclic garbage less often: a run makes many objects and few cycles (a quarter of a visit's cost).

    A visit in progress takes some ten objects, and all clients may be visited at the same time, repeatedly.
    """
    thresholds = gc.get_threshold()
    gc.set_threshold(max(50_000, 100 * n_clients), 20, 20)
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)


def play(
    config: Config,
    world: World,
    training: Training,
    inner: Executor,
    recorder: Recorder,
    *,
    watch: Watch | None = None,
    folder: Path | None = None,
    journal: Journal | None = None,
) -> TrainedModels:
    """Run a configuration's strategy on the virtual clock and record it; return its models.

    inner: the executor, which the caller closes. watch: called with the run as it begins. folder, journal: the run's
    folder and the journal that its operations are answered from and added to, if it can be resumed.
    """
    began, before_s = time.perf_counter(), journal.wall_s if journal else 0.0

    def wall_s() -> float:
        return before_s + time.perf_counter() - began

    with contextlib.ExitStack() as at_the_end:
        executor, journalled = inner, None
        if folder is not None and journal is not None and executor.trains and config.run.checkpoint_every:
            models = ModelFiles(RunFolder(folder).models)
            executor = journalled = Journalled(
                inner, journal, models, every_s=config.run.checkpoint_every, wall_s=wall_s
            )
            at_the_end.callback(journalled.settle)
        keep_clients = "clients" in config.run.keep and executor.trains
        if keep_clients and not executor.sections.local:
            raise ConfigError("run.keep: clients keep nothing of this model; set model.local, or remove 'clients'")
        for name, value in _facts(config, world, training, executor).items():
            recorder.fact(name, value)
        recorder.fact("resumed", journal.resumed if journal else 0)
        sizes = TransferSizes.of(executor, config.model_bytes, config.server.compression)
        times = visit_times(world, training, sizes.down, sizes.up)
        recorder.health.expect(times.shortest_s, times.longest_s)
        if (work := work_without_time(config)) is not None:
            recorder.health.same_times(work)
        if isinstance(there := world.fleet.availability, Scheduled) and there.last_s < (config.run.horizon or math.inf):
            recorder.health.absent_from(there.last_s)
        if journal is None or not journal.resumed:
            job = partial(make_job, config, world) if executor.trains else None
            check_length(config, world, training, times, job, partial(_pace, config, times.longest_s), recorder.say)
        recorder.flush()  # watchers see the run's facts before its first visit ends
        if config.data.tell_labels and world.holds_examples:
            recorder.told(histograms=len(world.clients) * world.dataset.strata[1])
        simulations: list[Simulation] = []

        def make(**settings: Any) -> Simulation:
            sim = _simulation(config, world, executor, training, recorder, keep_clients=keep_clients, **settings)
            simulations.append(sim)
            due_s = _LATE * times.longest_s
            asyncio.get_running_loop().call_at(due_s, recorder.health.unserved, due_s)
            return sim

        outcome = simulate(
            config.strategy,
            config.run,
            executor,
            make,
            recorder,
            strategy_name=config.strategy_name,
            watch=watch or (lambda *_: None),
            journal=journalled,
            validates=world.validation is not None,
        )
        if facts := inner.facts():
            recorder.fact("executor", facts)
    if isinstance(recorder, Verified) and outcome.ended != "interrupted":
        recorder.complete(len(simulations[0].in_progress()))
    recorder.finish(outcome.ended, outcome.end_s, outcome.model, outcome.reason)
    recorder.fact("reads_horizon", outcome.reads_horizon)
    layers = None
    if keep_clients and outcome.model is not None:
        layers = layers_of(executor, inner.naming, simulations[0].kept_at_commit())
    record_models(recorder, outcome, layers)
    recorder.fact("wall_s", wall_s())
    recorder.fact("events_sha256", recorder.events_sha256)
    return models_of(outcome, inner.naming, layers)


def _simulation(
    config: Config, world: World, executor: Executor, training: Training, recorder: Recorder, **settings: Any
) -> Simulation:
    """Return the federation of a run; call it on the run's clock."""
    client_testing = None
    if world.client_tests is not None and executor.trains:
        examples = np.array(list(map(len, world.client_tests)), dtype=np.int64)
        kinds = _kinds_of_models(config, world, executor)
        client_testing = ClientTesting(examples, kinds, config.run.evaluate_clients_every)
    return Simulation(
        clients=world.clients,
        fleet=world.fleet,
        executor=executor,
        training=training,
        recorder=recorder,
        seed=config.run.seed,
        server=config.server,
        size_bytes=config.model_bytes,
        evaluate_clients=config.run.evaluate_clients,
        client_testing=client_testing,
        examples=_raw_examples(world) if world.holds_examples else None,
        phases=None if world.drifting is None else world.drifting.phases,
        **settings,
    )


def _raw_examples(world: World) -> RawExamples:
    """Return the examples that clients may upload."""
    return RawExamples(
        labels=[world.dataset.strata[0][rows] for rows in world.owned],
        rows=world.owned,
        example_bytes=numbers_per_example(world.dataset.train_x),
    )


def _kinds_of_models(config: Config, world: World, executor: Executor) -> list[Kind]:
    """Return which models a run evaluates on clients' own test sets."""
    if world.client_tests is None or not executor.trains:
        return []
    return config.run.kinds_of_models(
        has_local_parts=executor.sections.local > 0, has_own_models=gives_own_models(config.strategy)
    )


def _pace(config: Config, longest_s: float) -> Pace | None:
    """Return the pace of a run's schedule from a trial of about a second without training; None if it has none."""

    class Limit:
        """End the run after a number of visits or seconds (a `record.recorder.Observer`)."""

        visits = commits = 0
        began = time.perf_counter()
        sim: Driven | None = None

        def visit(self, row: VisitRow) -> None:
            self.visits += row.outcome == "done"
            if self.sim and (self.visits >= _TRIED_VISITS or time.perf_counter() - self.began > _TRIED_S):
                self.sim.end("budget")

        def commit(self, version: int, time: float, staleness: int) -> None:
            self.commits += 1

        def evaluation(self, time: float, version: int, accuracy: float, loss: float, mae: float | None) -> None: ...
        def measured(self, time: float, version: int, values: Mapping[str, float]) -> None: ...
        def traffic(self, down: int, up: int, relay: int) -> None: ...
        def fact(self, name: str, value: Any) -> None: ...

        def watch(self, sim: Driven, evaluations: Evaluations) -> None:
            self.sim = sim
            asyncio.get_running_loop().call_at(_TRIED_TIMES * longest_s, sim.end, "horizon")

    limit = Limit()
    try:
        planned = schedule_only(config).with_changes({"run.evaluate": "commit"})
        world = build_world(planned)
        recorder = Recorder(None, rows=False, observers=[limit], say=unsaid)
        with contextlib.closing(recorder), make_executor(planned, world) as executor:
            make = partial(_simulation, planned, world, executor, training_of(planned, world), recorder)
            outcome = simulate(planned.strategy, planned.run, executor, make, recorder, watch=limit.watch)
    except FedtempoError:
        return None
    if outcome.ended == "interrupted":
        raise KeyboardInterrupt
    return Pace(limit.visits / outcome.end_s, limit.commits / outcome.end_s) if outcome.end_s else None


def make_recorder(
    config: Config, folder: Path | None, world: World, observers: Iterable[Observer] = (), *, quiet: bool = False
) -> Recorder:
    """Return what records a run, in memory if `folder` is None; quiet: warnings are in the summary alone."""
    rows, say = config.run.record == "all", unsaid if quiet else None
    if not config.run.verify:
        return Recorder(folder, rows=rows, observers=observers, say=say)
    n_clients, horizon_s = len(world.clients), config.run.horizon
    return Verified(folder, n_clients=n_clients, horizon_s=horizon_s, rows=rows, observers=observers, say=say)


def make_job(config: Config, world: World) -> Job:
    """Return the run's training job. PyTorch is imported only here, so that wrong settings are reported quickly."""
    from fedtempo.runtime.executors.job import Job

    dataset, drifts = world.dataset, world.drifting
    x, y, clients = dataset.train_x, dataset.train_y, world.owned
    test_x, test_y = world.test.inputs(dataset), world.test.labels(dataset)
    validation_x = None if world.validation is None else world.validation.inputs(dataset)
    validation_y = None if world.validation is None else world.validation.labels(dataset)
    if drifts is not None:
        x, y, clients = drifts.training(x, y, clients)
        test_x, test_y = drifts.tests(test_x, test_y)
        if validation_x is not None and validation_y is not None:
            validation_x, validation_y = drifts.tests(validation_x, validation_y)
    return Job(
        network=config.network,
        n_classes=dataset.n_classes,
        x=x,
        y=y,
        clients=clients,
        test_x=test_x,
        test_y=test_y,
        validation_x=validation_x,
        validation_y=validation_y,
        phases=None if drifts is None else drifts.phases,
        seed=config.run.seed,
        faults=world.fleet.faults,
        augment=config.data.augment,
        evaluation_batch=config.run.evaluation_batch,
        initial=None if config.executor.kind == "none" else config.initial.read(),
        exchange=config.exchange,
        compression=config.server.compression,
        metrics=config.run.metrics,
        client_tests=_client_tests(world) if config.executor.kind != "none" else None,
        personalise=_personal_training(config, world),
    )


def _client_tests(world: World) -> ClientTests | None:
    """Return the clients' own test sets as a job has them."""
    from fedtempo.runtime.executors.job import ClientTests

    if world.client_tests is None:
        return None
    dataset, rows = world.dataset, np.concatenate(world.client_tests)
    x, y = (dataset.test_x, dataset.test_y) if world.tests_from_data else (dataset.train_x, dataset.train_y)
    own_x, own_y, ends = x[rows], y[rows], np.cumsum(list(map(len, world.client_tests)), dtype=np.int64)
    if world.drifting is not None:
        own_x, own_y, ends = world.drifting.client_tests(own_x, own_y, ends)
    return ClientTests(own_x, own_y, ends)


def _personal_training(config: Config, world: World) -> Training | None:
    """Return the training that tunes a model to a client before it is evaluated there; None without `personalise`."""
    if (settings := config.run.personalise) is None:
        return None
    training = training_of(config, world).without_schedule()
    lr = training.lr if settings.lr is None else settings.lr
    return replace(training, steps=settings.steps, lr=lr, proximal=0.0, statistics=frozenset())


def make_executor(config: Config, world: World) -> Executor:
    """Return the executor that the configuration names; without training and with a known size it needs no PyTorch."""
    settings = config.executor
    if config.data.source == NOTHING and config.model_bytes is None:
        raise ConfigError("model.size_bytes is missing: without data, give the bytes of a model")
    compressed = config.server.compression is not None
    if settings.kind == "none" and config.model_bytes is not None and not compressed:
        return NoTraining(config.model_bytes)
    job = make_job(config, world)
    if settings.kind == "none":
        model = job.model()
        return NoTraining(model.size_bytes, model.base_bytes, model.vector_bytes)
    if settings.reuse:
        from fedtempo.runs.reuse import reusing

        return reusing(config, world, job, partial(_training_executor, settings, job))
    return _training_executor(settings, job)


def _training_executor(settings: ExecutorSettings, job: Job) -> Executor:
    """Return an executor that trains."""
    if settings.device != "cpu":
        from fedtempo.runtime.executors.device import OnDevice

        return OnDevice(job, settings.device, settings.streams, settings.graphs)
    if settings.kind == "inline":
        from fedtempo.runtime.executors.inline import Inline

        return Inline(job)
    if settings.kind == "ray":
        from fedtempo.runtime.executors.on_ray import OnRay

        return OnRay(
            job,
            settings.workers,
            address=settings.address,
            num_cpus=settings.num_cpus,
            num_gpus=settings.num_gpus,
            resources=settings.resources,
        )
    from fedtempo.runtime.executors.processes import Processes

    return Processes(job, workers=settings.workers, start_method=settings.start_method)


def _facts(config: Config, world: World, training: Training, executor: Executor) -> Mapping[str, Any]:
    """Return the facts of a run that are known before it begins."""
    fleet, positions = world.fleet, world.fleet.links.positions
    powers = {"compute": fleet.compute_watts, "link": fleet.link_watts}
    watts = {part: values.tolist() for part, values in powers.items() if values is not None}
    return {
        **facts_of(
            config,
            world.dataset,
            training,
            n_clients=len(world.clients),
            n_train=sum(client.num_examples for client in world.clients),
            n_test=len(world.test),
            n_validation=None if world.validation is None else len(world.validation),
            sizes=TransferSizes.of(executor, config.model_bytes, config.server.compression),
            own_tests=_kinds_of_models(config, world, executor),
        ),
        "class_names": list(world.dataset.strata_names) or None,
        "client_names": [client.name for client in world.clients] if world.clients[0].name else None,
        "label_histograms": np.array(world.histograms) if world.holds_examples else None,
        "label_noise_epsilon": config.data.label_noise_epsilon,
        "positions": None if positions is None else positions.tolist(),
        "watts": watts or None,
    }
