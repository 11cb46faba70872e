"""Compute exact counts from shares: rounding, long tails, classes per client."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from fedtempo.data.dataset import IntArray

FloatArray = npt.NDArray[np.float64]

_TIE = 1e-9  # closer remainders differ by rounding errors only


def largest_remainder(total: int, shares: npt.ArrayLike) -> IntArray:
    """Return `total` split into whole numbers in proportion to `shares`, an array of the same length.

    Each entry gets the whole part of its share; what remains goes to the largest remainders, in ties to the smaller
    index. Raises ValueError if shares are negative or sum to 0.
    """
    weights = np.asarray(shares, dtype=np.float64)
    scale = math.fsum(weights)
    if not (weights >= 0).all() or not 0 < scale < math.inf:
        raise ValueError(f"shares = {weights.tolist()}: must not be negative, with a sum above 0")
    quotas = total * (weights / scale)
    counts = np.floor(quotas).astype(np.int64)
    remainders = quotas - counts
    order = np.argsort(-remainders, kind="stable")
    # A run of remainders with steps below the tolerance is one tie; within it the smaller index comes first.
    tie = np.cumsum(-np.diff(remainders[order], prepend=remainders[order[:1]]) >= _TIE)
    order = order[np.lexsort((order, tie))]
    missing = total - int(counts.sum())
    counts[order[:missing]] += 1
    return counts


def long_tail_counts(n_max: int, imbalance: float, n_classes: int) -> IntArray:
    """Return the examples of each class in a long tail, floor(n_max * imbalance^(c / (n_classes - 1))) for class c.

    imbalance: smallest over largest class, in (0, 1] (FCH-FL, Sec. 4.1: IF). The floor is taken of the exact
    value for the decimal number `imbalance`, since floating point may land just below a whole number.
    """
    steps = n_classes - 1
    if steps == 0:
        return np.array([n_max], dtype=np.int64)
    exact = Fraction(repr(float(imbalance)))
    counts = []
    for c in range(n_classes):
        # k <= n_max * exact^(c/steps) as whole numbers: k^steps * denominator^c <= n_max^steps * numerator^c
        bound = n_max**steps * exact.numerator**c
        unit = exact.denominator**c
        k = math.floor(n_max * float(imbalance) ** (c / steps))
        while k > 0 and k**steps * unit > bound:
            k -= 1
        while (k + 1) ** steps * unit <= bound:
            k += 1
        counts.append(k)
    return np.array(counts, dtype=np.int64)


def class_share(mean: float, std: float, n_classes: int) -> FloatArray:
    """Return the share of clients that hold l classes, for l = 1..n_classes (Hybrid-FL, Eqs. 2-4).

    A normal distribution truncated to [0.5, n_classes + 0.5], integrated over l - 0.5 to l + 0.5. std 0 is its limit,
    all clients at the nearest number of classes (half each at a tie); an infinite std makes all numbers equally
    frequent. Raises ValueError for a mean outside the bounds.
    """
    if not 0.5 <= mean <= n_classes + 0.5:
        raise ValueError(f"mean = {mean}: must be from 0.5 to {n_classes + 0.5} for {n_classes} classes")
    numbers = np.arange(1, n_classes + 1)
    if math.isinf(std):
        masses = np.ones(n_classes)
    elif std == 0:
        masses = (np.abs(numbers - mean) == np.abs(numbers - mean).min()).astype(np.float64)
    else:
        low, high = ((numbers + edge - mean) / (std * math.sqrt(2)) for edge in (-0.5, 0.5))
        # A difference of erf loses the tails, one of erfc the middle, where each is near 1.
        from scipy.special import erf, erfc  # here, because every configuration imports this module

        right, left = erfc(low) - erfc(high), erfc(-high) - erfc(-low)
        masses = np.where(low > 0.5, right, np.where(high < -0.5, left, erf(high) - erf(low)))
    return np.asarray(masses / math.fsum(masses), dtype=np.float64)
