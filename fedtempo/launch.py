"""From a configuration to a run: data, clients, fleet and executor are built, and the run happens."""

from __future__ import annotations

import contextlib
import gc
import logging
import math
import os
import time
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import tomli_w

import fedtempo
from fedtempo.config import Config
from fedtempo.data.dataset import Dataset
from fedtempo.data.dealing import histogram
from fedtempo.data.partitions import PARTITIONS, ByOwner, Iid, Partition
from fedtempo.data.sources import load
from fedtempo.errors import ConfigError
from fedtempo.federation import Client
from fedtempo.fleet.fleet import Fleet
from fedtempo.importing import imported
from fedtempo.learning.losses import balanced_weights, label_prior
from fedtempo.learning.training import LOSSES, Training
from fedtempo.record import Recorder, Records, RunFolder
from fedtempo.record.journal import Journal
from fedtempo.record.models import ModelFiles, model_sha256
from fedtempo.record.recorder import Observer
from fedtempo.runtime.evaluations import Evaluations
from fedtempo.runtime.executors import Executor
from fedtempo.runtime.executors.device import OnDevice
from fedtempo.runtime.executors.inline import Inline
from fedtempo.runtime.executors.job import Job
from fedtempo.runtime.executors.journalled import Journalled
from fedtempo.runtime.executors.none import NoTraining
from fedtempo.runtime.executors.on_ray import OnRay
from fedtempo.runtime.executors.processes import Processes
from fedtempo.runtime.executors.workers import Workers
from fedtempo.runtime.keyed import keyed_generator
from fedtempo.runtime.raw_examples import RawExamples
from fedtempo.runtime.runner import Driven, simulate
from fedtempo.runtime.simulation import Simulation
from fedtempo.runtime.verify import Verified

log = logging.getLogger("fedtempo")

Watch = Callable[[Driven, Evaluations], None]


@dataclass(frozen=True, eq=False)
class World:
    """What all strategies of a comparison share under one seed: data, who holds them, and the fleet.

    histograms: examples of each class that each client holds. told: what it tells of them; None where it tells nothing.
    """

    dataset: Dataset
    owned: list[npt.NDArray[np.int64]]
    test: npt.NDArray[np.int64]
    clients: tuple[Client, ...]
    histograms: list[list[int]]
    told: npt.NDArray[np.float64] | None
    fleet: Fleet


@lru_cache(maxsize=4)
def _loaded(source: str, options: str, transform: str | None) -> Dataset:
    """options: as TOML, which can be remembered where tables and lists cannot."""
    try:
        found = load(source, **tomllib.loads(options))
    except ConfigError as error:
        prefix = "" if str(error).startswith("data.source") else f"data.source = {source!r}: "
        raise ConfigError(f"{prefix}{error}") from error
    if found.about:
        log.info("%s: %s", found.name, found.about)
    if transform is None:
        return found
    where = f"data.transform = {transform!r}"
    return found.transformed(imported(transform, "data.transform"), where)


def load_data(config: Config) -> Dataset:
    """The data set that a configuration names. Raises ConfigError where it is not there."""
    return _loaded(config.data.source, tomli_w.dumps(config.data.options), config.data.transform)


def dealt_by(config: Config, dataset: Dataset) -> tuple[Partition, int]:
    """How examples are dealt, and to how many clients, where the configuration leaves it to the data.

    Where the data name clients each of them is one. Raises ConfigError for a partition by classes of data without.
    """
    owners, partition, clients = dataset.train_owners, config.partition, config.data.clients
    if partition is None:
        partition = Iid() if owners is None else ByOwner()
    if clients is None and isinstance(partition, ByOwner) and owners is not None:
        clients = int((np.unique(owners, return_counts=True)[1] >= partition.min_examples).sum())
    if dataset.task == "tokens" and isinstance(partition, tuple(PARTITIONS.values())) and not _by_place(partition):
        raise ConfigError(f"data.partition: {dataset.name} has no classes to deal by; it can be 'iid' or 'by-owner'")
    return partition, clients or config.n_clients


def _by_place(partition: Partition) -> bool:
    return isinstance(partition, Iid | ByOwner)


