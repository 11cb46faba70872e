"""Tiers by latency, and the chances of tiers, worked out by hand."""

from __future__ import annotations

import pytest

from fedtempo.strategies.planning.tiers import chances_by_rank, tiers_of_equal_size, tiers_of_equal_width


def test_tiers_of_equal_size_are_fastest_first() -> None:
    assert tiers_of_equal_size([5.0, 1.0, 4.0, 2.0, 3.0], 2) == [[1, 3, 4], [2, 0]]
    assert tiers_of_equal_size([2.0, 1.0], 5) == [[1], [0]]


def test_bins_of_equal_width_without_empty_ones() -> None:
    """From 1 to 10 in three bins: [1, 4), [4, 7), [7, 10]; nobody is in the second."""
    assert tiers_of_equal_width([1.0, 10.0, 3.9, 7.0], 3) == [[0, 2], [1, 3]]
    assert tiers_of_equal_width([2.0, 2.0], 3) == [[0, 1]]


def test_chances_fall_with_the_rank_of_accuracy() -> None:
    """Three tiers: D = 6, and 3/6, 2/6, 1/6 from the least accurate on. Two of them eligible: D = 3."""
    assert chances_by_rank([0.5, 0.9, 0.7], [True] * 3) == pytest.approx([3 / 6, 1 / 6, 2 / 6])
    assert chances_by_rank([0.5, 0.7, 0.9], [True, False, True]) == pytest.approx([2 / 3, 0.0, 1 / 3])
    assert chances_by_rank([0.5, 0.5], [True, True]) == pytest.approx([2 / 3, 1 / 3])
