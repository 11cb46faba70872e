"""Client visits against the loop as it is usually written in PyTorch: 100 examples, batch 10, one epoch of SGD."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from benchmarks.figures import Figure, figure, interleaved, ratios
from benchmarks.networks import VOCABULARY, Lstm, cnn6, lenet, mlp
from fedtempo.learning.networks import CharLstm, Cnn, LeNet, Mlp, Network
from fedtempo.learning.numerics import fixed_numerics
from fedtempo.learning.training import Training
from fedtempo.runtime.executors import Executor
from fedtempo.runtime.executors.job import Job
from fedtempo.runtime.executors.processes import Processes

CLIENTS, EXAMPLES, BATCH, LR = 10, 100, 10, 0.01
LENGTH = 80


NETWORKS: dict[str, tuple[Network, Callable[[], nn.Module]]] = {
    "lenet": (LeNet(), lenet),
    "mlp": (Mlp(), mlp),
    "cnn6": (Cnn((32, 32, 64, 64, 128, 128), pool_after=(2, 4, 6), batch_norm=True, hidden=()), cnn6),
    "lstm": (CharLstm(), Lstm),
}

GATES = {"lenet": 1.4, "mlp": 1.4, "cnn6": 1.15, "lstm": 1.0}
"""Of visit_*_1p_vs_plain."""


def make_job(name: str) -> Job:
    """Random examples of the network's shape."""
    rng, size = np.random.default_rng(0), CLIENTS * EXAMPLES
    classes = 10
    if name == "lstm":
        classes = VOCABULARY
        x: np.ndarray = rng.integers(0, VOCABULARY, (size, LENGTH))
    else:
        x = rng.standard_normal((size, *((3, 32, 32) if name == "cnn6" else (1, 28, 28))), dtype=np.float32)
    y = rng.integers(0, classes, size)
    clients = [np.arange(client * EXAMPLES, (client + 1) * EXAMPLES) for client in range(CLIENTS)]
    return Job(NETWORKS[name][0], classes, x, y, clients, x[:10], y[:10], seed=0)


def plain(module: nn.Module, job: Job, visits: int) -> Callable[[], None]:
    """The usual loop: load_state_dict, an optimiser object, backward, a copy of the state; one thread too."""
    state = {name: value.clone() for name, value in module.state_dict().items()}
    data = [(torch.from_numpy(job.x[rows]), torch.from_numpy(job.y[rows])) for rows in job.clients]

    def run() -> None:
        with fixed_numerics():
            for visit in range(visits):
                module.load_state_dict(state)
                module.train()
                optimizer = torch.optim.SGD(module.parameters(), lr=LR)
                x, y = data[visit % CLIENTS]
                for rows in torch.split(torch.randperm(EXAMPLES), BATCH):
                    optimizer.zero_grad()
                    F.cross_entropy(module(x[rows]), y[rows]).backward()  # type: ignore[no-untyped-call]
                    optimizer.step()
                {name: value.clone() for name, value in module.state_dict().items()}

    return run


def ours(executor: Executor, visits: int) -> Callable[[], None]:
    """The same visits, asked for at once."""
    training = Training(lr=LR, batch_size=BATCH)

    def run() -> None:
        model = executor.initial()
        for pending in [executor.train(model, visit % CLIENTS, visit, training) for visit in range(visits)]:
            pending.result()

    return run


def figures(repetitions: int = 5, scale: float = 1.0, names: tuple[str, ...] = tuple(NETWORKS)) -> list[Figure]:
    """visit_*_vs_plain and workers_2_vs_1; scale: of the number of visits."""
    found = []
    for name in names:
        job = make_job(name)
        visits = max(1, round(scale * {"lenet": 100, "mlp": 150, "cnn6": 5, "lstm": 3}[name]))
        with ExitStack() as stack:
            ways = {"plain": plain(NETWORKS[name][1](), job, visits)}
            for workers in (1, 2) if name == "lenet" else (1,):
                ways[f"{workers}p"] = ours(stack.enter_context(Processes(job, workers)), visits)
            seconds = interleaved(ways, repetitions)
        found.append(figure(f"visit_{name}_1p_vs_plain", ratios(seconds["plain"], seconds["1p"]), "x", GATES[name]))
        if name == "lenet":
            found.append(figure("visit_lenet_2p_vs_plain", ratios(seconds["plain"], seconds["2p"]), "x", 2.5))
            found.append(figure("workers_2_vs_1", ratios(seconds["1p"], seconds["2p"]), "x", 1.8))
    return found
