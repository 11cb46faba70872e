"""What 10,000 clients with LeNet and 60,000 images take, worker processes and shared memory included."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np

from benchmarks.figures import Figure
from fedtempo.config import parse
from fedtempo.launch import build_world, run

Arrays = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def images(train: int, test: int) -> Arrays:
    """Random images of Fashion-MNIST's shape."""
    rng = np.random.default_rng(0)
    x = rng.integers(0, 256, (train + test, 28, 28), dtype=np.uint8)
    y = rng.integers(0, 10, train + test)
    return x[:train], y[:train], x[train:], y[train:]


def proportional_bytes() -> int:
    """Memory of this process and its children; pages that several share count once (Linux)."""
    total = 0
    own = str(Path("/proc/self").resolve().name)
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = (folder / "stat").read_text().rpartition(")")[2].split()[1]
            if own in (folder.name, parent):
                lines = (folder / "smaps_rollup").read_text().splitlines()
                total += sum(1024 * int(line.split()[1]) for line in lines if line.startswith("Pss:"))
        except OSError:
            continue
    return total


def figures(clients: int = 10_000, examples: int = 60_000, per_round: int = 200, rounds: int = 3) -> list[Figure]:
    """memory_10000_clients_gib: the most during FedAvg's first rounds, looked at five times a second."""
    config = parse(
        {
            "run": {"max_commits": rounds, "evaluate": "commit"},
            "data": {
                "source": "benchmarks.memory:images",
                "options": {"train": examples, "test": examples // 6},
                "clients": clients,
                "partition": {"kind": "iid"},
            },
            "model": {"network": "lenet"},
            "fleet": {"compute": {"unit": "s/visit", "speed": 1.0}, "link": "none", "estimates": "exact"},
            "strategy": {"name": "fedavg", "clients_per_round": per_round},
            "executor": {"kind": "processes", "workers": 2},
        }
    )
    stop, most = threading.Event(), [0]

    def watch() -> None:
        while not stop.wait(0.2):
            most[0] = max(most[0], proportional_bytes())

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        run(config, world=build_world(config))
    finally:
        stop.set()
        watcher.join()
    gib = most[0] / 2**30
    return [Figure("memory_10000_clients_gib", gib, "GiB", 3.0, lower=True, runs=(gib,))]
