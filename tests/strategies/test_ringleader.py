"""Ringleader ASGD: rounds of two phases, worked out by hand, also with clients that leave."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from fedtempo.strategies import RingleaderASGD
from tests.runtime.world import play
from tests.strategies.arrivals import Arrivals

ONE = RingleaderASGD(server_lr=1.0)


def test_two_rounds_of_three_clients() -> None:
    """Step 1, n = 3, w = 0; first coordinate (the second is its double).

    Phase 1: client 0 brings 2 and 4 (mean 3), client 1 brings 3, client 2 brings 6, the last: mean (3 + 3 + 6) / 3 = 4,
    w = 4 (version 1), which client 2 receives.
    Phase 2: client 2 brings 1, which waits. Client 0 brings 9 (mean (2 + 4 + 9) / 3 = 5): w = 4 + 14 / 3, version 2.
    Client 0 brings 3, which waits. Client 1 brings 5 (mean (3 + 5) / 2 = 4): w = 4 + 14 / 3 + 15 / 3 = 41 / 3,
    version 3. Everyone had its step.
    Phase 1 of the second round has 1 from client 2 and 3 from client 0. Client 2 brings 3, still from version 1 (mean
    2). Client 1 brings 4 from version 3, the last: w = 41 / 3 + (3 + 4 + 2) / 3 = 50 / 3.
    """
    fed = Arrivals(3)
    changes = [(0, 2.0), (0, 4.0), (1, 3.0), (2, 6.0), (2, 1.0), (0, 9.0), (0, 3.0), (1, 5.0), (2, 3.0), (1, 4.0)]
    models = fed.play(ONE, *((client, [c, 2 * c]) for client, c in changes))
    assert [model[0] for model in models] == pytest.approx([4.0, 26 / 3, 41 / 3, 50 / 3], rel=1e-15)
    assert [model[1] for model in models] == pytest.approx([8.0, 52 / 3, 82 / 3, 100 / 3], rel=1e-15)
    assert fed.received == [0, 0, 0, 0, 1, 0, 2, 0, 1, 3]


def test_delays_are_at_most_twice_the_clients_less_two() -> None:
    """The paper's bound 2n - 2, with clients up to 20 times as slow as the fastest."""
    _, records = play(RingleaderASGD(), compute=[1.0, 3.0, 7.0, 20.0], clients=4, horizon=400.0)
    assert records.commits["version"].size > 50
    assert records.commits["staleness"].max() <= 2 * 4 - 2


def test_each_round_has_one_step_per_client() -> None:
    """Visits of 1 and 3 s. Phase 1 ends at 3 with client 1; client 0 has its result of second 3 in the table.

    (Of results at the same second, that of the visit that began first comes first: client 1's, started at 0, before
    client 0's, started at 2.) Client 1's step at 3, client 0's at 3. Second round: client 1 is last at 6, client 0
    follows at 6.
    """
    _, records = play(RingleaderASGD(), compute=[1.0, 3.0], clients=2, horizon=9.0)
    assert records.commits["time"].tolist() == [3.0, 3.0, 6.0, 6.0, 9.0, 9.0]


def test_nobody_waits_for_a_client_whose_visit_failed() -> None:
    """n = 3, step 1. Client 2 fails: the round begins with clients 0 and 1, the mean is over these two.

    w = (4 + 2) / 2 = 3 for client 1, then client 0 brings 8 (mean 6): w = 3 + (6 + 2) / 2 = 7.
    Client 2 is back: the second round has 9 from it; clients 0 and 1 bring 3 and 0: w = 7 + (3 + 0 + 9) / 3 = 11.
    """
    fed = Arrivals(3)
    models = fed.play(
        ONE, (2, None), (0, [4.0, 0.0]), (1, [2.0, 0.0]), (0, [8.0, 0.0]), (2, [9.0, 0.0]), (0, [3.0, 0.0]), (1, [0, 0])
    )
    assert [model[0] for model in models] == [3.0, 7.0, 11.0]


def test_a_round_ends_when_the_last_client_without_its_step_fails() -> None:
    """n = 2, step 1: w = (4 + 2) / 2 = 3 for client 1; client 0 fails, which ends the round, and is not waited for.

    Client 1 brings 5 from version 1: a round of its own, w = 8. Client 0 started again, on the model of that time,
    version 1; it brings 1, and client 1 brings 7, which ends phase 1 of the third round: w = 8 + (1 + 7) / 2 = 12.
    """
    fed = Arrivals(2)
    models = fed.play(
        ONE, (0, [4.0, 0.0]), (1, [2.0, 0.0]), (0, None), (1, [5.0, 0.0]), (0, [1.0, 0.0]), (1, [7.0, 0.0])
    )
    assert [model[0] for model in models] == [3.0, 8.0, 12.0]
    assert fed.received == [0, 0, 1, 1, 2]


def test_by_default_a_round_moves_the_model_by_about_one_mean() -> None:
    """n = 2, step 1/2: two steps of half the mean of 6."""
    fed = Arrivals(2)
    models = fed.play(RingleaderASGD(), (0, [6.0, 0.0]), (1, [6.0, 0.0]), (0, [6.0, 0.0]))
    assert models == [[3.0, 0.0], [6.0, 0.0]]


def test_unusable_values_are_refused() -> None:
    for fields in ({"server_lr": 0.0}, {"reach": 2.0}, {"clients_at_once": 0}):
        with pytest.raises(ValidationError, match=next(iter(fields))):
            RingleaderASGD(**fields)  # type: ignore[arg-type]
