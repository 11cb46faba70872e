"""FedProx on binary logistic regression, through the training loop: a linear layer with classes (0, logit)."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fedtempo.learning.examples import Examples
from fedtempo.learning.local import train
from fedtempo.learning.optimizers import add_proximal
from fedtempo.learning.state import FlatModel
from fedtempo.learning.training import Training
from tests.golden.compare import close


class Binary(nn.Module):
    """Logits (0, w.x + b): their cross-entropy is softplus(a) - y * a."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.line = nn.Linear(features, 1)

    def forward(self, x: Tensor) -> Tensor:
        a = self.line(x)
        return torch.cat([torch.zeros_like(a), a], dim=1)


class Orders:
    """Stands in for a generator: the batches of the case instead of random ones."""

    def __init__(self, rows: list[int]) -> None:
        self._rows = rows

    def integers(self, high: int) -> int:
        return 0

    def permutation(self, rows: Any) -> Any:
        return np.array(self._rows)


def check(case: dict[str, Any]) -> None:
    given, expected = case["input"], case["expected"]
    x, y = np.array(given["X"]), np.array(given["y"])
    model = FlatModel(Binary(x.shape[1]), x.shape[1:], torch.float64)
    examples = Examples(x, y, model.channels_last, torch.float64)
    received = np.array([*given["w_global"], given["b_global"]])
    if given["kind"] == "loss":
        _check_loss(given, expected, model, examples, received)
    elif given["kind"] == "sgd":
        _check_sgd(given, expected, model, examples, received)
    else:
        raise AssertionError(f"unknown kind {given['kind']!r}")


def _check_loss(given: Any, expected: Any, model: FlatModel, examples: Examples, received: Any) -> None:
    point, mu = np.array([*given["w"], given["b"]]), given["mu"]
    model.load(received)
    anchors = tuple(parameter.detach().clone() for parameter in model.module.parameters())
    model.load(point)
    loss = F.cross_entropy(model.module(examples.span(0, len(examples))[0]), examples.labels)
    with torch.no_grad():
        parameters = tuple(model.module.parameters())
        gradients = torch.autograd.grad(loss, parameters)
        w, b = add_proximal(gradients, parameters, anchors, mu)
    proximal = _proximal(mu, point, received)
    close(
        {
            "cross_entropy": loss.item(),
            "proximal": proximal,
            "loss": loss.item() + proximal,
            "grad_w": w.flatten(),
            "grad_b": b.item(),
        },
        expected,
        rel=1e-11,
        abs=1e-15,
    )


def _check_sgd(given: Any, expected: Any, model: FlatModel, examples: Examples, received: Any) -> None:
    """One visit of 1, 2, ... steps each; a visit's loss is the mean over all its steps, without the proximal term."""
    order = [row for batch in given["batches"] for row in batch]
    before, seen, total = received, 0, 0.0
    for number, (rows, step) in enumerate(zip(given["batches"], expected["steps"], strict=True), start=1):
        training = Training(lr=given["lr"], batch_size=len(given["batches"][0]), steps=number, proximal=given["mu"])
        loss = train(model, examples, training, Orders(order), received)["loss"]  # type: ignore[arg-type]
        seen += len(rows)
        last, total = (loss * seen - total) / len(rows), loss * seen
        after = model.vector.numpy().copy()
        found = {"batch_loss": last + _proximal(given["mu"], before, received), "w": after[:-1], "b": after[-1]}
        close(found, step, rel=1e-11, abs=1e-15, where=f"step {number}")
        before = after


def _proximal(mu: float, point: Any, received: Any) -> float:
    return float(mu / 2 * np.sum((point - received) ** 2))
