"""How many visits a second the virtual clock carries where nothing is trained: the federation, recorded to disk."""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path

from fedtempo.config import Config, parse
from fedtempo.launch import build_world, run_to_folder

CLIENTS = 200


def configuration(strategy: str, horizon: float) -> Config:
    """Visits with a download, computing that varies, and an upload; no training."""
    return parse(
        {
            "run": {"horizon": horizon},
            "data": {"clients": CLIENTS, "partition": {"kind": "iid"}},
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


def visits_per_second(strategy: str, horizon: float, repetitions: int = 5) -> float:
    """Median over repetitions, whole runs: building the simulation, every event, SQLite and the summary."""
    config = configuration(strategy, horizon)
    world = build_world(config)
    rates = []
    for _ in range(repetitions):
        with tempfile.TemporaryDirectory() as folder:
            began = time.perf_counter()
            summary = run_to_folder(config, Path(folder) / "run", world=world)
            rates.append(summary["visits"] / (time.perf_counter() - began))
    return statistics.median(rates)


def main() -> None:
    """Print one line a strategy."""
    for strategy, horizon in (("fedavg", 4000.0), ("sequential", 100_000.0)):
        print(f"clock, {strategy}, nothing trained: {visits_per_second(strategy, horizon):,.0f} visits/s")


if __name__ == "__main__":
    main()
