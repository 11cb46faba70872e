"""TiFL: profiling, tiers, credits and chances, worked out by hand from Alg. 2."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError
from torch import nn

from fedtempo.errors import ConfigError
from fedtempo.learning.training import Training
from fedtempo.strategies import TiFL
from tests.runtime.learning import Built, learn
from tests.runtime.world import play

SIX = [1.0, 4.0, 2.0, 6.0, 3.0, 5.0]
"""In two tiers of equal size: clients 0, 2, 4 and 1, 3, 5."""


def tiers_of(records: Any) -> list[list[int]]:
    (tiers,) = [value for name, value in records.notes if name == "tiers"]
    return tiers  # type: ignore[no-any-return]


def rounds(records: Any) -> list[list[int]]:
    """Return the clients of each round of training, without the profiling."""
    visits = records.visits
    trains = (visits["examples"] > 0) & (visits["base_version"] >= 0)
    asked, clients = visits["queued"][trains], visits["client"][trains]
    return [clients[asked == instant].tolist() for instant in np.unique(asked)][1:]


def test_profiling_takes_the_time_of_the_slowest_and_forms_the_tiers() -> None:
    """Two rounds of 6 s, then an evaluation of a third: 2 s. Rounds of the tiers take 3 and 6 s."""
    _, records = play(TiFL(tiers=2, profiling_rounds=2), compute=SIX, clients=6, horizon=40.0)
    assert tiers_of(records) == [[0, 2, 4], [1, 3, 5]]
    took = np.diff([14.0, *records.commits["time"].tolist()])
    first_ten = [set(clients) for clients in rounds(records)[1:11]]
    assert all(
        seconds == (3.0 if clients == {0, 2, 4} else 6.0) for seconds, clients in zip(took, first_ten, strict=False)
    )
    assert records.commits["time"][0] in (17.0, 20.0)


def test_without_profiling_estimates_decide() -> None:
    _, records = play(TiFL(tiers=3, profiling_rounds=0), compute=SIX, clients=6, horizon=4.0)
    assert tiers_of(records) == [[0, 2], [1, 4], [3, 5]]
    assert records.visits["examples"][:6].tolist() == [0] * 6  # evaluations come first


def test_clients_that_do_not_answer_in_time_are_in_no_tier() -> None:
    """Two rounds of at most 4.5 s: clients 3 and 5 miss both, 9 s = 2 * Tmax. Client 1 is there only at first, so its
    latency is (4 + 4.5) / 2 = 4.25 s.
    """
    windows = [[[0.0, 1000.0]]] * 6
    windows[1] = [[0.0, 4.2]]
    _, records = play(
        TiFL(tiers=2, profiling_rounds=2, profiling_limit_s=4.5, kind="equal-width"),
        compute=SIX,
        clients=6,
        availability={"kind": "windows", "windows": windows},
        horizon=30.0,
    )
    assert tiers_of(records) == [[0, 2], [1, 4]]  # from 1 to 4.25 s: the first bin ends at 2.625 s
    assert records.visits["started"][records.visits["examples"] == 0].min() == 9.0


def test_credits_limit_the_rounds_of_each_tier_until_all_are_used_up() -> None:
    """Of every five rounds three are the fast tier's and two the slow one's."""
    strategy = TiFL(tiers=2, credits=(3, 2), clients_per_round=1, interval=1000)
    _, records = play(strategy, compute=SIX, clients=6, horizon=400.0)
    fast = [clients[0] in (0, 2, 4) for clients in rounds(records)]
    assert [sum(fast[start : start + 5]) for start in range(0, len(fast) - 4, 5)] == [3] * (len(fast) // 5)
    assert len({tuple(fast[start : start + 5]) for start in range(0, len(fast) - 4, 5)}) > 1


def test_tiers_have_equal_chances_and_clients_of_a_tier_too() -> None:
    """With 300 rounds: 5 standard deviations of a share of 1/2 are 5 * sqrt(1/4 / 300)."""
    strategy = TiFL(tiers=2, clients_per_round=2, interval=1000)
    _, records = play(strategy, compute=SIX, clients=6, max_commits=300, horizon=None)
    played = rounds(records)[:300]
    fast = np.mean([clients[0] in (0, 2, 4) for clients in played])
    assert abs(fast - 0.5) < 5 * np.sqrt(0.25 / 300)
    counts = Counter(client for clients in played for client in clients)
    assert min(counts.values()) > 300 * 0.5 * 2 / 3 * 0.6
    assert all(len(set(clients)) == 2 for clients in played)


def line() -> nn.Linear:
    layer = nn.Linear(1, 1, bias=False).double()
    nn.init.constant_(layer.weight, 1.0)
    return layer


@pytest.mark.usefixtures("double")
def test_chances_change_if_the_drawn_tier_has_not_become_better() -> None:
    """Client 0 alone is fast, client 1 slow; the rate is so large that each training makes its own loss larger.

    Client 0: (w - 3)^2 with gradient 2 (w - 3), client 1: (w - 2)^2; a step is -1.5 times the gradient, so w - 3 or
    w - 2 becomes -2 times itself. At w = 1 the losses are 4 and 1. If client 0 trains, w = 7 and they are 16 and 25:
    neither is better than before, and client 1's tier is the worse one: chances 1/3 and 2/3. If client 1 trains, w = 4
    and they are 1 and 4: client 0's tier has become better, but client 1 trained, and its tier has not: 1/3 and 2/3.
    """
    clients = [(np.array([[1.0]]), np.array([[y]])) for y in (3.0, 2.0)]
    strategy = TiFL(tiers=2, clients_per_round=1, interval=1)
    training = Training(lr=1.5, loss="squared")
    found = learn(strategy, Built(line), clients, n_outputs=1, training=training, commits=2, compute=[1.0, 2.0])
    chances = [value for name, value in found.records.notes if name == "tier_chances"]
    assert chances[0] == pytest.approx([1 / 3, 2 / 3])


@pytest.mark.usefixtures("double")
def test_chances_stay_while_the_drawn_tier_becomes_better() -> None:
    """Both clients want w = 3, and steps are small: both losses fall in every round."""
    clients = [(np.array([[1.0]]), np.array([[3.0]]))] * 2
    training = Training(lr=0.125, loss="squared")
    strategy = TiFL(tiers=2, clients_per_round=1, interval=1)
    found = learn(strategy, Built(line), clients, n_outputs=1, training=training, commits=4, compute=[1.0, 2.0])
    assert [name for name, _ in found.records.notes] == ["tiers"]
    assert found.final.tolist() == [3 - 2 * 0.75**4]


def test_unusable_values_are_refused() -> None:
    for fields in ({"tiers": 0}, {"interval": 0}, {"credits": (0,)}, {"profiling_rounds": -1}, {"kind": "equal"}):
        with pytest.raises(ValidationError, match=next(iter(fields))):
            TiFL(**fields)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"strategy\.credits: 3 numbers for 2 tiers; give one for each$"):
        play(TiFL(tiers=2, credits=(1, 2, 3)), horizon=10.0)
