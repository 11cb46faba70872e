"""Sampling of sequences. Frequencies are compared within 5 standard deviations of a binomial count."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from fedtempo.errors import ConfigError
from fedtempo.strategies.planning.sampling import (
    partition_sequences,
    time_classes,
    uniform_sequences,
    weighted_chances,
    weighted_sequences,
)
from tests.strategies.planning.inclusion import (
    partition_inclusion,
    uniform_inclusion,
    weighted_inclusion,
    within_binomial_bounds,
)

TIMES = [0.5, 4.0, 1.0, 2.0, 2.0, 8.0, 3.0]
ROUNDS = 4000


def frequencies(sample: Callable[[np.random.Generator], np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Count how often each client was in a round, and at the first position of the first sequence."""
    rng = np.random.default_rng(0)
    rounds = np.array([sample(rng) for _ in range(ROUNDS)])
    assert all(len(np.unique(each)) == each.size for each in rounds)
    return np.bincount(rounds.ravel(), minlength=len(TIMES)), np.bincount(rounds[:, 0, 0], minlength=len(TIMES))


def test_classes_are_sorted_by_time_and_the_fastest_get_the_remainder() -> None:
    assert [members.tolist() for members in time_classes(TIMES, 3)] == [[0, 2, 3], [4, 6], [1, 5]]


def test_partition_sampling_has_the_expected_frequencies() -> None:
    in_round, one_place = frequencies(lambda rng: partition_sequences(TIMES, 3, 2, rng))
    within_binomial_bounds(in_round, partition_inclusion(TIMES, 3, 2)[0], ROUNDS)
    within_binomial_bounds(one_place, partition_inclusion(TIMES, 3, 2)[1], ROUNDS)


def test_uniform_sampling_has_the_expected_frequencies() -> None:
    in_round, one_place = frequencies(lambda rng: uniform_sequences(len(TIMES), 3, 2, rng))
    within_binomial_bounds(in_round, uniform_inclusion(len(TIMES), 3, 2)[0], ROUNDS)
    within_binomial_bounds(one_place, uniform_inclusion(len(TIMES), 3, 2)[1], ROUNDS)


def test_weighted_sampling_has_the_expected_frequencies() -> None:
    in_round, first = frequencies(lambda rng: weighted_sequences(TIMES, 2, 2, rng))
    inclusion = weighted_inclusion(TIMES, 2, 2)
    within_binomial_bounds(in_round, inclusion, ROUNDS)
    within_binomial_bounds(first, inclusion / 4, ROUNDS)  # shuffled, so no position always holds the first draw
    assert inclusion.sum() == pytest.approx(4)


def test_a_single_weighted_draw_has_the_given_chances() -> None:
    np.testing.assert_allclose(weighted_inclusion(TIMES, 1, 1), weighted_chances(TIMES), atol=1e-9)
    assert weighted_chances([4.0, 1.0]) == pytest.approx([1 / 3, 2 / 3])


def test_partition_sampling_evens_out_the_times_of_sequences() -> None:
    rng = np.random.default_rng(1)
    times = rng.uniform(0.5, 4.5, 60)
    spread = [
        np.mean([times[sample].sum(axis=1).std() for _ in range(200) for sample in [draw()]])
        for draw in (
            lambda: partition_sequences(times, 10, 5, rng),
            lambda: uniform_sequences(60, 10, 5, rng),
        )
    ]
    assert spread[0] < 0.5 * spread[1]


@pytest.mark.parametrize(
    ("length", "n_sequences", "message"),
    [
        (8, 1, "length = 8 must lie in 1..7"),
        (0, 1, "length = 0 must lie in 1..7"),
        (3, 3, "n_sequences = 3 must lie in 1..2"),
        (3, 0, "n_sequences = 0 must lie in 1..2"),
    ],
)
def test_infeasible_structures_are_named(length: int, n_sequences: int, message: str) -> None:
    rng = np.random.default_rng(0)
    for refused in (
        lambda: partition_sequences(TIMES, length, n_sequences, rng),
        lambda: uniform_sequences(len(TIMES), length, n_sequences, rng),
        lambda: weighted_sequences(TIMES, length, n_sequences, rng),
    ):
        with pytest.raises(ConfigError, match=message):
            refused()


def test_weights_need_positive_times() -> None:
    with pytest.raises(ConfigError, match=r"the smallest is 0\.0"):
        weighted_chances([1.0, 0.0])
