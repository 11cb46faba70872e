"""FedNova: changes per local step, worked out by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError
from torch import nn

from fedtempo.learning.training import Training
from fedtempo.strategies import FedAvg, FedNova
from tests.runtime.learning import Built, learn
from tests.runtime.world import play

CLIENTS = [(np.array([[1.0]]), np.array([[3.0]])), (np.array([[1.0]] * 3), np.array([[-1.0]] * 3))]
"""One example and three equal ones; loss (w x - y)^2, so the gradients are 2 (w - 3) and 2 (w + 1)."""


def line() -> nn.Linear:
    layer = nn.Linear(1, 1, bias=False).double()
    nn.init.constant_(layer.weight, 1.0)
    return layer


def learned(strategy: Any, clients: Any = CLIENTS, **training: Any) -> float:
    """Return the model after one round with a step per example, of size 1/8, from w = 1."""
    settings = Training(lr=0.125, loss="squared", batch_size=1, **training)
    found = learn(strategy, Built(line), clients, n_outputs=1, training=settings, commits=1)
    (weight,) = found.final.tolist()
    return float(weight)


@pytest.mark.usefixtures("double")
def test_changes_are_divided_by_the_steps_that_made_them() -> None:
    """p = (1/4, 3/4) and tau = (1, 3), so tau_eff = 1/4 + 9/4 = 2.5.

    Client 0: gradient -4, w = 1.5, D_0 = 0.5. Client 1: gradients 4, 3, 2.25, w = 0.5, 0.125, -0.15625,
    D_1 = -1.15625. x = 1 + 2.5 * (1/4 * 0.5 / 1 + 3/4 * -1.15625 / 3) = 1 + 2.5 * -0.1640625 = 0.58984375.
    FedAvg gives 1 + 1/4 * 0.5 + 3/4 * -1.15625 = 0.2578125, nearer to the optimum of client 1.
    """
    assert learned(FedNova()) == pytest.approx(0.58984375, rel=1e-12)
    assert learned(FedAvg()) == pytest.approx(0.2578125, rel=1e-12)


@pytest.mark.usefixtures("double")
def test_momentum_counts_each_gradient_as_often_as_it_is_used() -> None:
    """rho = 1/2: |a_1| = (1 + 1/2 + 1/4) + (1 + 1/2) + 1 = 4.25, |a_0| = 1, tau_eff = 1/4 * 1 + 3/4 * 4.25 = 3.4375.

    Client 1: gradient 4, v = 4, w = 0.5; 3, v = 5, w = -0.125; 1.75, v = 4.25, w = -0.65625, D_1 = -1.65625.
    """
    expected = 1 + 3.4375 * (0.25 * 0.5 / 1 + 0.75 * -1.65625 / 4.25)
    assert learned(FedNova(), momentum=0.5) == pytest.approx(expected, rel=1e-12)


@pytest.mark.usefixtures("double")
def test_a_proximal_term_counts_early_gradients_less() -> None:
    """mu = 1, lr mu = 1/8: |a_1| = 1 + 7/8 + 49/64 = 2.640625, |a_0| = 1, and tau_eff counts the steps: 2.5.

    Client 1: gradient 4 + 0, w = 0.5; 3 - 0.5, w = 0.1875; 2.375 - 0.8125, w = -0.0078125, D_1 = -1.0078125.
    """
    expected = 1 + 2.5 * (0.25 * 0.5 / 1 + 0.75 * -1.0078125 / 2.640625)
    assert learned(FedNova(mu=1.0)) == pytest.approx(expected, rel=1e-12)


@pytest.mark.usefixtures("double")
def test_with_equal_numbers_of_steps_it_is_fedavg() -> None:
    assert learned(FedNova(), steps=2) == pytest.approx(learned(FedAvg(), steps=2), rel=1e-12)


@pytest.mark.parametrize(
    ("expected", "settings"),
    [
        (3.0, {}),
        (3.0, {"weight_decay": 0.1}),
        (3.0, {"optimizer": "adam"}),
        (4.25, {"momentum": 0.5}),  # (3 - 0.5 * (1 - 0.5^3) / 0.5) / 0.5
        (5.125, {"momentum": 0.5, "nesterov": True}),  # v = 1, 1.5, 1.75; steps 1 + v / 2: 1.5 + 1.75 + 1.875
        (2.640625, {"proximal": 1.0}),  # (1 - (7/8)^3) / (1/8)
        (1.0, {"proximal": 16.0}),  # moves to 1, back to 0 and to 1 again
    ],
)
def test_effective_steps_are_the_sum_of_the_factors_of_gradients(expected: float, settings: dict[str, Any]) -> None:
    assert Training(lr=0.125, batch_size=10, **settings).effective_steps(25) == expected


def test_a_round_ends_with_its_slowest_client_or_near_the_deadline() -> None:
    _, records = play(FedNova(), compute=[1.0, 10.0], clients=2, horizon=15.0)
    assert records.commits["time"].tolist() == [10.0]
    _, records = play(FedNova(deadline_s=5.0), compute=[1.0, 10.0], clients=2, examples=100, horizon=6.0)
    assert records.visits["finished"].tolist()[:2] == [1.0, 5.0]
    assert records.commits["time"].tolist() == [5.0]


def test_unusable_values_are_refused() -> None:
    for fields in ({"clients_per_round": 0}, {"mu": -1.0}, {"deadline_s": 0.0}):
        with pytest.raises(ValidationError, match=next(iter(fields))):
            FedNova(**fields)  # type: ignore[arg-type]
