"""REFL's choice and weights, worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fedtempo.strategies.planning.refl import least_available, stale_weights


def test_the_least_available_come_first_and_resting_ones_last() -> None:
    chances, resting = [0.9, 0.1, 0.5, 0.0], [False, False, False, True]
    for count, expected in ((1, [1]), (2, [1, 2]), (3, [0, 1, 2]), (4, [0, 1, 2, 3]), (9, [0, 1, 2, 3])):
        assert least_available(chances, resting, count, np.random.default_rng(0)) == expected
    assert least_available([], [], 3, np.random.default_rng(0)) == []


def test_ties_are_broken_at_random() -> None:
    chosen = {
        tuple(least_available([0.0, 1.0, 1.0], [False] * 3, 2, np.random.default_rng(seed))) for seed in range(20)
    }
    assert chosen == {(0, 1), (0, 2)}


def test_weights_of_updates_that_missed_one_and_three_commits() -> None:
    """Deviations 4 and 16, so 1/4 and 1 of the largest; beta = 0.35."""
    rules = {
        "equal": [1.0, 1.0],
        "inverse": [1 / 2, 1 / 4],
        "exponential": [math.exp(-2), math.exp(-4)],
        "refl": [0.65 / 2 + 0.35 * (1 - math.exp(-0.25)), 0.65 / 4 + 0.35 * (1 - math.exp(-1))],
    }
    for rule, expected in rules.items():
        assert stale_weights(rule, [1, 3], [4.0, 16.0], 0.35) == pytest.approx(expected, rel=1e-15)  # type: ignore[arg-type]


def test_without_deviations_all_count_as_the_largest() -> None:
    assert stale_weights("refl", [1], [0.0], 0.5) == pytest.approx([0.25 + 0.5 * (1 - math.exp(-1))])
    assert stale_weights("refl", [], [], 0.5) == []
