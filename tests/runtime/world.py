"""Small federations without training, for tests of timing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedtempo.federation import Client, Federation
from fedtempo.fleet.fleet import FleetPlan
from fedtempo.learning.training import Training
from fedtempo.record import Records
from fedtempo.runtime.budget import Budget
from fedtempo.runtime.executors.none import NoTraining
from fedtempo.runtime.keyed import keyed_generator
from fedtempo.runtime.raw_examples import RawExamples
from fedtempo.runtime.run_settings import RunSettings
from fedtempo.runtime.runner import Outcome, simulate
from fedtempo.runtime.server import ServerSettings
from fedtempo.runtime.simulation import Simulation
from fedtempo.runtime.verify import Verified


@dataclass(frozen=True)
class Script:
    """A strategy made from a function."""

    function: Callable[[Federation], Awaitable[None]]

    async def run(self, fed: Federation) -> None:
        await self.function(fed)


def play(
    script: Callable[[Federation], Awaitable[None]] | Any,
    *,
    compute: Any = 1.0,
    link: Any = "none",
    clients: int = 4,
    availability: Any = "always",
    estimates: Any = "exact",
    size_bytes: int = 1_000_000,
    horizon: float | None = 1000.0,
    max_commits: int | None = None,
    budget: Budget | None = None,
    seed: int = 1,
    examples: int | list[int] = 10,
    consent: bool | list[bool] = False,
    server_s: float = 0.0,
    server: dict[str, Any] | None = None,
    faults: dict[str, Any] | None = None,
    labels: list[np.ndarray] | None = None,
    histograms: list[tuple[int, ...]] | None = None,
    training: Training | None = None,
) -> tuple[Outcome, Records]:
    """Run a strategy, or a function of `fed`, on a fleet without training; return how it ended, and its records.

    compute: seconds per visit, or a table for `fleet.compute`. examples, consent: for all clients, or one per client.
    """
    table = {"unit": "s/visit", "speed": compute} if not isinstance(compute, dict) else compute
    plan = FleetPlan(compute=table, link=link, estimates=estimates, availability=availability, faults=faults or {})
    fleet = plan.build(clients, lambda purpose, *keys: keyed_generator(seed, purpose, *keys))
    recorder = Verified(None, n_clients=clients, horizon_s=horizon)
    recorder.fact("size_bytes", size_bytes)

    def of_each(value: Any) -> list[Any]:
        return value if isinstance(value, list) else [value] * clients

    rows = np.split(np.arange(sum(map(len, labels or []))), np.cumsum(list(map(len, labels or [])))[:-1])
    everyone = [
        Client(i, size, histograms[i] if histograms is not None else None, shares_examples=agrees)
        for i, (size, agrees) in enumerate(zip(of_each(examples), of_each(consent), strict=True))
    ]

    def make(**settings: Any) -> Simulation:
        return Simulation(
            clients=everyone,
            fleet=fleet,
            executor=executor,
            training=training or Training(),
            recorder=recorder,
            seed=seed,
            server=ServerSettings(seconds=server_s, **(server or {})),
            examples=None if labels is None else RawExamples(labels, rows, example_bytes=100),
            **settings,
        )

    with NoTraining(size_bytes) as executor:
        strategy = script if hasattr(script, "run") else Script(script)
        settings = RunSettings(seed=seed, horizon=horizon, max_commits=max_commits, budget=budget)
        outcome = simulate(strategy, settings, executor, make, recorder)
    recorder.fact("n_clients", clients)
    recorder.fact("elapsed_s", outcome.end_s)
    recorder.fact("events_sha256", recorder.events_sha256)
    try:
        return outcome, recorder.records()
    finally:
        recorder.close()
