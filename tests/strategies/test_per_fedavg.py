"""Per-FedAvg: steps on the loss after a step, worked out by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from torch import nn

from fedtempo.learning.training import Training
from fedtempo.strategies import PerFedAvg
from tests.runtime.learning import Built, learn
from tests.runtime.world import play

CLIENTS = [(np.array([[1.0]]), np.array([[3.0]])), (np.array([[2.0]] * 3), np.array([[1.0]] * 3))]
"""Loss (w x - y)^2: the gradients are 2 (w - 3) and 8 w - 4, the Hessians 2 and 8."""


def line() -> nn.Linear:
    layer = nn.Linear(1, 1, bias=False).double()
    nn.init.constant_(layer.weight, 1.0)
    return layer


def learned(strategy: Any, steps: int, commits: int = 1) -> float:
    training = Training(lr=0.125, loss="squared", steps=steps, batch_size=1)
    found = learn(strategy, Built(line), CLIENTS, n_outputs=1, training=training, commits=commits)
    (weight,) = found.final.tolist()
    return float(weight)


@pytest.mark.usefixtures("double")
def test_the_first_order_variant_steps_along_the_gradient_after_a_step() -> None:
    """alpha = 1/4, beta = 1/8, w = 1. Client 0: gradient -4, 1 + 1 = 2, gradient there -2: w = 1 + 2/8 = 1.25.

    Client 1: gradient 4, 1 - 1 = 0, there -4: w = 1.5. The mean, with equal weights, is 1.375.
    A second step. Client 0: -3.5, 2.125, there -1.75: 1.46875. Client 1: 8, -0.5, there -8: 2.5. The mean is 1.984375.
    """
    strategy = PerFedAvg(alpha=0.25, variant="first-order")
    assert learned(strategy, 1) == pytest.approx(1.375, rel=1e-12)
    assert learned(strategy, 2) == pytest.approx(1.984375, rel=1e-12)


@pytest.mark.usefixtures("double")
def test_the_hessian_free_variant_is_exact_for_quadratic_losses() -> None:
    """g - alpha H g is g / 2 for client 0 and -g for client 1, with the same g as above.

    Client 0: -1, w = 1.125. Client 1: 4, w = 0.5. The mean is 0.8125.
    A second step. Client 0: -3.75, 2.0625, there -1.875, half of it: w = 1.2421875. Client 1: 0, w = 0.5. The mean is
    0.87109375.
    """
    strategy = PerFedAvg(alpha=0.25)
    assert learned(strategy, 1) == pytest.approx(0.8125, rel=1e-9)
    assert learned(strategy, 2) == pytest.approx(0.87109375, rel=1e-9)


@pytest.mark.usefixtures("double")
def test_the_hessian_free_variant_comes_near_the_gradient_of_the_loss_after_a_step() -> None:
    """One full step on a network with a hidden layer, against autograd through the inner step."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(12, 3)), rng.integers(0, 3, 12)

    def network() -> nn.Sequential:
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 3)).double()

    module = network()
    names = [name for name, _ in module.named_parameters()]

    def loss(parameters: Sequence[torch.Tensor]) -> torch.Tensor:
        outputs = torch.func.functional_call(module, dict(zip(names, parameters)), (torch.from_numpy(x),))
        return nn.functional.cross_entropy(outputs, torch.from_numpy(y))

    start = [parameter.detach().requires_grad_() for parameter in module.parameters()]
    inner = torch.autograd.grad(loss(start), start, create_graph=True)
    outer = torch.autograd.grad(loss([w - 0.5 * g for w, g in zip(start, inner)]), start)
    expected = torch.cat([(w - 0.1 * g).detach().flatten() for w, g in zip(start, outer)])
    training = Training(lr=0.1, full_batch=True, steps=1)
    found = learn(PerFedAvg(alpha=0.5), Built(network), [(x, y)], n_outputs=3, training=training, commits=1)
    np.testing.assert_allclose(found.final, expected, rtol=1e-6)


def test_a_step_takes_the_time_of_its_gradients() -> None:
    for variant, times in (("first-order", [4.0, 8.0]), ("hessian-free", [8.0])):
        strategy = PerFedAvg(variant=variant)  # type: ignore[arg-type]
        _, records = play(strategy, compute=[1.0, 2.0], clients=2, examples=100, horizon=9.0)
        assert records.commits["time"].tolist() == times


def test_unusable_values_are_refused() -> None:
    for fields in ({"clients_per_round": 0}, {"alpha": 0.0}, {"delta": 0.0}, {"variant": "exact"}):
        with pytest.raises(ValidationError, match=next(iter(fields))):
            PerFedAvg(**fields)  # type: ignore[arg-type]
