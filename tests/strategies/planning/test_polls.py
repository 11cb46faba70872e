"""Steps between two polls, worked out by hand."""

from __future__ import annotations

import pytest

from fedtempo.strategies.planning.polls import expected_steps, steps_within


def test_whole_steps_count() -> None:
    assert [steps_within(seconds, 1.5, 3) for seconds in (-1.0, 0.0, 1.4, 1.5, 4.4, 4.5, 100.0)] == [
        0,
        0,
        0,
        1,
        2,
        3,
        3,
    ]
    assert steps_within(0.0, 0.0, 4) == 4


def test_the_rounds_between_two_polls_are_geometric() -> None:
    """Rounds of 2 s, an exchange of 1 s, steps of 1.5 s, at most 3.

    With a chance of 1/2: 1 s and no step (1/2), 3 s and 2 steps (1/4), 5 s or more and 3 steps (1/4).
    With a chance of 1/4: no step (1/4), 2 steps (3/16), 3 steps (9/16).
    """
    assert expected_steps(0.5, 2.0, 1.0, 1.5, 3) == (0.5, 2 / 4 + 3 / 4)
    assert expected_steps(0.25, 2.0, 1.0, 1.5, 3) == pytest.approx((0.75, 2 * 3 / 16 + 3 * 9 / 16))


def test_a_client_that_is_polled_in_every_round_has_one_interval() -> None:
    assert expected_steps(1.0, 4.0, 0.0, 3.0, 2) == (1.0, 1.0)
    assert expected_steps(1.0, 2.0, 0.0, 3.0, 2) == (0.0, 0.0)
    assert expected_steps(1.0, 9.0, 0.0, 3.0, 2) == (1.0, 2.0)
