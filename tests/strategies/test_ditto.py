"""Ditto: own models tied to the global one, worked out by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError
from torch import nn

from fedtempo.learning.training import Training
from fedtempo.strategies import Ditto
from tests.runtime.learning import Built, Learned, learn
from tests.runtime.world import play

CLIENTS = [(np.array([[1.0]]), np.array([[3.0]])), (np.array([[2.0]] * 3), np.array([[1.0]] * 3))]
"""Loss (w x - y)^2, so the gradients are 2 (w - 3) and 8 w - 4."""


def line() -> nn.Linear:
    layer = nn.Linear(1, 1, bias=False).double()
    nn.init.constant_(layer.weight, 1.0)
    return layer


def learned(strategy: Any, commits: int) -> Learned:
    training = Training(lr=0.125, loss="squared", steps=2, full_batch=True)
    return learn(strategy, Built(line), CLIENTS, n_outputs=1, training=training, commits=commits)


def own(found: Learned) -> list[float]:
    return [kept.personal.item() for kept in found.kept if kept.personal is not None]


@pytest.mark.usefixtures("double")
def test_own_models_are_pulled_towards_the_global_one() -> None:
    """lam = 1, two steps of 1/8 on each model, all from 1 at first.

    Round 1, w = 1. Client 0: v: -4, 1.5; -3 + 0.5, v_0 = 1.8125. w: -4, 1.5; -3, 1.875. Client 1: v: 4, 0.5; 0 - 0.5,
    v_1 = 0.5625. w: 4, 0.5; 0, 0.5. The mean, with equal weights, is w = 1.1875.

    Round 2. Client 0: v: -2.375 + 0.625, 2.03125; -1.9375 + 0.84375, v_0 = 2.16796875. w: -3.625, 1.640625; -2.71875,
    1.98046875. Client 1: v: 0.5 - 0.625, 0.578125; 0.625 - 0.609375, v_1 = 0.576171875. w: 5.5, 0.5; 0, 0.5.
    The mean is 1.240234375.
    """
    for commits, weight, models in ((1, 1.1875, [1.8125, 0.5625]), (2, 1.240234375, [2.16796875, 0.576171875])):
        found = learned(Ditto(), commits)
        assert found.final.tolist() == pytest.approx([weight], rel=1e-12)
        assert own(found) == pytest.approx(models, rel=1e-12)


@pytest.mark.usefixtures("double")
def test_without_the_tie_own_models_are_those_of_local_training() -> None:
    """lam = 0, one step per round. Client 0: -4, v = 1.5; -3, v = 1.875. Client 1: 4, v = 0.5; 0, v = 0.5.

    The global model is the same as above.
    """
    found = learned(Ditto(lam=0.0, personal_steps=1), 2)
    assert own(found) == pytest.approx([1.875, 0.5], rel=1e-12)
    assert found.final.tolist() == pytest.approx([1.240234375], rel=1e-12)


def test_a_visit_takes_the_time_of_all_its_steps() -> None:
    for personal_steps, times in ((None, [4.0, 8.0]), (5, [3.0, 6.0, 9.0])):  # a visit as configured has 10 steps
        strategy = Ditto(personal_steps=personal_steps)
        _, records = play(strategy, compute=[1.0, 2.0], clients=2, examples=100, horizon=9.0)
        assert records.commits["time"].tolist() == times


def test_unusable_values_are_refused() -> None:
    for fields in ({"clients_per_round": 0}, {"lam": -1.0}, {"personal_steps": 0}):
        with pytest.raises(ValidationError, match=next(iter(fields))):
            Ditto(**fields)  # type: ignore[arg-type]
