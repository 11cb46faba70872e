"""From a configuration and a grid to a run on real clients, which leaves a folder like a simulation's."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import fedtempo
from fedtempo.config import Config
from fedtempo.data.dataset import Dataset
from fedtempo.errors import ConfigError, RunError
from fedtempo.federation import Client
from fedtempo.launch import Watch, chosen_test_examples, load_data, rare_collections
from fedtempo.learning.losses import label_prior
from fedtempo.learning.training import Training
from fedtempo.record import Recorder, RunFolder, write_json
from fedtempo.record.models import ModelFiles
from fedtempo.runtime.executors.job import Job
from fedtempo.runtime.keyed import keyed_generator
from fedtempo.runtime.live.calls import Call, Grid
from fedtempo.runtime.live.federation import LiveFederation
from fedtempo.runtime.live.lines import Lines
from fedtempo.runtime.live.loop import play
from fedtempo.runtime.live.members import Description, as_clients
from fedtempo.runtime.live.server import Server
from fedtempo.runtime.runner import simulate

_LOOK_S = 0.1
"""Seconds between two looks for clients that have come."""
_DESCRIBE_S = 60.0


@dataclass(frozen=True)
class Met:
    """A client that has come: where it is, and what it told."""

    node: int
    told: Description


def meet(
    grid: Grid,
    wanted: int,
    wait_s: float,
    *,
    at_least: int | None = None,
    names: Collection[str] = (),
    shape: tuple[int, ...] | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> list[Met]:
    """Wait until `wanted` clients have come, `at_least` when time is up; in the order of their names.

    names: the only ones that are wanted, where given. shape: of the examples that they must have. say: told of each
    client that comes, and of those that are not taken.
    Raises RunError where too few come.
    """
    met: dict[str, Met] = {}
    asked: dict[str, int] = {}
    known: set[int] = set()
    strangers = 0
    until = time.monotonic() + wait_s
    while len(met) < wanted and time.monotonic() < until:
        for node in set(grid.node_ids()) - known:
            known.add(node)
            if (name := grid.push(Call(node, "describe", {}, ttl_s=_DESCRIBE_S))) is not None:
                asked[name] = node
        for name, reply in (grid.pull(list(asked)) if asked else {}).items():
            node = asked.pop(name)
            try:
                if reply.failure is not None:
                    raise ConfigError(f"node {node} does not say who it is: {reply.failure.reason}")
                told = Description.read(reply.content)
                if shape is not None and told.input_shape != shape:
                    raise ConfigError(f"client {told.name} has examples of shape {told.input_shape}, not {shape}")
                if names and told.name not in names:
                    raise ConfigError(f"client {told.name} is none of deploy.names")
                if told.name in met:
                    raise ConfigError(f"client {told.name} is there twice; the first is taken")
            except ConfigError as error:
                strangers += 1
                say(str(error))
            else:
                met[told.name] = Met(node, told)
                say(f"client {told.name}: {told.num_examples} examples ({len(met)} of {wanted})")
        time.sleep(_LOOK_S)
    if len(met) < (wanted if at_least is None else at_least):
        others = f" ({strangers} others were no clients of this run)" if strangers else ""
        raise RunError(
            f"{len(met)} of {wanted} clients came within {wait_s:g} s{others}: start them, or set data.clients, "
            "deploy.wait_s or deploy.min_clients"
        )
    order = as_clients(each.told for each in met.values())
    return [met[client.name] for client in order]


def deploy_to_folder(
    config: Config,
    path: Path,
    grid: Grid,
    *,
    watch: Watch | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """One run on the clients of `grid`, in its own new folder; returns its summary."""
    folder = RunFolder.create(path, config.run.seed)
    try:
        with folder:
            folder.config.write_text(config.dump(), encoding="utf-8")
            with rare_collections(config.data.clients):
                summary = _deploy(config, folder, grid, watch or (lambda *_: None), say)
            write_json(folder.summary, summary)
    except ConfigError:
        shutil.rmtree(folder.path)  # nothing happened: nothing half-made stays
        raise
    return summary


def _deploy(config: Config, folder: RunFolder, grid: Grid, watch: Watch, say: Callable[[str], None]) -> dict[str, Any]:
    settings, seed = config.deploy, config.run.seed
    dataset = load_data(config)
    test = chosen_test_examples(config, dataset)
    met = meet(
        grid,
        config.data.clients,
        settings.wait_s,
        at_least=settings.min_clients,
        names=settings.names,
        shape=dataset.test_x.shape[1:],
        say=say,
    )
    clients = as_clients(each.told for each in met)
    fleet = config.fleet.build(len(clients), lambda purpose, *keys: keyed_generator(seed, purpose, *keys))
    training = _training(config, clients)
    job = Job(
        network=config.network,
        n_classes=dataset.n_classes,
        x=dataset.test_x[test],
        y=dataset.test_y[test],
        clients=(),
        test_x=dataset.test_x[test],
        test_y=dataset.test_y[test],
        seed=seed,
    )
    recorder = Recorder(folder.path, rows=config.run.record == "all")
    began = time.perf_counter()
    try:
        with Server(job) as server:
            for name, value in _facts(config, dataset, len(test), clients, training, server).items():
                recorder.fact(name, value)

            def make(**run: Any) -> LiveFederation:
                return LiveFederation(
                    clients=clients,
                    nodes=[each.node for each in met],
                    lines=partial(Lines, grid, refresh_s=settings.refresh_s),
                    fleet=fleet,
                    server=server,
                    network={name: value for name, value in config.tables["model"].items() if name != "size_bytes"},
                    n_classes=dataset.n_classes,
                    training=training,
                    settings=settings,
                    rules=config.server,
                    recorder=recorder,
                    seed=seed,
                    **run,
                )

            outcome = simulate(config.strategy, config.run, server, make, recorder, watch=watch, play=play, wait=False)
        assert outcome.model is not None
        models = ModelFiles(folder.models)
        sha256 = models.add(outcome.model)
        models.sync()
        recorder.fact("ended", outcome.ended)
        recorder.fact("elapsed_s", outcome.end_s)
        recorder.fact("model_sha256", sha256)
        recorder.fact("wall_s", time.perf_counter() - began)
        recorder.fact("events_sha256", recorder.events_sha256)
        return recorder.summary()
    finally:
        recorder.close()


def _training(config: Config, clients: tuple[Client, ...]) -> Training:
    """Local training as configured; a class's prior is its share of what clients tell where none is given."""
    training = config.training
    if training.prior or training.loss != "logit-adjusted":
        return training
    histograms = [client.label_histogram for client in clients if client.label_histogram is not None]
    if len(histograms) < len(clients):
        raise ConfigError(
            "training.loss = 'logit-adjusted': the classes' shares are unknown, since not all clients tell theirs "
            "(tell_labels in a client's TOML); or give training.prior"
        )
    return replace(training, prior=label_prior(np.sum(histograms, axis=0).tolist(), config.data.label_pseudo_count))


def _facts(
    config: Config, dataset: Dataset, n_test: int, clients: tuple[Client, ...], training: Training, server: Server
) -> dict[str, Any]:
    """What holds for the whole run, known before it begins."""
    told = [client.label_histogram for client in clients]
    return {
        "strategy": config.strategy_name,
        "label": config.label,
        "seed": config.run.seed,
        "n_clients": len(clients),
        "client_names": [client.name for client in clients],
        "horizon_s": config.run.horizon,
        "target_accuracy": config.run.target_accuracy,
        "data": {
            "source": dataset.name,
            "train": sum(client.num_examples for client in clients),
            "test": n_test,
            "sha256": dataset.sha256,
        },
        "version": fedtempo.__version__,
        "size_bytes": server.size_bytes,
        "label_histograms": None if None in told else told,
        "label_prior": training.prior or None,
        "deployment": True,
    }
