"""Fit a fleet's distributions to measured values, such as visit times."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy

from fedtempo.errors import ConfigError
from fedtempo.fleet.distributions import Constant, Discrete, Distribution, Exponential, Normal, Uniform, Zipf
from fedtempo.fleet.skewed import Gamma, Lognormal, Pareto, Weibull
from fedtempo.fleet.truncation import FloatArray

LEAST_VALUES = 5
MOST_DISTINCT = 12
DOUBTFUL = 0.01
"""p-value of the Kolmogorov-Smirnov distance below which a fit is called bad."""
_QUANTILES = 50
_SMALLEST = 0.05
"""The default lower bound of a normal distribution."""


@dataclass(frozen=True)
class Fit:
    """A distribution fitted by maximum likelihood.

    aic: Akaike's criterion, 2 parameters - 2 log-likelihood; smaller is better. ks: Kolmogorov-Smirnov distance, the
    largest difference between the two cumulative distributions; p: its p-value, the probability of a distance at least
    as large if the values come from the distribution (None for a distribution on few values, where it is meaningless).
    """

    kind: str
    distribution: Distribution
    aic: float
    ks: float
    p: float | None

    @property
    def good(self) -> bool:
        """Whether the values may come from the distribution."""
        return self.p is None or self.p >= DOUBTFUL

    def table(self) -> dict[str, Any]:
        """Return the distribution as a table of a configuration, with six digits."""
        fields = dataclasses.asdict(self.distribution)  # type: ignore[call-overload]
        return {"kind": self.kind, **{name: _rounded(value) for name, value in fields.items() if value is not None}}


def fit(values: Sequence[float] | FloatArray) -> list[Fit]:
    """Return all distributions that can describe the values, best first by Akaike's criterion.

    One repeated value is a constant. A few distinct values that repeat often are `discrete`, or `zipf` if they are
    integers; all others are `exponential`, `gamma`, `lognormal`, `normal` (truncated near 0), `pareto`, `uniform` or
    `weibull`. The two groups are not compared, since probabilities and densities are not comparable. Raises ConfigError
    for fewer than five values, or for a value that is not positive and finite.
    """
    x = np.sort(np.asarray(values, dtype=np.float64))
    if x.size < LEAST_VALUES:
        raise ConfigError(f"{x.size} values: at least {LEAST_VALUES} are needed to fit a distribution")
    if not (np.isfinite(x).all() and x[0] > 0):
        raise ConfigError(f"values from {x[0]:g} to {x[-1]:g}: all must be positive and finite")
    if x[0] == x[-1]:
        return [Fit("constant", Constant(float(x[0])), -math.inf, 0.0, None)]
    distinct = np.unique(x)
    if distinct.size <= min(MOST_DISTINCT, x.size // 3):
        fits = [_discrete(x), *([_zipf(x)] if (distinct == distinct.round()).all() else [])]
    else:
        fits = [_exponential(x), _normal(x), _uniform(x), *_skewed(x)]
    return sorted(fits, key=lambda fitted: fitted.aic)


def empirical(values: Sequence[float] | FloatArray) -> Discrete:
    """Return a discrete distribution of up to fifty quantiles of the values, for values that no distribution fits."""
    x = np.asarray(values, dtype=np.float64)
    count = min(_QUANTILES, x.size)
    quantiles = np.quantile(x, (np.arange(count) + 0.5) / count)
    return Discrete(tuple(_rounded(float(value)) for value in quantiles))


def _continuous(kind: str, part: Distribution, law: Any, parameters: int, x: FloatArray) -> Fit:
    tested = scipy.stats.kstest(x, law.cdf)
    log_likelihood = float(law.logpdf(x).sum())
    return Fit(kind, part, 2 * parameters - 2 * log_likelihood, float(tested.statistic), float(tested.pvalue))


def _exponential(x: FloatArray) -> Fit:
    mean = float(x.mean())
    return _continuous("exponential", Exponential(mean), scipy.stats.expon(scale=mean), 1, x)


def _uniform(x: FloatArray) -> Fit:
    low, high = float(x[0]), float(x[-1])
    return _continuous("uniform", Uniform(low, high), scipy.stats.uniform(low, high - low), 2, x)


def _normal(x: FloatArray) -> Fit:
    """Fit a normal truncated at `low`, the smaller of 0.05 and half of the smallest value."""
    low, scale = min(_SMALLEST, float(x[0]) / 2), float(x.std())

    def law(mean: float, std: float) -> Any:
        return scipy.stats.truncnorm((low - mean) / std, math.inf, loc=mean, scale=std)

    def loss(point: FloatArray) -> float:
        return -float(law(point[0], scale * math.exp(point[1])).logpdf(x).mean())

    # From an exponential's shape (mean far below the bound) to a narrow bell; beyond, another distribution fits.
    bounds = [(-float(x[-1]), float(x[-1])), (-7.0, 3.0)]
    optimum = scipy.optimize.minimize(loss, [float(x.mean()), 0.0], bounds=bounds, method="L-BFGS-B")
    mean, std = float(optimum.x[0]), scale * math.exp(float(optimum.x[1]))
    return _continuous("normal", Normal(mean, std, low), law(mean, std), 2, x)


def _skewed(x: FloatArray) -> list[Fit]:
    """Fit the distributions of positive values with a shape and a scale."""
    log_x = np.log(x)
    lognormal = Lognormal(float(log_x.std()), math.exp(float(log_x.mean())))
    a, _, gamma_scale = scipy.stats.gamma.fit(x, floc=0)
    c, _, weibull_scale = scipy.stats.weibull_min.fit(x, floc=0)
    gamma, weibull = Gamma(float(a), float(gamma_scale)), Weibull(float(c), float(weibull_scale))
    laws = {"gamma": gamma, "lognormal": lognormal, "weibull": weibull}
    return [*(_continuous(kind, law, law.untruncated, 2, x) for kind, law in laws.items()), _pareto(x)]


def _pareto(x: FloatArray) -> Fit:
    """Fit a Pareto distribution from the smallest value; one without a mean ends at the largest value."""
    low, high = float(x[0]), float(x[-1])
    b = 1 / float(np.log(x / low).mean())
    if b > 1:
        part = Pareto(b, low)
        return _continuous("pareto", part, part.untruncated, 2, x)

    def loss(log_b: float) -> float:
        return -float(scipy.stats.truncpareto(math.exp(log_b), high / low, scale=low).logpdf(x).mean())

    optimum = scipy.optimize.minimize_scalar(loss, bounds=(-7.0, 3.0), method="bounded")
    b = math.exp(float(optimum.x))
    return _continuous("pareto", Pareto(b, low, high=high), scipy.stats.truncpareto(b, high / low, scale=low), 3, x)


def _discrete(x: FloatArray) -> Fit:
    distinct, counts = np.unique(x, return_counts=True)
    weights = counts / x.size
    log_likelihood = float(counts @ np.log(weights))
    part = Discrete(tuple(distinct.tolist()), tuple(weights.tolist()))
    return Fit("discrete", part, 2 * (distinct.size - 1) - 2 * log_likelihood, 0.0, None)


def _zipf(x: FloatArray) -> Fit:
    low, high = int(x[0]), int(x[-1])

    def loss(exponent: float) -> float:
        return exponent * float(np.log(x).mean()) + math.log(Zipf(exponent, low, high).normaliser)

    optimum = scipy.optimize.minimize_scalar(loss, bounds=(0.0, 10.0), method="bounded")
    part = Zipf(float(optimum.x), low, high)
    shares = np.searchsorted(x, np.arange(low, high + 1), side="right") / x.size
    distance = float(np.abs(shares - np.cumsum(part.pmf)).max())
    return Fit("zipf", part, 2 + 2 * x.size * float(optimum.fun), distance, None)


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.6g}")
    return tuple(map(_rounded, value)) if isinstance(value, tuple) else value
