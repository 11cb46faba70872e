"""How many visits a second the virtual clock carries where nothing is trained: whole runs, recorded to disk."""

from __future__ import annotations

import tempfile
import time
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.figures import Figure, figure
from benchmarks.peers.protocol import Peer, PeerError
from fedtempo.fleet.variation import Factors
from fedtempo.runs.config import Config, parse
from fedtempo.runs.run import Run
from fedtempo.runs.world import World, build_world
from fedtempo.runtime.keyed import ClientGenerators

VARIATION = 0.2
"""Relative standard deviation of computing from visit to visit."""

GATES = {"clock_vs_simpy": 1.3, "clock_vs_simpy_100000": 2.0}
"""Smallest ratio of our rate to SimPy's."""

Arrays = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def blank(examples: int) -> Arrays:
    """A data source whose examples are nothing but there."""
    classes = min(examples, 10)
    return (
        np.zeros((examples, 1, 1, 1), np.float32),
        np.arange(examples) % 10,
        np.zeros((classes, 1, 1, 1), np.float32),
        np.arange(classes),
    )


def configuration(
    clients: int, horizon: float | None = None, strategy: str = "fedavg", rounds: int | None = None
) -> Config:
    """Visits with a download, computing that varies, and an upload; no training. Ends at the horizon or by rounds."""
    return parse(
        {
            "run": {"horizon": horizon} if rounds is None else {"max_commits": rounds},
            "data": {
                "source": "benchmarks.clock:blank",
                "options": {"examples": clients},
                "clients": clients,
                "partition": {"kind": "iid"},
            },
            "model": {"size_bytes": 1_700_000},
            "fleet": {
                "compute": {"unit": "s/visit", "kind": "uniform", "low": 1.0, "high": 10.0, "variation": VARIATION},
                "link": {"kind": "path-loss"},
                "estimates": "exact",
            },
            "strategy": {"name": strategy},
            "executor": {"kind": "none"},
        }
    )


def one_rate(config: Config, world: World) -> tuple[float, str]:
    """Visits a second of a whole run, and the hash of its events: building the simulation, SQLite and the summary.

    A second is one of processor time: it is one process, which waits for nothing but its turn on a busy machine.
    """
    with tempfile.TemporaryDirectory() as folder:
        began = time.process_time()
        summary = Run(config, world=world, page=False).begin(Path(folder) / "run")
        return float(summary["visits"] / (time.process_time() - began)), summary["events_sha256"]


def visits_per_second(clients: int, horizon: float, repetitions: int, strategy: str = "fedavg") -> list[float]:
    config = configuration(clients, horizon, strategy)
    world = build_world(config)
    return [one_rate(config, world)[0] for _ in range(repetitions)]


def figures(repetitions: int = 5, scale: float = 1.0) -> list[Figure]:
    """clock_visits_per_s_50 and _100000 of FedAvg: 120,000 and some 400,000 visits, times `scale`."""
    return [
        figure("clock_visits_per_s_50", visits_per_second(50, 30_000 * scale, repetitions), "visits/s"),
        figure("clock_visits_per_s_100000", visits_per_second(100_000, 12 + 60 * scale, repetitions), "visits/s"),
    ]


def against_simpy(name: str, clients: int, rounds: int, repetitions: int) -> Figure:
    """Our rate over that of SimPy for as many rounds of the same fleet, in turns; both must leave the same events."""
    gate = GATES.get(name)
    config = configuration(clients, rounds=rounds)
    world = build_world(config)
    size_bytes = config.model_bytes
    assert size_bytes is not None
    fleet = world.fleet.describe([client.num_examples for client in world.clients], size_bytes)
    generators = ClientGenerators(config.run.seed, clients)
    drawn = Factors(world.fleet.speed.variation, clients, partial(generators, "compute"))
    request = {
        "means": [[row["download_s"], row["compute_s"], row["upload_s"]] for row in fleet],
        "factors": [[drawn.next(client) for _ in range(rounds)] for client in range(clients)],
    }
    try:
        with Peer("simpy") as simpy:
            rates = []
            for _ in range(repetitions):
                theirs = simpy.ask(request)
                rate, events = one_rate(config, world)
                if theirs["events_sha256"] != events:
                    return Figure(name, None, "x", gate, missing="the two programs' events differ")
                rates.append(rate / (theirs["visits"] / theirs["seconds"]))
    except PeerError as error:
        return Figure(name, None, "x", gate, missing=str(error))
    return figure(name, rates, "x", gate)


def simpy_figures(repetitions: int = 5, scale: float = 1.0) -> list[Figure]:
    """clock_vs_simpy with 50 clients, and with 100,000."""
    return [
        against_simpy("clock_vs_simpy", 50, round(2400 * scale), repetitions),
        against_simpy("clock_vs_simpy_100000", 100_000, 3, repetitions),
    ]
