"""Power-of-Choice: which candidates train, worked out by hand from the paper's three variants."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError
from torch import nn

from fedtempo.learning.training import Training
from fedtempo.strategies import PowerOfChoice
from tests.runtime.learning import Built, Learned, learn
from tests.runtime.world import play

CLIENTS = [(np.array([[1.0]]), np.array([[3.0]])), (np.array([[2.0]]), np.array([[1.0]]))]
"""Losses (w - 3)^2 and (2 w - 1)^2, so the gradients are 2 (w - 3) and 8 w - 4."""


def line() -> nn.Linear:
    layer = nn.Linear(1, 1, bias=False).double()
    nn.init.constant_(layer.weight, 1.0)
    return layer


def learned(strategy: PowerOfChoice, commits: int, clients: Any = CLIENTS, **options: Any) -> Learned:
    training = Training(lr=0.125, loss="squared", batch_size=1)
    return learn(strategy, Built(line), clients, n_outputs=1, training=training, commits=commits, **options)


def trained(found: Learned) -> list[int]:
    visits = found.records.visits
    return visits["client"][visits["examples"] > 0].tolist()  # type: ignore[no-any-return]


@pytest.mark.usefixtures("double")
@pytest.mark.parametrize("variant", ["pow-d", "cpow-d"])
def test_the_client_with_the_highest_loss_of_the_global_model_trains(variant: Any) -> None:
    """d = 2, m = 1, one step with rate 1/8; with one example each, the mini-batch is all of it.

    w = 1: losses 4 and 1, client 0 trains: w = 1 + 4/8 = 1.5. Losses 2.25 and 4, client 1: w = 1.5 - 8/8 = 0.5. Losses
    6.25 and 0, client 0: w = 0.5 + 5/8 = 1.125. Losses 3.515625 and 1.5625, client 0: w = 1.125 + 3.75/8 = 1.59375.
    """
    found = learned(PowerOfChoice(candidates=2, clients_per_round=1, variant=variant), 4)
    assert trained(found) == [0, 1, 0, 0]
    assert found.final.tolist() == [1.59375]
    visits = found.records.visits
    assert visits["loss"][visits["examples"] == 0].tolist() == [4.0, 1.0, 2.25, 4.0, 6.25, 0.0, 3.515625, 1.5625]


@pytest.mark.usefixtures("double")
def test_pow_d_measures_all_examples_and_cpow_d_some() -> None:
    """At w = 1 the losses are client 0: (4 + 0) / 2 = 2 or, with b = 1, 4 or 0; client 1: 1."""
    clients = [(np.array([[1.0], [1.0]]), np.array([[3.0], [1.0]])), CLIENTS[1]]
    for variant, of_client_0 in (("pow-d", {2.0}), ("cpow-d", {4.0, 0.0})):
        strategy = PowerOfChoice(candidates=2, clients_per_round=1, variant=variant, batch=1)  # type: ignore[arg-type]
        found = learned(strategy, 1, clients)
        visits = found.records.visits
        measured = dict(zip(visits["client"][:2].tolist(), visits["loss"][:2].tolist(), strict=True))
        assert measured[1] == 1.0
        assert measured[0] in of_client_0
        assert trained(found) == [0 if measured[0] > 1.0 else 1]


@pytest.mark.usefixtures("double")
def test_rpow_d_goes_by_the_losses_of_the_last_training() -> None:
    """Both train once, since a client that never trained has an infinite loss; client 1's data are now (2, 2).

    If client 0 was first, its loss was 4 and w = 1.5, then that of client 1 was 1 and w = 1.5 - 4/8 = 1; if client 1
    was first, its loss was 0 and w stayed 1, then that of client 0 was 4 and w = 1.5. In the third round client 0 has
    the higher last loss either way, although at w = 1.5 client 1's would be 1 and not 0.
    """
    clients = [CLIENTS[0], (np.array([[2.0]]), np.array([[2.0]]))]
    found = learned(PowerOfChoice(candidates=2, clients_per_round=1, variant="rpow-d"), 3, clients)
    assert trained(found) in ([0, 1, 0], [1, 0, 0])
    assert found.final.tolist() == [1.5 if trained(found)[0] == 0 else 1.875]
    assert (found.records.visits["examples"] > 0).all()


@pytest.mark.usefixtures("double")
def test_models_have_equal_weights() -> None:
    """Client 0 has its example twice: from w = 1 it makes two steps, w = 1.5 and 1.875; client 1 makes one, w = 0.5."""
    clients = [(np.array([[1.0], [1.0]]), np.array([[3.0], [3.0]])), CLIENTS[1]]
    assert learned(PowerOfChoice(candidates=2, clients_per_round=2), 1, clients).final.tolist() == [(1.875 + 0.5) / 2]


def test_candidates_answer_before_the_chosen_train() -> None:
    """A visit: 1 s down, 3 or 6 s of computing, 1 s up. An evaluation computes a third, and its 16 bytes take 16 us.

    Both candidates have answered at 1 + 6/3 + 0.000016 s. Without training all losses are equal: either may train.
    """
    link = {"kind": "rates", "download_bps": 8e6, "upload_bps": 8e6}
    for seed in range(4):
        _, records = play(
            PowerOfChoice(candidates=2, clients_per_round=1),
            compute=[3.0, 6.0],
            link=link,
            clients=2,
            max_commits=1,
            horizon=None,
            seed=seed,
        )
        visits = records.visits
        assert visits["examples"].tolist() == [0, 0, 10]
        assert visits["finished"][:2] == pytest.approx([2.000016, 3.000016], abs=1e-9)
        assert visits["started"][2] == visits["finished"][1]
        assert visits["finished"][2] == pytest.approx(3.000016 + 2 + [3.0, 6.0][int(visits["client"][2])])
        assert records.facts["bytes"]["up"] == 1_000_000 + 2 * 16


def test_candidates_are_drawn_by_their_shares_of_the_data() -> None:
    """One candidate per round, 400 rounds, p = 0.9: 5 standard deviations of the share are 5 sqrt(0.09 / 400)."""
    _, records = play(
        PowerOfChoice(candidates=1, clients_per_round=1, variant="rpow-d"), clients=2, examples=[90, 10], horizon=400.0
    )
    assert abs(np.mean(records.visits["client"] == 0) - 0.9) < 5 * np.sqrt(0.09 / 400)


def test_a_candidate_that_does_not_answer_is_not_chosen() -> None:
    windows = {"kind": "windows", "windows": [[[0.0, 100.0]], []]}
    _, records = play(
        PowerOfChoice(candidates=2, clients_per_round=1),
        clients=2,
        availability=windows,
        horizon=10.0,
        estimates="exact",
    )
    done = records.visits["outcome"] == "done"
    assert set(records.visits["client"][done].tolist()) == {0}
    assert records.commits["version"].size >= 3


def test_all_clients_have_their_turn_if_all_losses_are_equal() -> None:
    _, records = play(PowerOfChoice(candidates=4, clients_per_round=1), clients=4, horizon=60.0)
    trains = records.visits["examples"] > 0
    assert set(records.visits["client"][trains].tolist()) == {0, 1, 2, 3}


def test_unusable_values_are_refused() -> None:
    with pytest.raises(ValidationError, match="candidates = 3 must be at least clients_per_round = 4"):
        PowerOfChoice(candidates=3, clients_per_round=4)
    for fields in ({"variant": "pow"}, {"batch": 0}, {"evaluation_cost": 0.0}):
        with pytest.raises(ValidationError, match=next(iter(fields))):
            PowerOfChoice(**fields)  # type: ignore[arg-type]
