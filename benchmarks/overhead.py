"""What a run costs beyond its training.

A run of FedAvg with LeNet on digits, against the bare loop that trains the same visits on the same executor and
averages the same models; both take turns, medians are compared. Evaluations are left out of both.
"""

from __future__ import annotations

from benchmarks.figures import Figure, figure, interleaved, ratios
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


def a_run(config: Config, world: World) -> None:
    """The run, with an executor of its own."""
    summary, _, _ = run(config, world=world)
    assert summary["visits"] == ROUNDS * CLIENTS


def bare_loop(config: Config, world: World) -> None:
    """The same visits without clock, strategy and records."""
    with make_executor(config, world) as executor:
        model = executor.initial()
        for visit in range(ROUNDS):
            asked = [executor.train(model, client, visit + 1, config.training) for client in range(CLIENTS)]
            trained = [pending.result().location for pending in asked]
            model = executor.apply(average, [], {"models": trained, "weights": [1.0] * CLIENTS})


def figures(repetitions: int = 5) -> list[Figure]:
    """run_vs_executor: a run's seconds over the bare loop's."""
    config = configuration(1)
    world = build_world(config)
    seconds = interleaved({"run": lambda: a_run(config, world), "loop": lambda: bare_loop(config, world)}, repetitions)
    return [figure("run_vs_executor", ratios(seconds["run"], seconds["loop"]), "x", 1.15, lower=True)]
