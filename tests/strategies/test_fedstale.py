"""FedStale: fresh and stale changes blended by beta, worked out by hand."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from fedtempo.strategies import FedStale, FedVARP
from tests.runtime.world import play
from tests.strategies.arrivals import Arrivals, in_rounds

LOST = None


def test_stale_changes_count_by_beta_and_fresh_ones_by_how_rarely_their_client_comes() -> None:
    """alpha = (1/4, 3/4), beta = 1/2, step 1; h = 0 and w = 0 at first; first coordinate (the second is its double).

    Round 1: both bring 4 and 8, 1/p = 1: w = 1/4 * 4 + 3/4 * 8 = 7; h = (4, 8).
    Round 2: client 1 brings 4; it came once in one round, 1/p_1 = 1: stale 1/2 * (1/4 * 4 + 3/4 * 8) = 3.5, fresh
    3/4 * (4 - 1/2 * 8) = 0, w = 10.5; h = (4, 4).
    Round 3: client 1 brings 4: stale 1/2 * (1 + 3) = 2, fresh 3/4 * (4 - 2) = 1.5, w = 14.
    Round 4: both bring 4 and 0; client 0 has come once, in round 1, so 1/p_0 = 1: stale 2, fresh 1/4 * (4 - 2) +
    3/4 * (0 - 2) = -1, w = 15; h = (4, 0).
    Round 5: client 0 brings 8; it came in rounds 1 and 4, so its intervals are 1 and 3, and 1/p_0 = 2: stale
    1/2 * (1 + 0) = 0.5, fresh 1/4 * 2 * (8 - 2) = 3, w = 18.5.
    """
    fed = Arrivals(2, examples=[10, 30])
    models = fed.play(FedStale(), *in_rounds((4.0, 8.0), (LOST, 4.0), (LOST, 4.0), (4.0, 0.0), (8.0, LOST)))
    assert models == [[w, 2 * w] for w in (7.0, 10.5, 14.0, 15.0, 18.5)]
    assert fed.statistics == [[0.0, 0.25, 0.75], [0.25, 0.75], [0.25, 0.75], [0.0, 0.25, 0.75], [0.5, 0.5]]


def test_a_client_that_comes_late_has_weight_1_first_and_then_its_interval() -> None:
    """Two equal clients, beta = 0. Client 1 comes in round 3 first: 1/p = 1, and again in round 4: 1/p = 3.

    Client 0 brings 2 in each round, which moves w by 1; client 1 adds 1/2 * 4 = 2 and 1/2 * 3 * 4 = 6.
    """
    fed = Arrivals(2)
    models = fed.play(FedStale(beta=0.0), *in_rounds((2.0, LOST), (2.0, LOST), (2.0, 4.0), (2.0, 4.0)))
    assert [model[0] for model in models] == [1.0, 2.0, 5.0, 12.0]
    assert fed.statistics[-1] == [0.0, 0.25, 0.75]  # weights 0.5 and 1.5 would move them twice the whole way


def test_beta_1_with_known_participation_is_fedvarp() -> None:
    arrivals = [(1, [c, 0.0]) for c in (4.0, 8.0, -4.0)]  # the test's generator always draws client 1
    known = FedStale(beta=1.0, participation="drawn", clients_per_round=1)
    expected = Arrivals(2).play(FedVARP(clients_per_round=1), *arrivals)
    assert Arrivals(2).play(known, *arrivals) == expected
    assert len(expected) == 3


def test_the_step_size_scales_the_step() -> None:
    fed = Arrivals(2, examples=[10, 30])
    assert fed.play(FedStale(server_lr=0.5), *in_rounds((4.0, 8.0))) == [[3.5, 7.0]]


def test_a_round_ends_with_its_slowest_client() -> None:
    _, records = play(FedStale(), compute=[1.0, 2.0, 4.0], clients=3, horizon=9.0)
    assert records.commits["time"].tolist() == [4.0, 8.0]
    _, records = play(FedStale(clients_per_round=2), compute=1.0, clients=5, horizon=3.5)
    assert (records.visits["outcome"] == "done").sum() == 6


def test_unusable_values_are_refused() -> None:
    for fields in ({"clients_per_round": 0}, {"server_lr": 0.0}, {"beta": 1.5}, {"participation": "known"}):
        with pytest.raises(ValidationError, match=next(iter(fields))):
            FedStale(**fields)  # type: ignore[arg-type]
