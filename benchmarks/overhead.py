"""What a run costs beyond its training, and what a second process brings.

A run of FedAvg with LeNet on digits, against the bare loop that trains the same visits on the same executor and
averages the same models; both take turns, medians are compared. Evaluations are left out of both.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

from fedtempo.config import Config, parse
from fedtempo.launch import World, build_world, make_executor, run
from fedtempo.learning.aggregation import average

ROUNDS, CLIENTS = 15, 40


def configuration(workers: int) -> Config:
    """Rounds of one second; LeNet on 8x8 images, 30 examples a client."""
    return parse(
        {
            "run": {"horizon": float(ROUNDS), "evaluate_every": 1e6},
            "data": {"clients": CLIENTS, "examples_per_client": 30, "test_examples": 10},
            "model": {"network": "lenet", "padding": "same"},
            "training": {"batch_size": 10, "lr": 0.05},
            "fleet": {"compute": {"unit": "s/visit", "speed": 1.0}, "link": "none", "estimates": "exact"},
            "strategy": {"name": "fedavg"},
            "executor": {"kind": "processes", "workers": workers},
        }
    )


def a_run(config: Config, world: World) -> float:
    """Seconds of the run itself, its executor started before."""
    began = time.perf_counter()
    summary, _, _ = run(config, world=world)
    assert summary["visits"] == ROUNDS * CLIENTS
    return time.perf_counter() - began


def bare_loop(config: Config, world: World) -> float:
    """Seconds of the same visits without clock, strategy and records."""
    began = time.perf_counter()
    with make_executor(config, world) as executor:
        model = executor.initial()
        for visit in range(ROUNDS):
            asked = [executor.train(model, client, visit + 1, config.training) for client in range(CLIENTS)]
            trained = [pending.result().location for pending in asked]
            model = executor.apply(average, [], {"models": trained, "weights": [1.0] * CLIENTS})
    return time.perf_counter() - began


def medians(ways: list[Callable[[], float]], repetitions: int) -> list[float]:
    """Median seconds of each way; all take turns."""
    times: list[list[float]] = [[way() for way in ways] for _ in range(repetitions)]
    return [statistics.median(column) for column in zip(*times)]


def main(repetitions: int = 5) -> None:
    """Print the two ratios."""
    one, two = configuration(1), configuration(2)
    world = build_world(one)
    bare_loop(one, world)
    run_one, loop_one, run_two = medians(
        [lambda: a_run(one, world), lambda: bare_loop(one, world), lambda: a_run(two, world)], repetitions
    )
    visits = ROUNDS * CLIENTS
    print(f"one process: {visits / run_one:.1f} visits/s in a run, {visits / loop_one:.1f} in the bare loop")
    print(f"run over bare loop, one process: {run_one / loop_one:.3f} (gate: at most 1.15)")
    print(f"two processes over one: {run_one / run_two:.2f} times as fast (gate: at least 1.7)")


if __name__ == "__main__":
    main()
