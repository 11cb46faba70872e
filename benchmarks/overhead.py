"""What a run costs beyond its training.

A whole run in a folder as `fedtempo run` makes it, with everything recorded, checkpoints, and an evaluation every ten
seconds of the run's clock, against the bare executor that trains the same visits and averages the same models, without
evaluations. FedAvg over 50 clients, LeNet, 100 images of 28x28 a client, 500 to evaluate on. They take turns.

`python -m benchmarks.overhead` says where the processor time of a run's own process goes; training and evaluations are
the worker's.
"""

from __future__ import annotations

import cProfile
import pstats
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.figures import Figure, figure, interleaved, ratios
from fedtempo.learning.aggregation import average
from fedtempo.runs.config import Config, parse
from fedtempo.runs.launch import make_executor
from fedtempo.runs.run import Run
from fedtempo.runs.world import World, build_world

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
            summary = Run(config, world=world, page=False).begin(Path(folder) / "run")
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
                model = executor.apply(lambda *models: average(models, [1.0] * CLIENTS), trained)

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


Function = tuple[str, int, str]
"""File, line, name."""

PARTS = {
    "fedtempo/learning/aggregation.py": "averaging models",
    "fedtempo/runtime/executors/journalled.py": "journal",
    "fedtempo/record/journal.py": "journal",
    "fedtempo/record/models.py": "models of checkpoints",
    "fedtempo/record/": "records",
    "fedtempo/runtime/executors/": "worker processes: start, messages, memory, end",
    "fedtempo/runtime/": "clock, visits, strategy",
    "fedtempo/strategies/": "clock, visits, strategy",
    "fedtempo/scheduling/": "clock, visits, strategy",
}
"""By the first that fits a file; what is in none of them counts for whoever calls it."""


def profile(rounds: int = 24) -> None:
    """Print each part's share of a run's wall time, as processor time of the process that runs it."""
    config = configuration(rounds, 1)
    turn = whole_run(config, build_world(config), rounds)
    turn()
    profiler = cProfile.Profile(time.process_time)
    began = time.perf_counter(), time.process_time()
    profiler.runcall(turn)
    wall_s, processor_s = time.perf_counter() - began[0], time.process_time() - began[1]
    shares: Counter[str] = Counter()
    stats = pstats.Stats(profiler).stats  # type: ignore[attr-defined]
    for function, (_, _, own_s, _, _) in stats.items():
        shares[owner(function, stats)] += own_s
    visits = rounds * CLIENTS
    print(f"{visits} visits in {wall_s:.1f} s; the run's own process took {processor_s:.2f} s, while traced, of that:")
    for part, seconds in shares.most_common():
        print(f"{seconds / wall_s:6.2%}  {1e6 * seconds / visits:5.0f} us a visit  {part}")


def owner(function: Function, stats: Mapping[Function, Any]) -> str:
    """The part that a function is of, or else the one that it works for most of its time."""
    seen = set()
    while function not in seen:
        seen.add(function)
        for place, part in PARTS.items():
            if place in function[0]:
                return part
        callers = stats[function][4]
        function = max(callers, key=lambda caller: callers[caller][3], default=function)
    return "start, end, and what has no part"


if __name__ == "__main__":
    profile()
