"""The work that every peer does in a turn: ten rounds of FedAvg over ten clients, a hundred visits of LeNet.

A visit is one epoch of SGD over 100 images in batches of 10. Nothing here needs fedtempo: the drivers of the peers
import it in environments where fedtempo is not.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from time import perf_counter
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.optim.optimizer import register_optimizer_step_post_hook

from benchmarks.networks import lenet
from benchmarks.peers.protocol import answer

ROUNDS, CLIENTS, EXAMPLES, BATCH, LR = 10, 10, 100, 10, 0.01
VISITS = ROUNDS * CLIENTS
SEED = 1


def images(train: int, test: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Random images of MNIST's shape, one bright pixel in ten for each class, so that there is something to learn."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 10, train + test)
    x = rng.standard_normal((train + test, 1, 28, 28), dtype=np.float32)
    x += 2 * (rng.random((10, 1, 28, 28)) < 0.1).astype(np.float32)[y]
    return x[:train], y[:train], x[train:], y[train:]


def tensors() -> tuple[Tensor, Tensor]:
    """All clients' examples; client i has those from 100 i on."""
    x, y, _, _ = images(CLIENTS * EXAMPLES, 0)
    return torch.from_numpy(x), torch.from_numpy(y)


def client_tensors() -> list[tuple[Tensor, Tensor]]:
    x, y = tensors()
    return list(zip(torch.split(x, EXAMPLES), torch.split(y, EXAMPLES)))


def network() -> nn.Module:
    """LeNet with the same initial weights every time."""
    torch.manual_seed(SEED)
    return lenet()


@dataclass
class Count:
    """Steps of clients' SGD, and images that went through the network with and without gradients."""

    steps: int = 0
    trained: int = 0
    evaluated: int = 0

    def __add__(self, other: Count) -> Count:
        return Count(self.steps + other.steps, self.trained + other.trained, self.evaluated + other.evaluated)


TURN = Count(steps=VISITS * EXAMPLES // BATCH, trained=VISITS * EXAMPLES)
"""What a turn is, evaluations aside."""


@contextlib.contextmanager
def counting() -> Iterator[Count]:
    """Count what happens in this process. Steps at another rate than LR are the server's, and are not counted."""
    count = Count()

    def stepped(optimizer: torch.optim.Optimizer, *_: Any) -> None:
        count.steps += optimizer.param_groups[0]["lr"] == LR

    def passed(module: nn.Module, inputs: tuple[Any, ...]) -> None:
        if isinstance(module, nn.Conv2d) and module.in_channels == 1:
            if torch.is_grad_enabled():
                count.trained += len(inputs[0])
            else:
                count.evaluated += len(inputs[0])

    hooks = (register_optimizer_step_post_hook(stepped), register_module_forward_pre_hook(passed))
    try:
        yield count
    finally:
        for hook in hooks:
            hook.remove()


@torch.no_grad()
def loss_of(module: nn.Module) -> float:
    """Mean cross-entropy over all clients' examples."""
    x, y = tensors()
    return F.cross_entropy(module(x), y).item()


def serve(
    rounds: Callable[[], None],
    model: Callable[[], nn.Module],
    *,
    prepare: Callable[[], None] = lambda: None,
    counting: Callable[[], AbstractContextManager[Count]] = counting,
) -> None:
    """Answer each request with one turn: `prepare`, then `rounds`, which alone is timed; `model` is the global model.

    The first turn is counted, and says what was done.
    """
    torch.set_num_threads(1)
    first = True

    def turn(_: Any) -> dict[str, Any]:
        nonlocal first
        prepare()
        before = loss_of(model())
        with counting() if first else contextlib.nullcontext() as count:
            began = perf_counter()
            rounds()
            seconds = perf_counter() - began
        first = False
        counted = {} if count is None else asdict(count)
        return {"seconds": seconds, "loss_before": before, "loss_after": loss_of(model()), **counted}

    answer(turn)
