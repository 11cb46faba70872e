"""Optimisers at the server: two rounds by hand, and PyTorch's where the formulas coincide."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from fedtempo.learning.server_optimizers import SERVER_OPTIMIZERS, SGD, Adagrad, Adam, ServerOptimizer, Yogi

Vector = np.ndarray[Any, np.dtype[np.float64]]


def rounds(optimizer: ServerOptimizer, model: Vector, changes: list[Vector]) -> list[Vector]:
    """Return the models after steps towards averages that differ by these changes from the model before."""
    models, state = [model], ()
    for change in changes:
        model, *state = optimizer.step(models[-1], models[-1] + change, *state)
        models.append(model)
    return models


HALF: dict[str, Any] = {"lr": 0.5, "beta1": 0.5, "tau": 1.0}
"""v begins with 1."""


@pytest.mark.parametrize(
    ("optimizer", "changes", "steps"),
    [
        # v = c: (-4, 2), then half of it and (-1, -1): (-3, 0)
        (SGD(lr=0.5, momentum=0.5), [[4, -2], [1, 1]], [[2, -1], [3 / 2, 0]]),
        # m = (3/8, -3/8), v = 25/16: 1/2 * 3/8 / (5/4 + 1); m = 3/16 + 3/2 and -3/16, v = 169/16 and 25/16
        (Adagrad(**HALF), [[3 / 4, -3 / 4], [3, 0]], [[1 / 12, -1 / 12], [27 / 136, -1 / 24]]),
        # m = (7/2, 1/2), v = (25, 1); m = (-63/4, 15/4), v = (625, 25)
        (Adam(**HALF, beta2=0.5), [[7, 1], [-35, 7]], [[7 / 24, 1 / 8], [-63 / 208, 5 / 16]]),
        # m = (2, 4/9), v = (1 + 16/2, 1 - 32/81); m = (7/3, -2/9), v = (9 - 32/9, 49/81 + 32/81)
        (Yogi(**HALF, beta2=0.5), [[4, 8 / 9], [8 / 3, -8 / 9]], [[1 / 4, 1 / 8], [7 / 20, -1 / 18]]),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, ServerOptimizer) else "",
)
def test_two_rounds_by_hand(optimizer: ServerOptimizer, changes: list[Any], steps: list[Any]) -> None:
    models = rounds(optimizer, np.array([1.0, -2.0]), [np.array(change, dtype=float) for change in changes])
    for before, after, step in zip(models, models[1:], steps, strict=False):
        np.testing.assert_allclose(after - before, step, rtol=0, atol=1e-15 * 16)


def by_torch(
    make: Callable[[torch.Tensor], torch.optim.Optimizer],
    averages: list[Vector],
    each: Callable[[torch.optim.Optimizer, torch.Tensor, int], None] = lambda *_: None,
) -> list[Vector]:
    """Return the models of a PyTorch optimiser whose gradient is the model minus the average."""
    model = torch.zeros(len(averages[0]), dtype=torch.float64, requires_grad=True)
    optimizer, models = make(model), []
    for number, average in enumerate(averages, 1):
        model.grad = model.detach() - torch.from_numpy(average)
        each(optimizer, model, number)
        optimizer.step()
        models.append(model.detach().numpy().copy())
    return models


def ours(optimizer: ServerOptimizer, averages: list[Vector]) -> list[Vector]:
    model, state, models = np.zeros(len(averages[0])), (), []
    for average in averages:
        model, *state = optimizer.step(model, average, *state)
        models.append(model)
    return models


AVERAGES = list(np.random.default_rng(4).normal(size=(12, 6)))


def test_momentum_is_that_of_torch() -> None:
    expected = by_torch(lambda model: torch.optim.SGD([model], lr=0.3, momentum=0.9), AVERAGES)
    np.testing.assert_allclose(ours(SGD(lr=0.3, momentum=0.9), AVERAGES), expected, rtol=1e-13)


def test_adagrad_is_that_of_torch_with_the_papers_first_accumulator() -> None:
    tau = 0.02
    expected = by_torch(
        lambda model: torch.optim.Adagrad([model], lr=0.3, initial_accumulator_value=tau**2, eps=tau), AVERAGES
    )
    np.testing.assert_allclose(ours(Adagrad(lr=0.3, tau=tau), AVERAGES), expected, rtol=1e-13)


def test_adam_is_that_of_torch_without_its_bias_correction() -> None:
    """PyTorch's step is lr / b1 * m / (sqrt(v) / sqrt(b2) + eps), with b = 1 - beta^step."""
    lr, tau, beta1, beta2 = 0.05, 0.02, 0.9, 0.99

    def uncorrected(optimizer: torch.optim.Optimizer, model: torch.Tensor, number: int) -> None:
        first, second = 1 - beta1**number, (1 - beta2**number) ** 0.5
        optimizer.param_groups[0].update(lr=lr * first / second, eps=tau / second)
        if number == 1:
            zeros = torch.zeros_like(model)
            optimizer.state[model] = {"step": torch.tensor(0.0), "exp_avg": zeros, "exp_avg_sq": zeros + tau**2}

    expected = by_torch(lambda model: torch.optim.Adam([model], betas=(beta1, beta2)), AVERAGES, uncorrected)
    np.testing.assert_allclose(ours(Adam(lr=lr, tau=tau, beta1=beta1, beta2=beta2), AVERAGES), expected, rtol=1e-12)


@pytest.mark.parametrize("name", SERVER_OPTIMIZERS)
def test_single_precision_stays_and_vectors_may_be_empty(name: str) -> None:
    optimizer = SERVER_OPTIMIZERS[name]()
    for model in (np.ones(3, np.float32), np.empty(0, np.float32)):
        first = optimizer.step(model, model + 1)
        second = optimizer.step(first[0], model, *first[1:])
        assert {(vector.dtype, vector.shape) for vector in (*first, *second)} == {(model.dtype, model.shape)}
        assert (second[-1] >= 0).all()


@pytest.mark.parametrize("kind", [Adagrad, Adam, Yogi])
def test_a_parameter_that_no_client_changes_stays_even_with_the_least_adaptivity(kind: Any) -> None:
    model = np.float32([2.0, 3.0])
    (moved, *_) = kind(tau=1e-15).step(model, np.float32([2.0, 4.0]))
    assert moved[0] == 2.0 < 3.0 < moved[1]
