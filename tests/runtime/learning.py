"""Small federations with training in this process, on given examples, for tests of what is computed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from fedtempo.federation import Client
from fedtempo.fleet.fleet import FleetPlan
from fedtempo.learning.exchange import EVERYTHING, Exchange
from fedtempo.learning.kept import Kept
from fedtempo.learning.networks import Network
from fedtempo.learning.training import Training
from fedtempo.record import Records
from fedtempo.runtime.executors.inline import Inline
from fedtempo.runtime.executors.job import Job
from fedtempo.runtime.keyed import keyed_generator
from fedtempo.runtime.run_settings import RunSettings
from fedtempo.runtime.runner import simulate
from fedtempo.runtime.server import ServerSettings
from fedtempo.runtime.simulation import Simulation
from fedtempo.runtime.transfers import TransferSizes
from fedtempo.runtime.verify import Verified
from tests.runtime.world import Script

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass
class Built:
    """A network that returns the module given; for tests in this process only."""

    make: Any

    def build(self, input_shape: Sequence[int], n_classes: int) -> torch.nn.Module:
        module: torch.nn.Module = self.make()
        return module


@dataclass
class Learned:
    """The end of a run. final: the whole vector. kept: what each client keeps."""

    initial: Array
    final: Array
    kept: list[Kept]
    records: Records


def learn(
    strategy: Any,
    network: Network,
    data: Sequence[tuple[Array, Array]],
    *,
    n_outputs: int,
    training: Training,
    commits: int,
    test: tuple[Array, Array] | None = None,
    exchange: Exchange = EVERYTHING,
    server: dict[str, Any] | None = None,
    link: Any = "none",
    compute: Any = 1.0,
    availability: Any = "always",
    evaluate_clients: int = 0,
) -> Learned:
    """Run a strategy, or a function of `fed`, on clients with these examples (x, y)."""
    ends = np.cumsum([len(y) for _, y in data])
    rows = np.split(np.arange(ends[-1]), ends[:-1])
    x, y = (np.concatenate([each[part] for each in data]) for part in (0, 1))
    test_x, test_y = test or (x, y)
    rules = ServerSettings(**(server or {}))
    job = Job(network, n_outputs, x, y, rows, test_x, test_y, seed=1, exchange=exchange, compression=rules.compression)
    speed = {"unit": "s/visit", "speed": compute}
    plan = FleetPlan(compute=speed, link=link, availability=availability, estimates="exact")
    fleet = plan.build(len(data), lambda purpose, *keys: keyed_generator(1, purpose, *keys))
    recorder = Verified(None, n_clients=len(data), horizon_s=None)
    made: list[Simulation] = []

    def make(**settings: Any) -> Simulation:
        simulation = Simulation(
            clients=[Client(i, len(labels)) for i, (_, labels) in enumerate(data)],
            fleet=fleet,
            executor=executor,
            training=training,
            recorder=recorder,
            seed=1,
            server=rules,
            evaluate_clients=evaluate_clients,
            **settings,
        )
        made.append(simulation)
        return simulation

    with Inline(job) as executor:
        settings = RunSettings(seed=1, max_commits=commits, evaluate="commit")
        recorder.fact("size_bytes", executor.size_bytes)
        recorder.fact("upload_bytes", TransferSizes.of(executor, compression=rules.compression).up)
        strategy = strategy if hasattr(strategy, "run") else Script(strategy)
        outcome = simulate(strategy, settings, executor, make, recorder)
        assert outcome.model is not None
        kept = [
            Kept.decoded(None if state.kept is None else executor.state(state.kept), executor.sections.local)
            for state in made[0]._states
        ]
        initial = executor.vector(executor.initial()).copy()
    recorder.fact("n_clients", len(data))
    recorder.fact("elapsed_s", outcome.end_s)
    recorder.fact("events_sha256", recorder.events_sha256)
    try:
        return Learned(initial, outcome.model, kept, recorder.records())
    finally:
        recorder.close()
