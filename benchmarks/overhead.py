"""What a run costs beyond its training.

A whole run in a folder as `fedtempo run` makes it, with everything recorded, checkpoints, and an evaluation every ten
seconds of the run's clock, against the bare executor that trains the same visits and averages the same models, without
evaluations. FedAvg over 50 clients, LeNet, 100 images of 28x28 a client, 500 to evaluate on. They take turns.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

from benchmarks.figures import Figure, figure, interleaved, ratios
from fedtempo.config import Config, parse
from fedtempo.folders import run_to_folder
from fedtempo.launch import World, build_world, make_executor
from fedtempo.learning.aggregation import average

CLIENTS = 50


def configuration(rounds: int, workers: int) -> Config:
    """Rounds of about ten seconds."""
    return parse(
        {
            "run": {"max_commits": rounds, "evaluate_every": 10.0},
            "data": {
                "source": "benchmarks.memory:images",
                "options": {"train": 100 * CLIENTS, "test": 500},
                "clients": CLIENTS,
                "partition": {"kind": "iid"},
            },
            "model": {"network": "lenet"},
            "training": {"batch_size": 10, "lr": 0.01},
            "fleet": {
                "compute": {"unit": "s/visit", "kind": "uniform", "low": 1.0, "high": 10.0},
                "link": {"kind": "path-loss"},
                "estimates": "exact",
            },
            "strategy": {"name": "fedavg"},
            "executor": {"kind": "processes", "workers": workers},
        }
    )


def whole_run(config: Config, world: World, rounds: int) -> Callable[[], None]:
    def turn() -> None:
        with tempfile.TemporaryDirectory() as folder:
            summary = run_to_folder(config, Path(folder) / "run", world=world)
        assert summary["visits"] == rounds * CLIENTS

    return turn


def bare_executor(config: Config, world: World, rounds: int) -> Callable[[], None]:
    """The same visits without clock, strategy, evaluations and records."""

    def turn() -> None:
        with make_executor(config, world) as executor:
            model = executor.initial()
            for visit in range(rounds):
                asked = [executor.train(model, client, visit + 1, config.training) for client in range(CLIENTS)]
                trained = [pending.result().location for pending in asked]
                model = executor.apply(average, [], {"models": trained, "weights": [1.0] * CLIENTS})

    return turn


def ratio(name: str, rounds: int, repetitions: int, workers: int, *, warm_up: bool = True) -> Figure:
    """Seconds of the run over those of the executor."""
    config = configuration(rounds, workers)
    world = build_world(config)
    ways = {"run": whole_run(config, world, rounds), "bare": bare_executor(config, world, rounds)}
    seconds = interleaved(ways, repetitions, warm_up=warm_up)
    return figure(name, ratios(seconds["run"], seconds["bare"]), "x", 1.10, lower=True)


def figures(repetitions: int = 5, rounds: int = 12) -> list[Figure]:
    """run_vs_executor: 600 visits a turn, on one process."""
    return [ratio("run_vs_executor", rounds, repetitions, 1)]


def long_figures(rounds: int = 100) -> list[Figure]:
    """run_vs_executor_5000: one pair of 5,000 visits each, on two processes."""
    return [ratio("run_vs_executor_5000", rounds, 1, 2, warm_up=False)]
