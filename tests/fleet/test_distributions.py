from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from scipy.stats import truncnorm

from fedtempo.errors import ConfigError
from fedtempo.fleet.distributions import (
    DISTRIBUTIONS,
    Constant,
    Discrete,
    Exponential,
    Listed,
    Normal,
    Uniform,
    Zipf,
    distribution,
)

LAWS = [
    Constant(2.5),
    Uniform(1.0, 10.0),
    Exponential(2.5),
    Normal(2.5, 1.0),
    Normal(0.0, 1.0, high=3.0),
    Normal(-4.0, 1.0),
    Discrete((0.5, 1.0, 2.0, 4.0, 5.0)),
    Discrete((1.0, 9.0), weights=(3.0, 1.0)),
    Zipf(1.2),
    Zipf(2.0, low=3, high=7),
]


@pytest.mark.parametrize("law", LAWS, ids=str)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_draws_are_positive_and_have_the_expected_mean(law: Any, seed: int) -> None:
    n = 20_000
    values = law.draw(np.random.default_rng(seed), n)
    assert values.shape == (n,)
    assert values.dtype == np.float64
    assert (values > 0).all()
    # Five standard errors: one false alarm in 1.7 million.
    assert abs(values.mean() - law.expectation) <= 5 * values.std() / math.sqrt(n) + 1e-12


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_the_same_generator_gives_the_same_values_and_prefixes_agree(law: Any) -> None:
    long, short = law.draw(np.random.default_rng(7), 50), law.draw(np.random.default_rng(7), 20)
    assert np.array_equal(long[:20], short)


@settings(deadline=None)
@given(st.floats(-20, 20), st.floats(0.01, 10), st.floats(0.05, 5), st.floats(0.001, 20))
def test_truncated_normal_agrees_with_scipy_and_stays_within_its_bounds(
    mean: float, std: float, low: float, width: float
) -> None:
    law = Normal(mean, std, low, low + width)
    u = np.linspace(1e-9, 1 - 1e-9, 33)
    values = law.inverse_cdf(u)
    assert (values >= low).all()
    assert (values <= low + width).all()
    assert (np.diff(values) >= 0).all()
    a, b = (low - mean) / std, (low + width - mean) / std
    np.testing.assert_allclose(values, truncnorm.ppf(u, a, b, mean, std), rtol=1e-6)
    assert low <= law.expectation <= low + width


def test_a_normal_truncated_far_above_its_mean_is_nearly_exponential() -> None:
    # Beyond z = 40 a normal density falls like exp(-z x): mean excess is 1/z up to a relative 1/z^2.
    law = Normal(-40.0, 1.0, low=0.05)
    assert law.expectation - 0.05 == pytest.approx(1 / 40.05, rel=2 / 40**2)
    assert law.inverse_cdf([0.5])[0] - 0.05 == pytest.approx(math.log(2) / 40.05, rel=2 / 40**2)


def test_discrete_inverse_starts_each_value_where_the_previous_one_ends() -> None:
    assert Discrete((1.0, 2.0, 5.0), (0.25, 0.25, 0.5)).inverse_cdf([0.0, 0.25, 0.4999, 0.5, 0.9999]).tolist() == [
        1.0,
        2.0,
        2.0,
        5.0,
        5.0,
    ]


def test_discrete_never_draws_a_value_of_weight_zero() -> None:
    law = Discrete((1.0, 2.0, 3.0), (0.1, 0.2, 0.0))
    assert set(law.draw(np.random.default_rng(1), 1000).tolist()) == {1.0, 2.0}
    assert law.inverse_cdf([1 - 1e-17])[0] == 2.0


def test_zipf_probabilities_have_the_ratio_of_the_exponent() -> None:
    pmf = Zipf(1.2, 1, 60).pmf
    assert pmf[1] / pmf[0] == pytest.approx(2**-1.2, rel=1e-14)
    assert math.fsum(pmf) == pytest.approx(1, abs=1e-15)


def test_a_list_gives_each_client_its_value() -> None:
    assert Listed((3.0, 1.0)).draw(np.random.default_rng(0), 2).tolist() == [3.0, 1.0]
    with pytest.raises(ConfigError, match="2 values are listed for 3 clients"):
        Listed((3.0, 1.0)).draw(np.random.default_rng(0), 3)


def test_distributions_are_read_from_every_written_form() -> None:
    assert distribution(3) == Constant(3.0)
    assert distribution([1, 2.5]) == Listed((1.0, 2.5))
    assert distribution({"kind": "uniform", "low": 1, "high": 2}) == Uniform(1.0, 2.0)
    law = Exponential(1.0)
    assert distribution(law) is law
    kinds = {
        "constant",
        "discrete",
        "exponential",
        "gamma",
        "list",
        "lognormal",
        "named",
        "normal",
        "pareto",
        "uniform",
    }
    assert set(DISTRIBUTIONS) == kinds | {"weibull", "zipf"}


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ({"kind": "unifrom", "low": 1, "high": 2}, "did you mean 'uniform'"),
        ({"low": 1}, "kind = None"),
        ({"a": 2, "scale": 1}, "kind = None"),
        ({"kind": "uniform", "low": 3, "high": 2}, "low = 3.0 must not be above high = 2.0"),
        ({"kind": "uniform", "low": 3}, "high: Field required"),
        ({"kind": "exponential", "mean": -1}, "mean = -1"),
        ({"kind": "exponential", "mean": math.inf}, "mean = inf"),
        ({"kind": "discrete", "values": [1, 2], "weights": [1]}, "1 for 2 values"),
        ({"kind": "zipf", "exponent": 1.2, "low": 0}, "low = 0"),
        ("fast", "'fast' is not a number"),
        (True, "True is not a number"),
    ],
)
def test_invalid_distributions_are_rejected_in_one_line(value: object, says: str) -> None:
    with pytest.raises(ValueError, match=re.escape(says)) as error:
        distribution(value)
    assert "\n" not in str(error.value)


def test_fields_are_also_checked_when_constructed_from_python() -> None:
    with pytest.raises(ValidationError, match="greater than 0"):
        Exponential(0.0)


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 40), st.integers(0, 200), st.floats(0, 4))
def test_zipf_inverse_is_the_smallest_value_above_the_quantile(low: int, width: int, exponent: float) -> None:
    law = Zipf(exponent, low, low + width)
    cdf = np.cumsum(law.pmf)
    u = np.random.default_rng(1).random(50)
    expected = [low + next((k for k in range(width + 1) if x < cdf[k]), width) for x in u]
    assert law.inverse_cdf(u).tolist() == expected
