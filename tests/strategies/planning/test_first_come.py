"""Compensatory first-come-first-merge, worked out by hand."""

from __future__ import annotations

from fedtempo.strategies.planning.first_come import first_come_first_merge


def test_clients_that_were_not_merged_last_come_first() -> None:
    assert first_come_first_merge([4, 1, 3, 0], {1, 4}, 2) == ([3, 0], [4, 1])


def test_others_fill_the_quota_in_the_order_of_arrival() -> None:
    assert first_come_first_merge([4, 1, 3], {1, 4}, 2) == ([4, 3], [1])
    assert first_come_first_merge([4, 1, 3], {1, 3, 4}, 2) == ([4, 1], [3])


def test_too_few_are_all_merged() -> None:
    assert first_come_first_merge([2, 0], {0}, 5) == ([2, 0], [])
    assert first_come_first_merge([], set(), 5) == ([], [])
