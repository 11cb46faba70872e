"""Averages that one bad model cannot move far, against NumPy and SciPy."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from fedtempo.learning.aggregation import average
from fedtempo.learning.robust import clipped, median, robust_average, trimmed_mean

DEFAULTS = {"aggregation": "mean", "trim": 0.1, "clip_norm": None}


def models(count: int, size: int = 37, seed: int = 1) -> list[np.ndarray]:
    return list(np.random.default_rng(seed).standard_normal((count, size)).astype(np.float32))


@pytest.mark.parametrize("count", [1, 2, 3, 10, 11])
def test_median_and_trimmed_mean_agree_with_numpy_and_scipy_and_keep_the_dtype(count: int) -> None:
    given_models = models(count)
    stacked = np.stack(given_models)
    result = median(given_models)
    assert result.dtype == np.float32
    np.testing.assert_array_equal(result, np.median(stacked, axis=0))
    for trim in (0.0, 0.1, 0.34, 0.49):
        cut = int(trim * count)
        by_hand = np.sort(stacked.astype(np.float64), axis=0)[cut : count - cut].mean(axis=0)
        result = trimmed_mean(given_models, trim)
        assert result.dtype == np.float32
        np.testing.assert_allclose(result, by_hand, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(result, stats.trim_mean(stacked, trim, axis=0), rtol=1e-6, atol=1e-7)


@settings(max_examples=60, deadline=None)
@given(st.integers(3, 12), st.integers(0, 2**32), st.sampled_from(["median", "trimmed-mean"]))
def test_with_a_minority_of_attackers_the_result_lies_within_the_honest_models(
    count: int, seed: int, aggregation: str
) -> None:
    rng = np.random.default_rng(seed)
    honest = models(count, seed=seed)
    liars = int(rng.integers(0, (count - 1) // 2 + 1))
    sent = [*honest[liars:], *(1e6 * model for model in models(liars, seed=seed + 1))]
    order = rng.permutation(count)
    base = np.zeros(37, dtype=np.float32)
    trim = min(0.49, (liars + 0.01) / count)
    result = robust_average(
        [sent[i] for i in order], [1e9] * count, base, aggregation=aggregation, trim=trim, clip_norm=None
    )
    lowest, highest = np.min(honest[liars:], axis=0), np.max(honest[liars:], axis=0)
    assert np.all(result >= lowest - 1e-5)
    assert np.all(result <= highest + 1e-5)


def test_a_change_is_scaled_to_the_norm_and_keeps_its_direction() -> None:
    base, model = models(2)
    length = float(np.linalg.norm((model - base).astype(np.float64)))
    assert clipped(model, base, length * 1.01) is model
    short = clipped(model, base, 0.25)
    assert short.dtype == np.float32
    assert math.isclose(np.linalg.norm((short - base).astype(np.float64)), 0.25, rel_tol=1e-5)
    np.testing.assert_allclose((short - base) / 0.25, (model - base) / length, rtol=1e-4, atol=1e-5)


def test_a_mean_of_clipped_changes_keeps_the_weights() -> None:
    base, *sent = models(4)
    result = robust_average(sent, [1, 2, 5], base, **{**DEFAULTS, "clip_norm": 0.5})
    changes = [(model - base) * min(1, 0.5 / np.linalg.norm(model - base)) for model in sent]
    np.testing.assert_allclose(result, base + np.average(changes, axis=0, weights=[1, 2, 5]), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(robust_average(sent, [1, 2, 5], base, **DEFAULTS), average(sent, [1, 2, 5]))


def test_models_without_parameters_can_be_aggregated() -> None:
    empty = np.empty(0, dtype=np.float32)
    for aggregation in ("mean", "median", "trimmed-mean"):
        settings = {"aggregation": aggregation, "trim": 0.2, "clip_norm": 1.0}
        assert robust_average([empty] * 3, [1.0] * 3, empty, **settings).shape == (0,)
