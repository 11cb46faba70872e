"""SCAFFOLD against Algorithm 1 of Karimireddy et al. 2020, worked out by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from torch import nn

from fedtempo.errors import ConfigError
from fedtempo.learning.exchange import Exchange
from fedtempo.learning.schedules import Linear
from fedtempo.learning.training import Training
from fedtempo.runs.config import parse
from fedtempo.runs.run import run
from fedtempo.strategies import FedAvg, Scaffold
from tests.runtime.learning import Built, Learned, learn
from tests.runtime.world import play
from tests.strategies.test_every_strategy import BASE

CLIENTS = [(np.array([[1.0]]), np.array([[3.0]])), (np.array([[2.0]]), np.array([[1.0]]))]
"""Loss (w x - y)^2, so the gradients are 2 (w - 3) and 8 w - 4."""


def line() -> nn.Linear:
    layer = nn.Linear(1, 1, bias=False).double()
    nn.init.constant_(layer.weight, 1.0)
    return layer


def learned(strategy: Any, commits: int, clients: Any = CLIENTS, **options: Any) -> Learned:
    training = Training(lr=0.125, loss="squared", steps=2)
    return learn(strategy, Built(line), clients, n_outputs=1, training=training, commits=commits, **options)


def controls(found: Learned) -> list[float | None]:
    return [kept.tensors["control"].item() if "control" in kept.tensors else None for kept in found.kept]


# All numbers are sums of powers of 2, so the arithmetic is exact.


@pytest.mark.usefixtures("double")
def test_option_2_takes_the_mean_gradient_of_the_steps() -> None:
    """Two local steps with 1/8 from w = 1, c = 0.

    Round 1. Client 0: gradients -4 and -3, w = 1.5, 1.875, c_0 = (1 - 1.875) / (2/8) = -3.5. Client 1: gradients 4 and
    0, w = 0.5, 0.5, c_1 = 2. The mean is 1.1875, and c = (-3.5 + 2) / 2 = -0.75.

    Round 2. Client 0 adds c - c_0 = 2.75: -3.625 + 2.75 = -0.875, w = 1.296875; -3.40625 + 2.75, w = 1.37890625;
    c_0 = -3.5 + 0.75 + (1.1875 - 1.37890625) / (2/8) = -3.515625. Client 1 adds -2.75: 5.5 - 2.75 = 2.75, w = 0.84375;
    2.75 - 2.75 = 0; c_1 = 2 + 0.75 + (1.1875 - 0.84375) / (2/8) = 4.125. The mean is 1.111328125.

    Round 3 begins with c = (-3.515625 + 4.125) / 2 = 0.3046875. Client 0 adds 3.8203125, client 1 -3.8203125.
    """
    first, second, third = (learned(Scaffold(), commits) for commits in (1, 2, 3))
    assert first.final.tolist() == [1.1875]
    assert controls(first) == [-3.5, 2.0]
    assert second.final.tolist() == [1.111328125]
    assert controls(second) == [-3.515625, 4.125]
    ends = []
    for slope, constant, added in ((2, -6, 3.8203125), (8, -4, -3.8203125)):
        weight = 1.111328125
        for _ in range(2):
            weight -= 0.125 * (slope * weight + constant + added)
        ends.append(weight)
    assert third.final.tolist() == [(ends[0] + ends[1]) / 2]


@pytest.mark.usefixtures("double")
def test_a_rate_of_0_leaves_the_control_variates_as_they_are() -> None:
    """The schedule is 1, 0, 0: after the first round nothing moves, so nothing is learned about gradients."""
    training = Training(lr=0.125, loss="squared", steps=2, schedule=Linear(over=1.0))
    found = learn(Scaffold(), Built(line), CLIENTS, n_outputs=1, training=training, commits=3)
    assert found.final.tolist() == [1.1875]
    assert controls(found) == [-3.5, 2.0]


@pytest.mark.usefixtures("double")
def test_option_1_takes_the_gradient_at_the_received_model() -> None:
    """Round 1 gives the same model; c_0 = -4, c_1 = 4, c = 0.

    Round 2. Client 0 adds 4: -3.625 + 4, w = 1.140625; -3.71875 + 4, w = 1.10546875; c_0 = -3.625. Client 1 adds -4:
    5.5 - 4, w = 1; 4 - 4 = 0; c_1 = 5.5. The mean is 1.052734375.
    """
    first, second = (learned(Scaffold(control="gradient"), commits) for commits in (1, 2))
    assert first.final.tolist() == [1.1875]
    assert controls(first) == [-4.0, 4.0]
    assert second.final.tolist() == [1.052734375]
    assert controls(second) == [-3.625, 5.5]


@pytest.mark.usefixtures("double")
def test_the_servers_step_is_scaled_and_absent_clients_keep_their_control() -> None:
    """The mean 1.1875 moves 0.1875; half of that with eta_g = 0.5. With one client of two, c changes by half."""
    assert learned(Scaffold(server_lr=0.5), 1).final.tolist() == [1.09375]
    alone = [learned(Scaffold(clients_per_round=1), commits) for commits in (1, 2, 3, 4)]
    drawn = [0 if controls(alone[0])[0] is not None else 1]
    assert controls(alone[0])[1 - drawn[0]] is None
    weight, c, own = 1.0, 0.0, [0.0, 0.0]
    for number, found in enumerate(alone):
        before = controls(alone[number - 1]) if number else [None, None]
        (client,) = [i for i in (0, 1) if controls(found)[i] != before[i]]
        slope, constant = ((2, -6), (8, -4))[client]
        start = weight
        for _ in range(2):
            weight -= 0.125 * (slope * weight + constant + c - own[client])
        new = own[client] - c + (start - weight) / 0.25
        c, own[client] = c + (new - own[client]) / 2, new
        assert found.final.tolist() == [weight]
        assert controls(found)[client] == new


@pytest.mark.usefixtures("double")
def test_the_weights_are_equal_whatever_the_clients_hold() -> None:
    uneven = [(np.array([[1.0]] * 3), np.array([[3.0]] * 3)), CLIENTS[1]]
    assert learned(Scaffold(), 1, uneven).final.tolist() == pytest.approx([1.1875])
    assert learned(FedAvg(), 1, uneven).final.tolist() == pytest.approx([(3 * 1.875 + 0.5) / 4])


@pytest.mark.usefixtures("double")
def test_a_local_parameter_has_no_control_variate() -> None:
    """With a local bias, only the weight travels and is corrected."""

    def affine() -> nn.Linear:
        layer = nn.Linear(1, 1).double()
        nn.init.constant_(layer.weight, 1.0)
        nn.init.constant_(layer.bias, 0.0)
        return layer

    training = Training(lr=0.125, loss="squared", steps=1)
    found = learn(
        Scaffold(),
        Built(affine),
        CLIENTS,
        n_outputs=1,
        training=training,
        commits=1,
        exchange=Exchange(local=("bias",)),
    )
    assert controls(found) == [-4.0, 4.0]
    assert [kept.local.tolist() for kept in found.kept if kept.local is not None] == [[0.5], [-0.25]]
    assert found.final.tolist() == [1.0, 0.0]


def test_control_variates_double_bytes_and_transfer_times() -> None:
    """A number of 4 bytes takes 1 s each way, so a round of SCAFFOLD takes 2 + 1 + 2 s instead of 1 + 1 + 1."""
    link = {"kind": "rates", "download_bps": 32.0, "upload_bps": 32.0}
    single = [(x.astype(np.float32), y.astype(np.float32)) for x, y in CLIENTS]
    for strategy, seconds, factor in ((FedAvg(), 3.0, 1), (Scaffold(), 5.0, 2)):
        found = learn(
            strategy,
            Built(lambda: line().float()),
            single,
            n_outputs=1,
            training=Training(lr=0.125, loss="squared"),
            commits=3,
            link=link,
        )
        assert found.records.commits["time"].tolist() == [seconds, 2 * seconds, 3 * seconds]
        # the downloads of a fourth round begin before the run ends
        assert found.records.facts["bytes"] == {"down": 32 * factor, "up": 24 * factor, "relay": 0}


def test_without_training_the_schedule_has_the_same_times() -> None:
    """A model of 1 Mbit takes 1 s each way, and so does a control variate."""
    link = {"kind": "rates", "download_bps": 1e6, "upload_bps": 1e6}
    _, records = play(Scaffold(), compute=1.0, link=link, clients=2, size_bytes=125_000, max_commits=2, horizon=None)
    assert records.commits["time"].tolist() == [5.0, 10.0]


def test_a_deadline_leaves_time_for_the_control_variates() -> None:
    link = {"kind": "rates", "download_bps": 1e6, "upload_bps": 1e6}
    rules = {"deadline": 1.0}
    _, records = play(
        Scaffold(), compute=1.0, link=link, clients=2, size_bytes=125_000, max_commits=2, horizon=None, server=rules
    )
    assert records.commits["time"].tolist() == [5.0, 10.0]


def test_protected_averages_name_their_setting() -> None:
    config = parse({**BASE, "strategy": {"name": "scaffold"}}).with_changes(
        {"server.privacy": {"clip_norm": 1.0, "noise_multiplier": 1.1}, "executor.kind": "inline"}
    )
    pytest.importorskip("dp_accounting")
    with pytest.raises(ConfigError, match=r"^server\.privacy: this strategy computes with single clients' models"):
        run(config)
