"""How fast clients' visits are: an ordinary PyTorch loop against fedtempo's executors, on this machine.

    python benchmarks/visits.py [--repetitions 7] [--visits 10]

One visit: receive a model, train one epoch of SGD on 100 examples in batches of 10, send the model back. All ways take
turns in one run, on one thread a process, since a machine's speed changes from minute to minute. Given are medians of
wall time with the ratio to the plain loop, and processor time (Linux; workers included), which a busy machine changes
less.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from fedtempo.learning.networks import LeNet, Mlp, Network
from fedtempo.learning.numerics import fixed_numerics
from fedtempo.learning.training import Training
from fedtempo.runtime.executors import Executor
from fedtempo.runtime.executors.inline import Inline
from fedtempo.runtime.executors.job import Job
from fedtempo.runtime.executors.processes import Processes

CLIENTS, EXAMPLES, BATCH, LR = 10, 100, 10, 0.01
SHAPE, CLASSES = (1, 28, 28), 10


def make_job(network: Network) -> Job:
    rng = np.random.default_rng(0)
    size = CLIENTS * EXAMPLES
    x = rng.standard_normal((size, *SHAPE), dtype=np.float32)
    y = rng.integers(0, CLASSES, size)
    clients = [np.arange(client * EXAMPLES, (client + 1) * EXAMPLES) for client in range(CLIENTS)]
    return Job(network, CLASSES, x, y, clients, x[:10], y[:10], seed=0)


def usual_lenet() -> nn.Module:
    """LeNet as it is usually written: pooling after ReLU."""
    return nn.Sequential(
        *(nn.Conv2d(1, 32, 5), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(32, 64, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()),
        *(nn.Linear(1024, 320), nn.ReLU(), nn.Linear(320, 128), nn.ReLU(), nn.Linear(128, CLASSES)),
    )


def usual_mlp() -> nn.Module:
    return nn.Sequential(
        *(nn.Flatten(), nn.Linear(784, 200), nn.ReLU()),
        *(nn.Linear(200, 200), nn.ReLU(), nn.Linear(200, CLASSES)),
    )


def plain(module: nn.Module, job: Job, visits: int, use_loader: bool) -> Callable[[], None]:
    """The loop as it is usually written: load_state_dict, an optimiser object, backward, a copy of the state."""
    state = {name: value.clone() for name, value in module.state_dict().items()}
    data = [(torch.from_numpy(job.x[rows]), torch.from_numpy(job.y[rows])) for rows in job.clients]

    def batches(client: int) -> object:
        if use_loader:
            return DataLoader(TensorDataset(*data[client]), batch_size=BATCH, shuffle=True)
        order = torch.split(torch.randperm(EXAMPLES), BATCH)
        return [(data[client][0][rows], data[client][1][rows]) for rows in order]

    def run() -> None:
        with fixed_numerics():
            for visit in range(visits):
                module.load_state_dict(state)
                optimizer = torch.optim.SGD(module.parameters(), lr=LR)
                for x, y in batches(visit % CLIENTS):  # type: ignore[attr-defined]
                    optimizer.zero_grad()
                    F.cross_entropy(module(x), y).backward()  # type: ignore[no-untyped-call]
                    optimizer.step()
                {name: value.clone() for name, value in module.state_dict().items()}

    return run


def ours(executor: Executor, visits: int) -> Callable[[], None]:
    training = Training(lr=LR, batch_size=BATCH)

    def run() -> None:
        model = executor.initial()
        pending = [executor.train(model, visit % CLIENTS, visit, training) for visit in range(visits)]
        for visit in pending:
            visit.result()

    return run


def processor_s(processes: Iterable[int]) -> float:
    """Processor time that this process and these others have used so far, seconds."""
    total = time.process_time()
    for process in processes:
        stat = Path(f"/proc/{process}/stat")
        if stat.exists():
            user, system = stat.read_text().rpartition(")")[2].split()[11:13]
            total += (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")
    return total


def measure(name: str, usual: nn.Module, network: Network, visits: int, repetitions: int) -> None:
    job = make_job(network)
    with ExitStack() as stack:
        one, two = (stack.enter_context(Processes(job, workers)) for workers in (1, 2))
        ways = {
            "plain loop": plain(usual, job, visits, use_loader=False),
            "plain loop, DataLoader": plain(usual, job, visits, use_loader=True),
            "inline": ours(stack.enter_context(Inline(job)), visits),
            "1 process": ours(one, visits),
            "2 processes": ours(two, visits),
        }
        workers = [*one.process_ids, *two.process_ids]
        wall: dict[str, list[float]] = {way: [] for way in ways}
        processor: dict[str, list[float]] = {way: [] for way in ways}
        for repetition in range(repetitions + 1):
            for way, run in ways.items():
                start, used = time.perf_counter(), processor_s(workers)
                run()
                if repetition:  # the first one warms up
                    wall[way].append((time.perf_counter() - start) / visits)
                    processor[way].append((processor_s(workers) - used) / visits)
    base = statistics.median(wall["plain loop"])
    print(f"{name}: {visits} visits, {repetitions} repetitions")
    print(f"  {'':24} {'ms a visit':>10} {'speed-up':>9} {'visits/s':>9} {'CPU ms a visit':>15}")
    for way in ways:
        median, used = statistics.median(wall[way]), statistics.median(processor[way])
        print(f"  {way:24} {1e3 * median:10.2f} {base / median:8.2f}x {1 / median:9.1f} {1e3 * used:15.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description="Speed of client visits, against a plain PyTorch loop.")
    parser.add_argument("--repetitions", type=int, default=7)
    parser.add_argument("--visits", type=int, default=10, help="visits of LeNet; five times as many of the MLP")
    arguments = parser.parse_args()
    measure("LeNet", usual_lenet(), LeNet(), arguments.visits, arguments.repetitions)
    measure("MLP 200-200", usual_mlp(), Mlp(), 5 * arguments.visits, arguments.repetitions)


if __name__ == "__main__":
    main()
