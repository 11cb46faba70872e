"""FedRep: heads first and then the body, worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
from pydantic import ValidationError
from torch import nn

from fedtempo.errors import ConfigError
from fedtempo.learning.exchange import Exchange
from fedtempo.learning.training import Training
from fedtempo.strategies import FedRep
from tests.runtime.learning import Built, Learned, learn
from tests.runtime.world import play

CLIENTS = [(np.array([[1.0]]), np.array([[3.0]])), (np.array([[2.0]] * 3), np.array([[1.0]] * 3))]
"""Loss (w x + b - y)^2; w travels and b is each client's own."""


def affine() -> nn.Linear:
    layer = nn.Linear(1, 1).double()
    nn.init.constant_(layer.weight, 1.0)
    nn.init.constant_(layer.bias, 0.0)
    return layer


def learned(commits: int, local: tuple[str, ...] = ("bias",)) -> Learned:
    return learn(
        FedRep(head_epochs=2, body_epochs=1),
        Built(affine),
        CLIENTS,
        n_outputs=1,
        training=Training(lr=0.125, loss="squared", full_batch=True),
        commits=commits,
        exchange=Exchange(local=local),
    )


@pytest.mark.usefixtures("double")
def test_heads_are_trained_before_the_body() -> None:
    """Steps of 1/8: two on b, one on w; the gradients are 2 e and 2 e x with the error e. All numbers are exact.

    Round 1, w = 1. Client 0: e = -2, b = 0.5; e = -1.5, b = 0.875; e = -1.125, w = 1.28125. Client 1: e = 1,
    b = -0.25; e = 0.75, b = -0.4375; e = 0.5625, w = 0.71875. The mean is (1.28125 + 3 * 0.71875) / 4 = 0.859375.

    Round 2. Client 0: e = -1.265625, b = 1.19140625; e = -0.94921875, b = 1.4287109375; e = -0.7119140625,
    w = 1.037353515625. Client 1: e = 0.28125, b = -0.5078125; e = 0.2109375, b = -0.560546875; e = 0.158203125,
    w = 0.7802734375. The mean is 0.84454345703125.
    """
    for commits, weight, heads in (
        (1, 0.859375, [0.875, -0.4375]),
        (2, 0.84454345703125, [1.4287109375, -0.560546875]),
    ):
        found = learned(commits)
        assert found.final.tolist() == [weight, 0.0]
        assert [kept.local.item() for kept in found.kept if kept.local is not None] == heads


@pytest.mark.usefixtures("double")
def test_without_local_layers_there_is_no_head() -> None:
    with pytest.raises(ConfigError, match="clients have no heads of their own; list the last layers"):
        learned(1, local=())


def test_a_visit_takes_the_time_of_all_its_epochs() -> None:
    _, records = play(FedRep(head_epochs=2, body_epochs=1), compute=[1.0, 2.0], clients=2, horizon=13.0)
    assert records.commits["time"].tolist() == [6.0, 12.0]


def test_unusable_values_are_refused() -> None:
    for fields in ({"clients_per_round": 0}, {"head_epochs": 0}, {"body_epochs": 0}):
        with pytest.raises(ValidationError, match=next(iter(fields))):
            FedRep(**fields)  # type: ignore[arg-type]