def build_world(config: Config) -> World:
    """Data, partition, clients and fleet of a configuration; nothing of it depends on the strategy."""
    seed, data = config.run.seed, config.data
    dataset = load_data(config)
    partition, n_clients = dealt_by(config, dataset)
    labels, n_labels = dataset.strata
    try:
        owned = partition.assign(
            labels,
            n_labels,
            n_clients,
            data.examples_per_client,
            keyed_generator(seed, "partition"),
            dataset.train_owners,
        )
    except ConfigError as error:
        raise ConfigError(f"data: {dataset.name}: {error}") from error
    _check_dealt(owned, n_clients, len(labels))
    empty = [i for i, own in enumerate(owned) if not len(own)]
    if empty:
        raise ConfigError(
            f"data.partition: client {empty[0]} gets no example ({len(empty)} clients do not): "
            "use fewer clients or another partition"
        )
    histograms = [histogram(labels, own, n_labels).tolist() for own in owned]
    told = np.array([_told(config, i, own) for i, own in enumerate(histograms)]) if data.tell_labels else None
    consent = keyed_generator(seed, "consent").permutation(n_clients) < round(data.share_examples * n_clients)
    clients = tuple(
        Client(
            id=i,
            num_examples=len(own),
            label_histogram=None if told is None else tuple(np.maximum(np.rint(told[i]), 0).astype(int).tolist()),
            shares_examples=bool(consent[i]),
            name=_name(dataset, partition, own),
        )
        for i, own in enumerate(owned)
    )
    fleet = config.fleet.build(n_clients, lambda purpose, *keys: keyed_generator(seed, purpose, *keys))
    return World(dataset, owned, chosen_test_examples(config, dataset), clients, histograms, told, fleet)


def _check_dealt(owned: list[npt.NDArray[np.int64]], n_clients: int, n_examples: int) -> None:
    """Raises ConfigError for what a user's own partition must not give: the strategies and the executors rely on it."""
    if len(owned) != n_clients:
        raise ConfigError(f"data.partition: it gave examples to {len(owned)} clients, not to {n_clients}")
    for client, own in enumerate(owned):
        if own.dtype != np.int64 or own.ndim != 1 or (len(own) and not 0 <= own.min() <= own.max() < n_examples):
            raise ConfigError(
                f"data.partition: client {client} gets {own.dtype} of shape {own.shape}; it must be rows, int64, "
                f"0 to {n_examples - 1}"
            )


def _name(dataset: Dataset, partition: Partition, own: npt.NDArray[np.int64]) -> str:
    """What the data call the client that holds these examples; nothing where they do not."""
    if dataset.train_owners is None or not dataset.owner_names or not isinstance(partition, ByOwner) or not len(own):
        return ""
    name: str = dataset.owner_names[dataset.train_owners[own[0]]]
    return name


def _told(config: Config, client: int, histogram: list[int]) -> npt.NDArray[np.float64]:
    """The counts of examples of each class that a client tells: its own, under noise where the configuration asks."""
    counts, epsilon = np.array(histogram, dtype=np.float64), config.data.label_noise_epsilon
    if epsilon is None:
        return counts
    return counts + keyed_generator(config.run.seed, "label noise", client).laplace(scale=1 / epsilon, size=len(counts))


def training_of(config: Config, world: World) -> Training:
    """Local training as configured; a class's prior is its share of what clients tell where none is given.

    Raises ConfigError for a loss that needs the prior where clients tell nothing.
    """
    training, dataset = config.training, world.dataset
    check_loss(training, dataset)
    if dataset.task != "classes":
        return training
    if training.class_weights == "balanced":
        if world.told is None:
            raise ConfigError(
                "training.class_weights = 'balanced': the classes' shares are unknown; set data.tell_labels = true if "
                "clients tell theirs, or give the weights"
            )
        counts = np.maximum(world.told.sum(axis=0), 0).tolist()
        weights = balanced_weights(label_prior(counts, config.data.label_pseudo_count))
        training = replace(training, class_weights=weights)
    if training.prior:
        return training
    if world.told is not None:
        counts = np.maximum(world.told.sum(axis=0), 0).tolist()
        return replace(training, prior=label_prior(counts, config.data.label_pseudo_count))
    if training.loss == "logit-adjusted":
        raise ConfigError(
            "training.loss = 'logit-adjusted': the classes' shares are unknown; set data.tell_labels = true if clients "
            "tell theirs, or give training.prior"
        )
    return training


