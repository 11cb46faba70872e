"""Skewed distributions have SciPy's quantiles, and known means after truncation."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest
from scipy import stats

from fedtempo.fleet.distributions import distribution
from fedtempo.fleet.skewed import Gamma, Lognormal, Pareto, Weibull

U = np.array([1e-12, 0.001, 0.25, 0.5, 0.9, 1 - 1e-12])


@pytest.mark.parametrize(
    ("law", "known"),
    [
        (Lognormal(0.7, 2.0), stats.lognorm(0.7, scale=2.0)),
        (Weibull(0.6, 3.0), stats.weibull_min(0.6, scale=3.0)),
        (Gamma(2.5, 1.5), stats.gamma(2.5, scale=1.5)),
        (Pareto(1.6, 0.5), stats.pareto(1.6, scale=0.5)),
    ],
)
def test_quantiles_are_those_of_scipy(law: Any, known: Any) -> None:
    np.testing.assert_allclose(law.inverse_cdf(U), known.ppf(U), rtol=1e-3)
    np.testing.assert_allclose(law.inverse_cdf(U[1:-1]), known.ppf(U[1:-1]), rtol=1e-12)
    assert law.expectation == pytest.approx(known.mean())


def test_truncation_keeps_the_share_of_values_between_the_bounds() -> None:
    law, known = Weibull(0.6, 3.0, low=1.0, high=20.0), stats.weibull_min(0.6, scale=3.0)
    values = law.inverse_cdf(U)
    inside = known.cdf(20.0) - known.cdf(1.0)
    np.testing.assert_allclose((known.cdf(values) - known.cdf(1.0)) / inside, U, atol=1e-9)
    assert ((values >= 1.0) & (values <= 20.0)).all()


def test_far_in_the_tail_quantiles_stay_accurate() -> None:
    # Above 1,000 a Pareto distribution is a Pareto distribution with that scale.
    np.testing.assert_allclose(
        Pareto(2.0, 1e-3, low=1000.0).inverse_cdf(U[1:-1]), stats.pareto(2.0, scale=1000.0).ppf(U[1:-1]), rtol=1e-9
    )


def test_means_after_truncation_have_their_closed_forms() -> None:
    # Pareto with b = 1 on [1, e]: the density is c / x^2 with c = 1 / (1 - 1/e), so the mean is c * log(e) = c.
    assert Pareto(1.0, 1.0, high=math.e).expectation == pytest.approx(1 / (1 - 1 / math.e))
    # Lognormal with s = 1 and scale 1 above 1: 2 * exp(1/2) * Phi(1).
    assert Lognormal(1.0, 1.0, low=1.0).expectation == pytest.approx(2 * math.exp(0.5) * stats.norm.cdf(1.0))
    # An exponential time has no memory: above 5 its mean excess is its mean.
    assert Gamma(1.0, 2.0, low=5.0).expectation == pytest.approx(7.0)
    assert Weibull(1.0, 2.0, low=5.0).expectation == pytest.approx(7.0)


def test_draws_have_the_mean() -> None:
    law = Lognormal(0.5, 3.0, low=1.0, high=10.0)
    assert law.draw(np.random.default_rng(2), 200_000).mean() == pytest.approx(law.expectation, rel=0.01)


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ({"kind": "lognormal", "scale": 1}, "s: Field required"),
        ({"kind": "lognormal", "sigma": 1, "scale": 1}, "sigma"),
        ({"kind": "weibull", "c": 0, "scale": 1}, "c = 0"),
        ({"kind": "pareto", "b": 0.9, "scale": 1}, "b = 0.9: the mean is infinite; set high, or b above 1"),
        ({"kind": "pareto", "b": 2, "scale": 4, "high": 3}, "low = 0.0, high = 3.0: no value"),
        ({"kind": "gamma", "a": 2, "scale": 1, "low": 3, "high": 3}, "low = 3.0 must be below high = 3.0"),
    ],
)
def test_parameters_that_fit_no_distribution_are_rejected_in_one_line(table: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=re.escape(says)) as error:
        distribution(table)
    assert "\n" not in str(error.value)
