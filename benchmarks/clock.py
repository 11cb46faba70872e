"""How many visits a second the virtual clock carries where nothing is trained: whole runs, recorded to disk."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.figures import Figure, figure
from fedtempo.config import Config, parse
from fedtempo.folders import run_to_folder
from fedtempo.launch import build_world

Arrays = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def blank(examples: int) -> Arrays:
    """A data source whose examples are nothing but there."""
    return (
        np.zeros((examples, 1, 1, 1), np.float32),
        np.arange(examples) % 10,
        np.zeros((10, 1, 1, 1), np.float32),
        np.arange(10),
    )


def configuration(clients: int, horizon: float, strategy: str = "fedavg") -> Config:
    """Visits with a download, computing that varies, and an upload; no training."""
    return parse(
        {
            "run": {"horizon": horizon},
            "data": {
                "source": "benchmarks.clock:blank",
                "options": {"examples": clients},
                "clients": clients,
                "partition": {"kind": "iid"},
            },
            "model": {"size_bytes": 1_700_000},
            "fleet": {
                "compute": {"unit": "s/visit", "kind": "uniform", "low": 1.0, "high": 10.0, "variation": 0.2},
                "link": {"kind": "path-loss"},
                "estimates": "exact",
            },
            "strategy": {"name": strategy},
            "executor": {"kind": "none"},
        }
    )


def visits_per_second(clients: int, horizon: float, repetitions: int, strategy: str = "fedavg") -> list[float]:
    """Of whole runs: building the simulation, every event, SQLite and the summary.

    A second is one of processor time: it is one process, which waits for nothing but its turn on a busy machine.
    """
    config = configuration(clients, horizon, strategy)
    world = build_world(config)
    rates = []
    for _ in range(repetitions):
        with tempfile.TemporaryDirectory() as folder:
            began = time.process_time()
            summary = run_to_folder(config, Path(folder) / "run", world=world)
            rates.append(summary["visits"] / (time.process_time() - began))
    return rates


def figures(repetitions: int = 5, scale: float = 1.0) -> list[Figure]:
    """clock_visits_per_s_50 and _100000 of FedAvg: 120,000 and a million visits, times `scale`."""
    return [
        figure("clock_visits_per_s_50", visits_per_second(50, 30_000 * scale, repetitions), "visits/s", 50_000),
        figure(
            "clock_visits_per_s_100000",
            visits_per_second(100_000, 12 + 140 * scale, max(1, repetitions // 2)),
            "visits/s",
            25_000,
        ),
    ]