def check_loss(training: Training, dataset: Dataset) -> None:
    """Raises ConfigError where the configured loss or weights do not go with what the data ask for."""
    loss, numbers = training.loss, dataset.task == "numbers"
    if loss in LOSSES and (loss in ("squared", "absolute")) != numbers:
        asked = "numbers: squared or absolute" if numbers else f"{dataset.task}: cross-entropy"
        raise ConfigError(f"training.loss = {loss!r}: {dataset.name} asks for {asked}, or leave it out")
    if loss == "logit-adjusted" and dataset.task != "classes":
        raise ConfigError(f"training.loss = 'logit-adjusted': {dataset.name} asks for {dataset.task}, not for classes")
    weights = training.class_weights
    if weights and dataset.task != "classes":
        raise ConfigError(f"training.class_weights: {dataset.name} asks for {dataset.task}, not for classes")
    if weights and weights != "balanced" and len(weights) != dataset.n_classes:
        raise ConfigError(
            f"training.class_weights has {len(weights)} weights; {dataset.name} has {dataset.n_classes} classes"
        )


def chosen_test_examples(config: Config, dataset: Dataset) -> npt.NDArray[np.int64]:
    """Which test examples evaluations use: all, or so many drawn without replacement, in ascending order."""
    available, wanted = len(dataset.test_y), config.data.test_examples
    if wanted is None:
        return np.arange(available)
    if wanted > available:
        raise ConfigError(f"data.test_examples = {wanted}: {dataset.name} has {available}")
    return np.sort(keyed_generator(config.run.seed, "test").choice(available, wanted, replace=False))


@contextlib.contextmanager
def rare_collections(n_clients: int) -> Iterator[None]:
    """Look for cyclic garbage less often: a run makes many objects and hardly a cycle (a quarter of a visit's cost).

    A visit that is under way is some ten objects, and all clients may be visited at once, again and again.
    """
    thresholds = gc.get_threshold()
    gc.set_threshold(max(50_000, 100 * n_clients), 20, 20)
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)


def run(
    config: Config, *, world: World | None = None, watch: Watch | None = None
) -> tuple[dict[str, Any], Records, npt.NDArray[np.float32] | None]:
    """One run in memory: its summary, its records and the final model as a flat vector (None without training)."""
    world = build_world(config) if world is None else world
    with contextlib.closing(_recorder(config, None, world)) as recorder:
        model = _run(config, recorder, world, watch)
        return recorder.summary(), recorder.records(), model


def run_in_folder(
    config: Config,
    folder: Path,
    *,
    world: World,
    watch: Watch | None = None,
    journal: Journal | None = None,
    observers: Iterable[Observer] = (),
) -> tuple[dict[str, Any], npt.NDArray[np.float32] | None]:
    """One run recorded in a folder: its summary and the final model, see `run`.

    journal: what was done of it before; the run goes on from there, and adds to it.
    """
    with contextlib.closing(_recorder(config, folder, world, observers)) as recorder:
        model = _run(config, recorder, world, watch, folder, journal)
        return recorder.summary(), model


