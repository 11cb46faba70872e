"""FedDyn against Algorithm 1 of Acar et al. 2021, worked out by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError
from torch import nn

from fedtempo.learning.training import Training
from fedtempo.strategies import FedAvg, FedDyn
from tests.runtime.learning import Built, Learned, learn
from tests.runtime.world import play

CLIENTS = [(np.array([[1.0]]), np.array([[3.0]])), (np.array([[2.0]]), np.array([[1.0]]))]
"""Loss (w x - y)^2, so the gradients are 2 (w - 3) and 8 w - 4; the sum of both losses is smallest at w = 1."""


def line() -> nn.Linear:
    layer = nn.Linear(1, 1, bias=False).double()
    nn.init.constant_(layer.weight, 1.0)
    return layer


def learned(strategy: Any, commits: int, steps: int = 2) -> Learned:
    training = Training(lr=0.125, loss="squared", steps=steps)
    return learn(strategy, Built(line), CLIENTS, n_outputs=1, training=training, commits=commits)


def gradients(found: Learned) -> list[float | None]:
    return [kept.tensors["gradient"].item() if "gradient" in kept.tensors else None for kept in found.kept]


@pytest.mark.usefixtures("double")
def test_two_rounds_of_two_clients() -> None:
    """alpha = 1, two steps of 1/8, g_i = h = 0 and w = 1 at first. All numbers are sums of powers of 2.

    Round 1. Client 0: -4, v = 1.5; -3 + 0.5, v = 1.8125; g_0 = -0.8125. Client 1: 4, v = 0.5; 0 - 0.5, v = 0.5625;
    g_1 = 0.4375. h = -(0.8125 - 0.4375) / 2 = -0.1875, w = 1.1875 + 0.1875 = 1.375.

    Round 2. Client 0: -3.25 + 0.8125 = -2.4375, v = 1.6796875; -2.640625 + 0.8125 + 0.3046875 = -1.5234375,
    v = 1.8701171875; g_0 = -0.8125 - 0.4951171875 = -1.3076171875. Client 1: 7 - 0.4375 = 6.5625, v = 0.5546875;
    0.4375 - 0.4375 - 0.8203125, v = 0.6572265625; g_1 = 0.4375 + 0.7177734375 = 1.1552734375.
    The mean is 1.263671875, h = -0.1875 - (1.263671875 - 1.375) = -0.076171875, w = 1.263671875 + 0.076171875.
    """
    first, second = (learned(FedDyn(alpha=1.0), commits) for commits in (1, 2))
    assert first.final.tolist() == [1.375]
    assert gradients(first) == [-0.8125, 0.4375]
    assert second.final.tolist() == [1.33984375]
    assert gradients(second) == [-1.3076171875, 1.1552734375]


@pytest.mark.usefixtures("double")
def test_absent_clients_keep_their_gradient_and_count_in_the_servers_state() -> None:
    """With one of two clients, alpha = 2: h moves by half of its change, and w is its model minus h / 2."""
    rounds = [learned(FedDyn(clients_per_round=1, alpha=2.0), commits) for commits in (1, 2, 3, 4)]
    weight, h, own = 1.0, 0.0, [0.0, 0.0]
    for number, found in enumerate(rounds):
        before = gradients(rounds[number - 1]) if number else [None, None]
        (client,) = [i for i in (0, 1) if gradients(found)[i] != before[i]]
        slope, constant = ((2, -6), (8, -4))[client]
        v = weight
        for _ in range(2):
            v -= 0.125 * (slope * v + constant - own[client] + 2 * (v - weight))
        own[client] -= 2 * (v - weight)
        h -= 2 / 2 * (v - weight)
        weight = v - h / 2
        assert found.final.tolist() == [weight]
        assert gradients(found)[client] == own[client]


@pytest.mark.usefixtures("double")
def test_it_converges_to_the_optimum_of_the_sum_however_long_clients_train() -> None:
    """FedAvg with so many steps ends near the mean of the clients' optima 3 and 0.5."""
    assert learned(FedDyn(alpha=2.0), 40, steps=25).final.tolist() == pytest.approx([1.0], abs=1e-3)
    assert learned(FedAvg(), 20, steps=40).final.tolist() == pytest.approx([1.75], abs=1e-3)


def test_it_sends_as_many_bytes_as_fedavg_and_waits_for_the_slowest() -> None:
    link = {"kind": "rates", "download_bps": 1e6, "upload_bps": 1e6}
    for strategy in (FedAvg(), FedDyn()):
        _, records = play(strategy, compute=[1.0, 3.0], link=link, clients=2, size_bytes=125_000, horizon=11.0)
        assert records.commits["time"].tolist() == [5.0, 10.0]


def test_unusable_values_are_refused() -> None:
    for fields in ({"clients_per_round": 0}, {"alpha": 0.0}):
        with pytest.raises(ValidationError, match=next(iter(fields))):
            FedDyn(**fields)  # type: ignore[arg-type]
