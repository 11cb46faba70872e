"""Steps of FedCompass's clients, worked out by hand."""

from __future__ import annotations

from fedtempo.strategies.planning.arrivals import Closing, joined, steps_of_new_group, steps_within

SOON, LATER = Closing(12.0, 1.0), Closing(48.0, 2.0)


def test_a_client_joins_where_it_can_make_the_most_steps() -> None:
    """At 0 s with 3 s per step: 3 steps until 10 s, 13 until 40 s, of 2 to 20."""
    assert joined([10.0, 40.0], 0.0, 3.0, 2, 20) == (1, 13)
    assert joined([10.0, 40.0], 0.0, 3.0, 2, 12) == (0, 3)
    assert joined([10.0, 40.0], 0.0, 3.0, 4, 12) is None
    assert joined([10.0, 10.0], 0.0, 2.5, 1, 5) == (1, 4)
    assert joined([10.0], 11.0, 1.0, 1, 5) is None
    assert joined([], 0.0, 1.0, 1, 5) is None


def test_a_founder_leaves_time_for_the_fastest_of_a_group() -> None:
    """With Q_max = 20, SOON's fastest client can be back by 12 + 20 = 32 s, LATER's by 48 + 40 = 88 s.

    At 0 s with 5 s per step these are 6 and 17 steps: 17. With 4 s they are 8 and 22 > 20 steps: 8. With 1 s both are
    more than 20: 20. With 100 s they are 0, which becomes Q_min = 4. At 20 s SOON has closed.
    """
    groups = [SOON, LATER]
    assert steps_of_new_group(groups, 0.0, 5.0, 4, 20) == 17
    assert steps_of_new_group(groups, 0.0, 4.0, 4, 20) == 8
    assert steps_of_new_group(groups, 0.0, 1.0, 4, 20) == 20
    assert steps_of_new_group(groups, 0.0, 100.0, 4, 20) == 4
    assert steps_of_new_group([SOON], 20.0, 5.0, 4, 20) == 20
    assert steps_of_new_group([], 0.0, 5.0, 4, 20) == 20


def test_steps_that_take_no_time_fit_always() -> None:
    assert (steps_within(1.0, 0.0, 5), steps_within(0.0, 0.0, 5), steps_within(-1.0, 1.0, 5)) == (6, 0, 0)
