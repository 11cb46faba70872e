from __future__ import annotations

import numpy as np
import pytest
from pydantic import ValidationError

from fedtempo.fleet.estimates import ESTIMATES, Exact, Noisy, Observed

TRUE = (1.0, 10.0, 2.0)


def rng(seed: int = 1) -> np.random.Generator:
    return np.random.default_rng(seed)


def test_exact_estimates_ignore_observations() -> None:
    estimator = Exact().build(1, rng())
    estimator.observe(0, 5.0, 5.0, 5.0)
    assert estimator.estimate(0, *TRUE) == TRUE


def test_observed_estimates_are_the_prior_then_the_mean_of_observations() -> None:
    estimator = Observed(prior_s=4).build(2, rng())
    assert estimator.estimate(0, *TRUE) == (0.0, 4.0, 0.0)
    for times in [(1.0, 2.0, 3.0), (3.0, 4.0, 5.0), (2.0, 9.0, 1.0)]:
        estimator.observe(0, *times)
    assert estimator.estimate(0, *TRUE) == pytest.approx((2.0, 5.0, 3.0), rel=1e-15)
    assert estimator.estimate(1, *TRUE) == (0.0, 4.0, 0.0)


def test_observed_estimates_with_a_window_forget() -> None:
    estimator = Observed(prior_s=[1, 2, 3], window=2).build(1, rng())
    assert estimator.estimate(0, *TRUE) == (1.0, 2.0, 3.0)
    for seconds in (100.0, 1.0, 3.0):
        estimator.observe(0, seconds, seconds, seconds)
    assert estimator.estimate(0, *TRUE) == (2.0, 2.0, 2.0)


def test_a_prior_is_required() -> None:
    with pytest.raises(ValidationError, match="prior_s"):
        Observed()  # type: ignore[call-arg]
    with pytest.raises(ValidationError, match="prior_s"):
        Observed(prior_s=[1.0, 2.0])  # type: ignore[arg-type]


def test_noisy_estimates_scale_all_parts_by_one_bounded_factor() -> None:
    estimator = Noisy(error=0.2, bias=0.5).build(500, rng())
    factors = []
    for client in range(500):
        d, c, u = estimator.estimate(client, *TRUE)
        assert d / 1.0 == pytest.approx(c / 10.0) == pytest.approx(u / 2.0)
        factors.append(c / 10.0)
    assert 1.5 * 0.8 <= min(factors) < 1.5 * 0.81
    assert 1.5 * 1.19 < max(factors) <= 1.5 * 1.2


@pytest.mark.parametrize(("per", "changes"), [("client", False), ("visit", True)])
def test_noisy_factors_change_only_after_a_visit_and_only_if_configured(per: str, changes: bool) -> None:
    estimator = Noisy(error=0.5, per=per).build(2, rng())  # type: ignore[arg-type]
    first = estimator.estimate(0, *TRUE)
    estimator.observe(1, *TRUE)
    assert estimator.estimate(0, *TRUE) == first
    estimator.observe(0, *TRUE)
    assert (estimator.estimate(0, *TRUE) != first) == changes


def test_observations_of_one_client_do_not_change_another() -> None:
    alone, together = Noisy(error=0.5).build(2, rng()), Noisy(error=0.5).build(2, rng())
    for _ in range(5):
        together.estimate(0, *TRUE)
        together.observe(0, *TRUE)
    assert alone.estimate(1, *TRUE) == together.estimate(1, *TRUE)


def test_all_kinds_of_estimates_are_registered() -> None:
    assert set(ESTIMATES) == {"exact", "noisy", "observed"}
