"""SAFA: which updates a round merges, which wait, and who must begin anew, worked out by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError
from torch import nn

from fedtempo.learning.training import Training
from fedtempo.strategies import SAFA
from tests.runtime.learning import Built, Learned, learn
from tests.runtime.world import play

PULLED, STILL = (np.array([[1.0]]), np.array([[3.0]])), (np.zeros((1, 1)),) * 2
"""Loss (w x - y)^2: a step of 1/8 moves the first to w + (3 - w) / 4, the second not at all."""


def line() -> nn.Linear:
    layer = nn.Linear(1, 1, bias=False).double()
    nn.init.constant_(layer.weight, 1.0)
    return layer


def learned(commits: int, **options: Any) -> Learned:
    """Play C = 1/2, so 2 of 4 clients, whose visits take 1, 2, 3 and 10 s. The last two learn nothing."""
    return learn(
        SAFA(fraction=0.5, **options),
        Built(line),
        [PULLED, PULLED, STILL, STILL],
        n_outputs=1,
        training=Training(lr=0.125, loss="squared", steps=1),
        commits=commits,
        compute=[1.0, 2.0, 3.0, 10.0],
    )


@pytest.mark.usefixtures("double")
def test_updates_beyond_the_quota_wait_in_the_cache_for_the_next_round() -> None:
    """W = w_k = 1 at first. Sums of powers of 2: the arithmetic is exact.

    Round 1, until 2 s: clients 0 and 1 bring 1.5. W = (1.5 + 1.5 + 1 + 1) / 4 = 1.25.
    Round 2, until 10 s: clients 0 and 1 bring 1.25 + 1.75 / 4 = 1.6875 at 3 and 4 s, but were merged last; clients 2
    and 3, which began with 1, bring it at 3 and 10 s. W = (1.5 + 1.5 + 1 + 1) / 4 = 1.25, then w_0 = w_1 = 1.6875.
    Round 3, until 12 s: clients 0 and 1 bring 1.25 + 1.75 / 4 again. W = (1.6875 * 2 + 1 + 1) / 4 = 1.34375.
    Round 4, until 20 s: clients 2 and 3 bring 1.25, with which they began round 3, and clients 0 and 1 wait.
    W = (1.6875 * 2 + 1.25 * 2) / 4 = 1.46875.
    """
    for commits, model in enumerate([1.25, 1.25, 1.34375, 1.46875], start=1):
        found = learned(commits, limit_s=100.0)
        assert found.final.tolist() == [model]
    assert found.records.commits["time"].tolist() == [2.0, 10.0, 12.0, 20.0]
    assert found.records.commits["staleness"].tolist() == [0, 1, 0, 1]


@pytest.mark.usefixtures("double")
def test_when_time_is_up_those_merged_last_fill_the_quota() -> None:
    """A round takes 3 s at most. Round 2 ends at 5 s with clients 2, 0 and 1: it merges 2, and 0, which came before 1.

    W = (1.6875 + 1.5 + 1 + 1) / 4 = 1.296875.
    """
    found = learned(2, limit_s=3.0)
    assert found.final.tolist() == [1.296875]
    assert found.records.commits["time"].tolist() == [2.0, 5.0]


@pytest.mark.usefixtures("double")
def test_a_client_that_is_too_old_begins_anew_and_its_cached_model_is_replaced() -> None:
    """tau = 1: clients 2 and 3 are still at version 0 when round 2 begins with version 1, 1.25.

    They begin again at 2 s and bring 1.25 at 5 and 12 s. W = (1.5 + 1.5 + 1.25 + 1.25) / 4 = 1.375.
    """
    found = learned(2, limit_s=100.0, lag_tolerance=1)
    assert found.final.tolist() == [1.375]
    assert found.records.commits["time"].tolist() == [2.0, 12.0]
    visits = found.records.visits
    cut = visits["client"][visits["finished"] == 2.0]
    assert sorted(cut.tolist()) == [1, 2, 3]


@pytest.mark.usefixtures("double")
def test_cached_models_are_weighted_by_examples() -> None:
    """3 examples at 1.5 and 1 at 1: W = (3 * 1.5 + 1) / 4 = 1.375."""
    data = [(np.array([[1.0]] * 3), np.array([[3.0]] * 3)), STILL]
    training = Training(lr=0.125, loss="squared", steps=1)
    found = learn(SAFA(fraction=1.0), Built(line), data, n_outputs=1, training=training, commits=1)
    assert found.final.tolist() == pytest.approx([1.375], rel=1e-15)


def test_a_round_ends_when_all_have_reported_even_if_all_were_merged_last() -> None:
    _, records = play(SAFA(fraction=1.0), compute=[1.0, 4.0], clients=2, horizon=9.0)
    assert records.commits["time"].tolist() == [4.0, 8.0]


def test_unusable_values_are_refused() -> None:
    for fields in ({"fraction": 0.0}, {"lag_tolerance": 0}, {"limit_s": 0.0}):
        with pytest.raises(ValidationError, match=next(iter(fields))):
            SAFA(**fields)  # type: ignore[arg-type]
