"""What runs take of memory: 10,000 clients that train, worker processes that train for long, ten million visits."""

from __future__ import annotations

import contextlib
import itertools
import multiprocessing
import tempfile
import threading
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
from pydantic.dataclasses import dataclass

from benchmarks import clock
from benchmarks.figures import Figure, figure
from benchmarks.visits import make_job
from fedtempo.api.results import open_run
from fedtempo.federation import Federation
from fedtempo.learning.training import Training
from fedtempo.runs.config import parse
from fedtempo.runs.run import Run, run
from fedtempo.runs.world import build_world
from fedtempo.runtime.executors.processes import Processes

Arrays = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def images(train: int, test: int, side: int = 28) -> Arrays:
    """Random images, by default of Fashion-MNIST's shape."""
    rng = np.random.default_rng(0)
    x = rng.integers(0, 256, (train + test, side, side), dtype=np.uint8)
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


@dataclass(frozen=True)
class InTurn:
    """FedAvg of clients in the order of their ids, so that all have trained after few rounds."""

    clients_per_round: int

    async def run(self, fed: Federation) -> None:
        for first in itertools.count(0, self.clients_per_round):
            chosen = [fed.clients[i % len(fed.clients)] for i in range(first, first + self.clients_per_round)]
            fed.commit(await fed.average(await fed.train_all(chosen, fed.model)))


@contextlib.contextmanager
def watched() -> Iterator[list[int]]:
    """Look at the memory of this process and its children five times a second; yield a list of the most bytes."""
    stop, most = threading.Event(), [0]

    def watch() -> None:
        while not stop.wait(0.2):
            most[0] = max(most[0], proportional_bytes())

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield most
    finally:
        stop.set()
        watcher.join()


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
    with watched() as most:
        run(config, world=build_world(config))
    return [figure("memory_10000_clients_gib", [most[0] / 2**30], "GiB", 3.0, lower=True)]


def local_figures(clients: int = 10_000, examples: int = 60_000, per_round: int = 200) -> list[Figure]:
    """memory_10000_local_gib: the most in a run with a folder in which all clients train and keep a layer."""
    config = parse(
        {
            "run": {"max_commits": -(-clients // per_round), "evaluate_every": 1000.0, "keep": ["last", "clients"]},
            "data": {
                "source": "benchmarks.memory:images",
                "options": {"train": examples, "test": examples // 60, "side": 8},
                "clients": clients,
                "partition": {"kind": "iid"},
            },
            "model": {"network": "mlp", "hidden": [250], "local": ["3.*"]},
            "training": {"steps": 1, "batch_size": 6},
            "fleet": {"compute": {"unit": "s/visit", "speed": 1.0}, "link": "none", "estimates": "exact"},
            "strategy": {"name": "benchmarks.memory:InTurn", "clients_per_round": per_round},
            "executor": {"kind": "processes", "workers": 2},
        }
    )
    with tempfile.TemporaryDirectory() as folder, watched() as most:
        path = Path(folder) / "run"
        Run(config, world=build_world(config), page=False).begin(path)
        kept = open_run(path).records.facts["client_layers"]["clients"]
        kilobytes = (path / "models/clients.safetensors").stat().st_size / clients / 1000
    note = f"{kept:,} clients keep {kilobytes:.1f} kB each"
    return [figure("memory_10000_local_gib", [most[0] / 2**30], "GiB", 3.0, lower=True, note=note)]


def resident_bytes(process: int | str = "self", peak: bool = False) -> int:
    """Of one process, now or at its most since its program began (Linux).

    getrusage's maximum would not do: a process begins with that of the one that started it.
    """
    name = "VmHWM:" if peak else "VmRSS:"
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith(name))


def growth_figures(visits: int = 10_000, workers: int = 2) -> list[Figure]:
    """rss_growth_percent: of each worker, from a tenth of its visits of the MLP to all of them."""
    training = Training(lr=0.01, batch_size=10)
    with Processes(make_job("mlp"), workers) as executor:

        def train(first: int, last: int) -> list[int]:
            model = executor.initial()
            for number in range(first, last, 100):
                asked = [executor.train(model, visit % 10, visit, training) for visit in range(number, number + 100)]
                model = [pending.result() for pending in asked][-1].location
            return [resident_bytes(process) for process in executor.process_ids]

        early, late = train(0, visits // 10), train(visits // 10, visits)
    growth = [100 * (after / before - 1) for before, after in zip(early, late, strict=True)]
    return [figure("rss_growth_percent", [max(growth)], "%", 2.0, lower=True)]


def _schedule(rounds: int, sender: Connection) -> None:
    """Run in a process of its own, whose memory is all that is looked at."""
    config = clock.configuration(200, rounds=rounds)
    with tempfile.TemporaryDirectory() as folder:
        summary = Run(config, page=False).begin(Path(folder) / "run")
    sender.send((summary["visits"], resident_bytes(peak=True)))


def clock_figures(visits: int = 10_000_000) -> list[Figure]:
    """clock_memory_10m_gib: the most that a process took that did nothing but ten million visits without training."""
    receiver, sender = multiprocessing.Pipe(duplex=False)
    context = multiprocessing.get_context("spawn")
    process = context.Process(target=_schedule, args=(visits // 200, sender))
    process.start()
    sender.close()
    try:
        made, most_bytes = receiver.recv()
    finally:
        process.join()
    gib = most_bytes / 2**30
    return [figure("clock_memory_10m_gib", [gib], "GiB", 2.0, lower=True, note=f"{made:,} visits")]
