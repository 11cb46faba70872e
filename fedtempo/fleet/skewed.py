"""Skewed distributions of positive values, with the parameters of `scipy.stats`.

Each may be truncated: it is then the distribution of those values that lie between `low` and `high`.
"""

from __future__ import annotations

import math
from functools import cached_property, lru_cache
from typing import Annotated, Any, ClassVar

import numpy as np
import numpy.typing as npt
from pydantic.dataclasses import dataclass

from fedtempo.fleet.truncation import FloatArray, open_uniforms
from fedtempo.parts.fields import STRICT, Doc, NonNegative, Positive

Low = Annotated[NonNegative, Doc("smallest value")]
High = Annotated[Positive | None, Doc("largest value (default: unlimited)")]


class _Truncated:
    """A distribution of `scipy.stats` with a shape and a scale, truncated to low..high."""

    scipy_name: ClassVar[str]
    shape_name: ClassVar[str]
    scale: float
    low: float
    high: float | None

    def __post_init__(self) -> None:
        if self.high is not None and self.low >= self.high:
            raise ValueError(f"low = {self.low} must be below high = {self.high}")
        if self._is_truncated and not self._inside > 0:
            raise ValueError(f"low = {self.low}, high = {self.high}: no value of the distribution lies between them")

    @property
    def _is_truncated(self) -> bool:
        return self.low > 0 or self.high is not None

    @cached_property
    def untruncated(self) -> Any:
        """The distribution before truncation, as a frozen distribution of SciPy."""
        from scipy import stats  # here, because every configuration imports this module

        return getattr(stats, self.scipy_name)(getattr(self, self.shape_name), scale=self.scale)

    @cached_property
    def _tails(self) -> tuple[float, float]:
        """Return the probabilities below `low` and above `high`, before truncation."""
        law = self.untruncated
        return float(law.cdf(self.low)), 0.0 if self.high is None else float(law.sf(self.high))

    @property
    def _inside(self) -> float:
        """The probability of low..high before truncation, computed in the nearer tail."""
        below, above = self._tails
        if below > 0.5:
            return float(self.untruncated.sf(self.low)) - above
        return (1.0 if self.high is None else float(self.untruncated.cdf(self.high))) - below

    def inverse_cdf(self, uniforms: npt.ArrayLike) -> FloatArray:
        """Return the quantiles of `uniforms`, strictly between 0 and 1, in the same shape."""
        u = np.asarray(uniforms, dtype=np.float64)
        law, (below, above), inside = self.untruncated, self._tails, self._inside
        from_below = below + u * inside
        values = np.where(from_below < 0.5, law.ppf(from_below), law.isf(above + (1 - u) * inside))
        return np.asarray(np.clip(values, self.low, self.high), dtype=np.float64)

    def draw(self, rng: np.random.Generator, size: int) -> FloatArray:
        return self.inverse_cdf(open_uniforms(rng, size))

    @property
    def expectation(self) -> float:
        """Mean after truncation."""
        return _expectation(self)


@lru_cache(maxsize=1024)  # an integral, which each check of a value's type may compute (before Python 3.12)
def _expectation(law: _Truncated) -> float:
    if not law._is_truncated:
        return float(law.untruncated.mean())
    high = math.inf if law.high is None else law.high
    return float(law.untruncated.expect(lb=law.low, ub=high)) / law._inside


@dataclass(frozen=True, config=STRICT)
class Lognormal(_Truncated):
    """Lognormal distribution (`scipy.stats.lognorm`): the logarithm is normal."""

    scipy_name, shape_name = "lognorm", "s"

    s: Annotated[Positive, Doc("shape: standard deviation of the logarithm")]
    scale: Annotated[Positive, Doc("median before truncation")]
    low: Low = 0.0
    high: High = None


@dataclass(frozen=True, config=STRICT)
class Weibull(_Truncated):
    """Weibull distribution (`scipy.stats.weibull_min`)."""

    scipy_name, shape_name = "weibull_min", "c"

    c: Annotated[Positive, Doc("shape; below 1 the tail is longer than an exponential one, 1 is exponential")]
    scale: Annotated[Positive, Doc("scale: 63.2 % of the values are smaller, before truncation")]
    low: Low = 0.0
    high: High = None


@dataclass(frozen=True, config=STRICT)
class Gamma(_Truncated):
    """Gamma distribution (`scipy.stats.gamma`)."""

    scipy_name, shape_name = "gamma", "a"

    a: Annotated[Positive, Doc("shape; 1 is exponential, a whole number is the sum of as many exponential times")]
    scale: Annotated[Positive, Doc("scale; a times scale is the mean before truncation")]
    low: Low = 0.0
    high: High = None


@dataclass(frozen=True, config=STRICT)
class Pareto(_Truncated):
    """Pareto distribution (`scipy.stats.pareto`): the share of values above x is (scale / x)^b."""

    scipy_name, shape_name = "pareto", "b"

    b: Annotated[Positive, Doc("shape; the tail is longer if it is smaller; at most 1 needs `high`")]
    scale: Annotated[Positive, Doc("smallest value before truncation")]
    low: Low = 0.0
    high: High = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.b <= 1 and self.high is None:
            raise ValueError(f"b = {self.b}: the mean is infinite; set high, or b above 1")


SKEWED = {"gamma": Gamma, "lognormal": Lognormal, "pareto": Pareto, "weibull": Weibull}
