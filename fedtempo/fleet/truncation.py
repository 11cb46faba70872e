"""Truncated normal distributions: sampling by inversion, and moments that are accurate for any bounds."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]

# Arrays, so that calls need no conversion.
_SHIFT, _HALF, _UNIT = np.array(12, dtype=np.uint64), np.array(0.5), np.array(2.0**-52)


def open_uniforms(rng: np.random.Generator, size: int) -> FloatArray:
    """Draw `size` values, uniform and strictly between 0 and 1, so that no inverse of a distribution is infinite."""
    # The same as rng.integers(0, 2**52, size), at an eighth of its cost for small sizes.
    uniforms: FloatArray = np.add(np.right_shift(rng.bit_generator.random_raw(size), _SHIFT), _HALF)
    uniforms *= _UNIT
    return uniforms


@dataclass(frozen=True)
class TruncatedNormal:
    """Normal(mean, std) conditioned on [low, high]; with std 0, the point of that interval nearest to the mean."""

    mean: float
    std: float
    low: float = -math.inf
    high: float = math.inf

    def __post_init__(self) -> None:
        if not (math.isfinite(self.mean) and math.isfinite(self.std) and self.std >= 0):
            raise ValueError(f"mean = {self.mean}, std = {self.std}: the mean must be finite, std finite and >= 0")
        if not self.low <= self.high:
            raise ValueError(f"low = {self.low} must not be above high = {self.high}")

    @property
    def _bounds(self) -> tuple[float, float]:
        """Return low and high in standard deviations from the mean."""
        return (self.low - self.mean) / self.std, (self.high - self.mean) / self.std

    def inverse_cdf(self, uniforms: npt.ArrayLike) -> FloatArray:
        """Return the quantiles of `uniforms`, strictly between 0 and 1, in the same shape."""
        u = np.asarray(uniforms, dtype=np.float64)
        if self.std == 0:
            return np.full(u.shape, min(max(self.mean, self.low), self.high))
        mirrored, log_low, log_high = self._logs
        if mirrored:
            u = 1 - u
        from scipy.special import ndtri_exp  # here, because every configuration imports this module

        z = ndtri_exp(np.logaddexp(np.log1p(-u) + log_low, np.log(u) + log_high))
        values = self.mean + self.std * (-z if mirrored else z)
        return np.asarray(np.minimum(np.maximum(values, self.low), self.high), dtype=np.float64)

    @cached_property
    def _logs(self) -> tuple[bool, float, float]:
        """Return whether to mirror to the left tail, where log-probabilities are accurate, and those of the bounds."""
        from scipy.special import log_ndtr

        a, b = self._bounds
        mirrored = a > 0
        if mirrored:
            a, b = -b, -a
        return mirrored, float(log_ndtr(a)), float(log_ndtr(b))

    def draw(self, rng: np.random.Generator, size: int) -> FloatArray:
        return self.inverse_cdf(open_uniforms(rng, size))

    def moments(self) -> tuple[float, float]:
        """Return the mean and standard deviation of the truncated distribution.

        Computed by quadrature, since the textbook formula subtracts nearly equal numbers if the bounds are narrow or
        far from the mean. Ten deviations beyond its peak the density is below 1e-21 of it.
        """
        if self.std == 0 or self.low == self.high:
            return min(max(self.mean, self.low), self.high), 0.0
        a, b = self._bounds
        peak = min(max(0.0, a), b)
        start, end = max(a, peak - 10), min(b, peak + 10)
        nodes, weights = np.polynomial.legendre.leggauss(128)
        z = start + (end - start) * (nodes + 1) / 2
        probabilities = weights * np.exp((peak - z) * (peak + z) / 2)
        probabilities /= probabilities.sum()
        center = float(probabilities @ z)
        spread = math.sqrt(float(probabilities @ (z - center) ** 2))
        return self.mean + self.std * center, self.std * spread


def fluctuation(mean: float, share: float, std: float | None = None) -> TruncatedNormal:
    """Return a normal truncated at (1 - share) and (1 + share) times its mean.

    Hybrid-FL (Yoshida et al., ICC 2020), Sec. V-A; r_var is `share`. The paper does not print the standard deviation
    before truncation, `std` (default: share * mean). The mean is preserved for any std; share 0 gives a constant.
    """
    return TruncatedNormal(mean, share * mean if std is None else std, (1 - share) * mean, (1 + share) * mean)