def _run(
    config: Config,
    recorder: Recorder,
    world: World,
    watch: Watch | None,
    folder: Path | None = None,
    journal: Journal | None = None,
) -> npt.NDArray[np.float32] | None:
    """One run, recorded; returns the final model."""
    training = training_of(config, world)
    began, before_s = time.perf_counter(), journal.wall_s if journal else 0.0

    def wall_s() -> float:
        return before_s + time.perf_counter() - began

    with (
        rare_collections(len(world.clients)),
        make_executor(config, world) as inner,
        contextlib.ExitStack() as at_the_end,
    ):
        executor, journalled = inner, None
        if folder is not None and journal is not None and executor.trains and config.run.checkpoint_every:
            models = ModelFiles(RunFolder(folder).models)
            executor = journalled = Journalled(
                inner, journal, models, every_s=config.run.checkpoint_every, wall_s=wall_s
            )
            at_the_end.callback(journalled.settle)
        for name, value in _facts(config, world, training, executor).items():
            recorder.fact(name, value)
        recorder.fact("resumed", journal.resumed if journal else 0)
        recorder.flush()  # who watches the run sees what it is before its first visit has ended
        if config.data.tell_labels:
            recorder.told(histograms=len(world.clients) * world.dataset.strata[1])
        made: list[Simulation] = []

        def make(**settings: Any) -> Simulation:
            sim = Simulation(
                clients=world.clients,
                fleet=world.fleet,
                executor=executor,
                training=training,
                recorder=recorder,
                seed=config.run.seed,
                server=config.server,
                size_bytes=config.model_bytes,
                examples=RawExamples(
                    labels=[world.dataset.strata[0][own] for own in world.owned],
                    rows=world.owned,
                    example_bytes=math.prod(world.dataset.train_x.shape[1:]),
                ),
                **settings,
            )
            made.append(sim)
            return sim

        outcome = simulate(
            config.strategy,
            config.run,
            executor,
            make,
            recorder,
            watch=watch or (lambda *_: None),
            journal=journalled,
        )
        if isinstance(inner, Workers | OnDevice):
            recorder.fact("executor", inner.facts())
    if isinstance(recorder, Verified) and outcome.ended != "interrupted":
        recorder.complete(len(made[0].in_progress()))
    recorder.fact("ended", outcome.ended)
    recorder.fact("elapsed_s", outcome.end_s)
    recorder.fact("model_sha256", None if outcome.model is None else model_sha256(outcome.model))
    recorder.fact("wall_s", wall_s())
    recorder.fact("events_sha256", recorder.events_sha256)
    return outcome.model


def _recorder(config: Config, folder: Path | None, world: World, observers: Iterable[Observer] = ()) -> Recorder:
    rows = config.run.record == "all"
    if not config.run.verify:
        return Recorder(folder, rows=rows, observers=observers)
    n_clients, horizon_s = len(world.clients), config.run.horizon
    return Verified(folder, n_clients=n_clients, horizon_s=horizon_s, rows=rows, observers=observers)


def make_executor(config: Config, world: World) -> Executor:
    """The executor that the configuration names."""
    settings, dataset = config.executor, world.dataset
    if settings.kind == "none" and config.model_bytes is not None:
        return NoTraining(config.model_bytes)
    job = Job(
        network=config.network,
        n_classes=dataset.n_classes,
        x=dataset.train_x,
        y=dataset.train_y,
        clients=world.owned,
        test_x=dataset.test_x[world.test],
        test_y=dataset.test_y[world.test],
        seed=config.run.seed,
        faults=config.fleet.faults,
    )
    if settings.kind == "none":
        return NoTraining(4 * job.model().n_parameters)
    if settings.device != "cpu":
        return OnDevice(job, settings.device, settings.streams, settings.graphs)
    if settings.kind == "inline":
        return Inline(job)
    if settings.kind == "ray":
        return OnRay(
            job,
            settings.workers,
            address=settings.address,
            num_cpus=settings.num_cpus,
            num_gpus=settings.num_gpus,
            resources=settings.resources,
        )
    return Processes(job, workers=settings.workers or os.cpu_count() or 1, start_method=settings.start_method)


def _facts(config: Config, world: World, training: Training, executor: Executor) -> Mapping[str, Any]:
    """What holds for the whole run, known before it begins."""
    fleet, positions = world.fleet, world.fleet.links.positions
    powers = {"compute": fleet.compute_watts, "link": fleet.link_watts}
    watts = {part: values.tolist() for part, values in powers.items() if values is not None}
    return {
        "strategy": config.strategy_name,
        "label": config.label,
        "seed": config.run.seed,
        "n_clients": len(world.clients),
        "horizon_s": config.run.horizon,
        "target_accuracy": config.run.target_accuracy,
        "data": {
            "source": world.dataset.name,
            "train": sum(map(len, world.owned)),
            "test": len(world.test),
            "sha256": world.dataset.sha256,
            "task": world.dataset.task,
            "about": world.dataset.about,
        },
        "class_names": list(world.dataset.strata_names) or None,
        "client_names": [client.name for client in world.clients] if world.clients[0].name else None,
        "version": fedtempo.__version__,
        "size_bytes": executor.size_bytes if config.model_bytes is None else config.model_bytes,
        "label_histograms": np.array(world.histograms),
        "label_noise_epsilon": config.data.label_noise_epsilon,
        "label_prior": training.prior or None,
        "positions": None if positions is None else positions.tolist(),
        "watts": watts or None,
    }
