"""Rescaled ASGD: steps in proportion to clients' times, worked out by hand."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from fedtempo.strategies import RescaledASGD
from fedtempo.strategies.rescaled_asgd import rescaled
from tests.strategies.arrivals import Arrivals


def test_the_step_is_proportional_to_the_expected_visit() -> None:
    """Visits of 1 and 3 s, mean 2 s, step 1/2: factors 1/2 and 3/2, weights 1/4 and 3/4. Changes of 8 and 4."""
    fed = Arrivals(2, visit_s=[1.0, 3.0])
    models = fed.play(RescaledASGD(server_lr=0.5), (0, [8.0, -8.0]), (1, [4.0, 4.0]))
    assert models == [[2.0, -2.0], [5.0, 1.0]]
    assert fed.statistics == [[0.75, 0.25], [0.25, 0.75]]
    assert fed.staleness == [0, 1]


def test_over_a_cycle_every_client_contributes_the_same() -> None:
    """Visits of 1, 2 and 4 s, default step 1/3: weights 1/7, 2/7, 4/7 of their sum, which is 1.

    In 4 s client 0 reports four times, client 1 twice, client 2 once: 4/7 of a change each.
    """
    fed = Arrivals(3, visit_s=[1.0, 2.0, 4.0], size=3)
    own = [[7.0, 0.0, 0.0], [0.0, 7.0, 0.0], [0.0, 0.0, 7.0]]
    models = fed.play(RescaledASGD(), *((client, own[client]) for client in (0, 0, 1, 0, 0, 1, 2)))
    assert models[-1] == pytest.approx([4.0, 4.0, 4.0], rel=1e-14)


def test_equal_speeds_give_plain_asynchronous_sgd() -> None:
    fed = Arrivals(2, visit_s=[3.0, 3.0])
    assert fed.play(RescaledASGD(server_lr=1.0), (0, [2.0, 0.0]), (1, [0.0, 4.0])) == [[2.0, 0.0], [2.0, 4.0]]


def test_times_between_results_count_what_happened() -> None:
    """Results at seconds 1, 2, 3, 4 of clients 0, 0, 1, 1; expected visits of 1 s; step 1.

    At 1: times 1 and (expected) 1, factor 1. At 2: client 0 reported twice in 2 s, time 1, factor 1.
    At 3: client 1 once in 3 s, time 3, mean (1 + 3) / 2 = 2, factor 3/2. At 4: twice in 4 s, time 2, mean 3/2,
    factor 4/3. Changes of 6: w = 6, 12, 21, 29.
    """
    fed = Arrivals(2)
    models = fed.play(RescaledASGD(server_lr=1.0, times="results"), *((client, [6.0, 0.0]) for client in (0, 0, 1, 1)))
    assert [model[0] for model in models] == pytest.approx([6.0, 12.0, 21.0, 29.0], rel=1e-15)


def test_clients_that_take_no_time_step_alike() -> None:
    assert rescaled(0.0, 0.0) == 1.0


def test_unusable_values_are_refused() -> None:
    for fields in ({"server_lr": -1.0}, {"times": "guessed"}, {"reach": 0.0}):
        with pytest.raises(ValidationError, match=next(iter(fields))):
            RescaledASGD(**fields)  # type: ignore[arg-type]
