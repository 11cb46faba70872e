"""Steps of SGD on a network of one hidden layer: losses, norms and parameters after each step."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fedtempo.learning.optimizers import Sgd, clip, global_norm
from tests.golden.compare import close

ACTIVATIONS = {"tanh": torch.tanh, "relu": torch.relu}


def check(case: dict[str, Any]) -> None:
    given = case["input"]
    x = torch.tensor(given["X"], dtype=torch.float64)
    y = torch.tensor(given["y"])
    w1, b1, w2, b2 = (nn.Parameter(torch.tensor(given[name], dtype=torch.float64)) for name in ("W1", "b1", "W2", "b2"))
    parameters: tuple[Tensor, ...] = (w1, b1, w2, b2)
    rates = given["lr"] if isinstance(given["lr"], list) else [given["lr"]] * len(given["batches"])
    optimizer = Sgd(parameters, rates[0], given["momentum"], given["nesterov"], given["weight_decay"])
    steps = []
    for rows, rate in zip(given["batches"], rates, strict=True):
        hidden = ACTIVATIONS[given["activation"]](F.linear(x[rows], w1, b1))
        loss = F.cross_entropy(F.linear(hidden, w2, b2), y[rows])
        gradients = torch.autograd.grad(loss, parameters)
        norm, limit = float(global_norm(gradients)), given["clip_norm"]
        optimizer.lr = rate
        with torch.no_grad():
            clipped = gradients if limit is None else clip(gradients, limit)
            optimizer.step(clipped)
        steps.append(
            {
                "batch_loss": loss.item(),
                "grad_norm_before_clip": norm,
                "clip_factor": float(global_norm(clipped)) / norm,
                **{name: value.tolist() for name, value in zip(("W1", "b1", "W2", "b2"), parameters)},
            }
        )
    close({"steps": steps}, case["expected"], rel=1e-10, abs=1e-15, where=case["name"])
