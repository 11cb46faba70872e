"""Local work that fits into a given time, worked out by hand."""

from __future__ import annotations

import pytest

from fedtempo.strategies.planning.workload import steps_for


@pytest.mark.parametrize(
    ("left_s", "expected"),
    [(-1.0, 1), (0.0, 1), (0.9, 1), (2.5, 2), (3.9, 3), (4.0, 4), (7.9, 4), (8.0, 8), (13.0, 12)],
)
def test_four_steps_of_a_second_are_repeated_or_cut(left_s: float, expected: int) -> None:
    assert steps_for(left_s, 4.0, 4) == expected


def test_rounding_costs_no_step() -> None:
    assert steps_for(0.3 - 0.1, 0.2, 7) == 7  # 0.3 - 0.1 < 0.2 in floating point
    assert steps_for(0.3, 0.1, 2) == 6


def test_work_without_time_is_done_once() -> None:
    assert steps_for(5.0, 0.0, 3) == steps_for(0.0, 0.0, 3) == 3
