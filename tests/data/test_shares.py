from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from fedtempo.data.extended_dirichlet import cut, cut_among_owners, draw_owners
from fedtempo.data.shares import class_share, largest_remainder, long_tail_counts
from fedtempo.errors import ConfigError


@settings(deadline=None)
@given(st.integers(0, 10_000), st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_largest_remainder_is_within_one_of_the_exact_share(total: int, shares: list[float]) -> None:
    assume(sum(shares) > 1e-6)
    counts = largest_remainder(total, shares)
    assert counts.sum() == total
    assert counts.min() >= 0
    assert np.abs(counts - total * np.array(shares) / sum(shares)).max() < 1 + 1e-6


@pytest.mark.parametrize("shares", [[0.0, 0.0], [-1.0, 2.0], [math.nan, 1.0], [math.inf, 1.0]])
def test_impossible_shares_are_rejected(shares: list[float]) -> None:
    with pytest.raises(ValueError, match="shares = "):
        largest_remainder(3, shares)


def test_rounding_errors_do_not_break_ties() -> None:
    assert largest_remainder(1, [0.1 + 0.2, 0.3]).tolist() == [1, 0]
    assert largest_remainder(1, [0.3, 0.1 + 0.2]).tolist() == [1, 0]


@settings(deadline=None)
@given(st.integers(1, 5000), st.integers(1, 1000), st.integers(1, 60))
def test_long_tail_sizes_fall_from_the_maximum_by_the_imbalance(n_max: int, thousandths: int, n_classes: int) -> None:
    counts = long_tail_counts(n_max, thousandths / 1000, n_classes)
    assert len(counts) == n_classes
    assert counts[0] == n_max
    assert (np.diff(counts) <= 0).all()
    if n_classes > 1:
        assert counts[-1] == n_max * thousandths // 1000


@settings(deadline=None)
@given(st.integers(1, 50), st.floats(0, 1), st.floats(1e-4, 1e7))
def test_class_shares_sum_to_one_and_are_symmetric(n_classes: int, position: float, std: float) -> None:
    mean = 0.5 + position * n_classes
    shares = class_share(mean, std, n_classes)
    assert math.fsum(shares) == pytest.approx(1, abs=1e-14)
    assert shares.min() >= 0
    mirrored = class_share(n_classes + 1 - mean, std, n_classes)
    np.testing.assert_allclose(shares, mirrored[::-1], atol=1e-7)


def test_class_shares_approach_their_limits() -> None:
    np.testing.assert_allclose(class_share(4, 1e-3, 10), class_share(4, 0.0, 10), atol=1e-15)
    np.testing.assert_allclose(class_share(4, 1e9, 10), class_share(4, math.inf, 10), atol=1e-15)
    assert class_share(4.5, 0.0, 10).tolist() == [0, 0, 0, 0.5, 0.5, 0, 0, 0, 0, 0]
    with pytest.raises(ValueError, match="mean = 11"):
        class_share(11, 1.0, 10)


def test_cut_uses_shares_as_decimal_numbers() -> None:
    # In floating point 0.7 + 0.1 is below 0.8, and eight of ten examples would become seven.
    assert cut(10, [0.7, 0.1, 0.2]) == [7, 1, 2]
    assert cut(10, [1.0, 1.0, 1.0]) == [3, 3, 4]
    assert cut(0, [1.0, 0.0]) == [0, 0]


@settings(deadline=None)
@given(
    st.integers(0, 10_000),
    st.lists(st.tuples(st.floats(0, 1), st.integers(0, 100)), min_size=1, max_size=30),
    st.integers(1, 100),
)
def test_cut_among_owners_deals_every_example_and_skips_full_owners(
    n_examples: int, owners: list[tuple[float, int]], full_at: int
) -> None:
    shares, sizes = [share for share, _ in owners], [size for _, size in owners]
    counts = cut_among_owners(n_examples, shares, sizes, full_at)
    open_shares = [share for share, size in owners if size < full_at]
    if not any(open_shares):
        assert counts is None
        return
    assert counts is not None
    assert sum(counts) == n_examples
    assert min(counts) >= 0
    assert all(count == 0 for count, size in zip(counts[:-1], sizes[:-1], strict=True) if size >= full_at)


def test_each_client_owns_distinct_classes_and_each_class_has_owners() -> None:
    owned = draw_owners(50, 10, 2, 1000, np.random.default_rng(1))
    assert owned.shape == (50, 2)
    assert (owned[:, 0] < owned[:, 1]).all()
    assert np.bincount(owned.ravel(), minlength=10).min() >= 2


def test_impossible_class_owners_are_rejected() -> None:
    rng = np.random.default_rng(1)
    with pytest.raises(ConfigError, match="must be 1 to 10"):
        draw_owners(10, 10, 11, 10, rng)
    with pytest.raises(ConfigError, match="must be 2 to 10"):
        draw_owners(5, 10, 1, 10, rng)
    with pytest.raises(ConfigError, match="in 3 redraws the rarest class had at most 0 owners, but needs 1"):
        draw_owners(10, 10, 1, 3, rng)
