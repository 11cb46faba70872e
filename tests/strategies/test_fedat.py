"""FedAT: rounds of tiers and the server's mean, worked out by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError
from torch import nn

from fedtempo.learning.training import Training
from fedtempo.strategies import FedAT
from fedtempo.strategies.planning.tiers import mirrored_shares
from tests.runtime.learning import Built, learn
from tests.runtime.world import play

CLIENTS = [(np.array([[1.0]]), np.array([[3.0]])), (np.array([[2.0]]), np.array([[1.0]]))]
"""Losses (w - 3)^2 and (2 w - 1)^2. A step with rate 1/8 moves w to w + (3 - w) / 4, and to 1/2 wherever it was."""


def line() -> nn.Linear:
    layer = nn.Linear(1, 1, bias=False).double()
    nn.init.constant_(layer.weight, 1.0)
    return layer


def final(strategy: FedAT, commits: int, clients: Any = CLIENTS, steps: int = 1) -> float:
    training = Training(lr=0.125, loss="squared", steps=steps)
    compute = [1.0, 2.5][: len(clients)]
    found = learn(
        strategy, Built(line), clients, n_outputs=1, training=training, commits=commits, compute=compute
    ).final.tolist()
    return float(found[0])


@pytest.mark.usefixtures("double")
def test_the_server_weighs_a_tier_by_the_rounds_of_its_counterpart() -> None:
    """Two tiers of one client, which take 1 and 2.5 s; w = w_1 = w_2 = 1 at first.

    At 1 and 2 s tier 1 brings w_1 = 1 + 2/4 = 1.5; T = (1, 0) and (2, 0), so w = 0 w_1 + 1 w_2 = 1. At 2.5 s tier 2
    brings w_2 = 1/2: T = (2, 1), w = 1/3 * 3/2 + 2/3 * 1/2 = 5/6. At 3 s tier 1, from w = 1 at 2 s, brings 3/2: T = (3,
    1), w = 1/4 * 3/2 + 3/4 * 1/2 = 3/4. At 4 s tier 1, from 3/4, brings 3/4 + 9/16 = 21/16: T = (4, 1), w = 1/5 * 21/16
    + 4/5 * 1/2 = 53/80.
    """
    strategy = FedAT(tiers=2, profiling_rounds=0, proximal=0.0)
    found = [final(strategy, commits) for commits in (1, 2, 3, 4, 5)]
    assert found == pytest.approx([1.0, 1.0, 5 / 6, 3 / 4, 53 / 80], abs=1e-12)


@pytest.mark.usefixtures("double")
def test_with_a_head_start_the_first_round_counts() -> None:
    """T = (2, 1) at 1 s: w = 1/3 * 3/2 + 2/3 * 1 = 7/6."""
    strategy = FedAT(tiers=2, profiling_rounds=0, proximal=0.0, head_start=1)
    assert final(strategy, 1) == pytest.approx(7 / 6, abs=1e-12)


@pytest.mark.usefixtures("double")
def test_clients_stay_near_the_model_they_received() -> None:
    """One tier. Steps of client 0 with lambda = 2: gradients -4, then -3 + 2 (1.5 - 1) = -2: w = 1 + 4/8 + 2/8."""
    assert final(FedAT(profiling_rounds=0, proximal=2.0), 1, CLIENTS[:1], steps=2) == 1.75


@pytest.mark.usefixtures("double")
def test_a_tiers_model_is_the_mean_of_its_clients_by_examples() -> None:
    """One tier; client 0 with its example three times and client 1 with one: (3 * 1.5 + 1 * 0.5) / 4 = 1.25."""
    clients = [tuple(np.repeat(part, 3, axis=0) for part in CLIENTS[0]), CLIENTS[1]]
    assert final(FedAT(tiers=1, profiling_rounds=0, proximal=0.0), 1, clients) == pytest.approx(1.25, abs=1e-12)


def test_weights_of_three_tiers() -> None:
    assert mirrored_shares([6, 3, 1]) == [0.1, 0.3, 0.6]


def test_tiers_do_not_wait_for_each_other() -> None:
    """Profiling takes 4 s. Then tier 1, clients 0 and 1, has a round every 2 s, tier 2 one every 4 s.

    At 8 and 12 s both end; the round that began first is first. At 8 s tier 2 has missed a commit, then tier 1 one;
    tier 2 begins again between the two, so it misses that of tier 1 at 8 s and that at 10 s.
    """
    strategy = FedAT(tiers=2)
    _, records = play(strategy, compute=[1.0, 2.0, 3.5, 4.0], horizon=12.0)
    assert records.commits["time"].tolist() == [6.0, 8.0, 8.0, 10.0, 12.0, 12.0]
    assert records.commits["staleness"].tolist() == [0, 1, 1, 0, 2, 1]
    visits = records.visits
    last = visits["started"] == 8.0
    assert set(visits["client"][last].tolist()) == {0, 1, 2, 3}


def test_a_round_draws_clients_of_one_tier() -> None:
    strategy = FedAT(tiers=2, clients_per_round=1, profiling_rounds=0)
    _, records = play(strategy, compute=[1.0, 1.0, 1.0, 4.0, 4.0, 4.0], clients=6, horizon=40.0)
    visits = records.visits
    for tier, seconds in (({0, 1, 2}, 1.0), ({3, 4, 5}, 4.0)):
        of_tier = np.isin(visits["client"], list(tier))
        assert set(visits["client"][of_tier].tolist()) == tier
        assert sorted(visits["started"][of_tier].tolist()) == np.arange(0.0, 40.0, seconds).tolist()


def test_unusable_values_are_refused() -> None:
    for fields in ({"tiers": 0}, {"proximal": -1.0}, {"head_start": -1}, {"clients_per_round": 0}):
        with pytest.raises(ValidationError, match=next(iter(fields))):
            FedAT(**fields)  # type: ignore[arg-type]
