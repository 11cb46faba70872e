"""The utility of a client to the server: how useful its model is, times a penalty for slowness.

Arrays are (n_clients,), with one entry per compared client in any order; `ids` break ties.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Positions = NDArray[np.int64]


def time_factor(times: ArrayLike, limit_s: float, exponent: float) -> Floats:
    """Return (limit_s / time)^exponent for clients slower than `limit_s`, 1 for the others.

    FCH-FL's Eq. 10 and Oort's global system utility (Lai et al., OSDI 2021, Eq. 1): T is `limit_s`, alpha `exponent`.
    times: seconds. Being faster than the limit is not rewarded; with an infinite limit all factors are 1.
    """
    seconds = np.asarray(times, dtype=np.float64)
    factor = np.ones(len(seconds))
    slow = seconds > limit_s
    factor[slow] = (limit_s / seconds[slow]) ** exponent
    return factor


def closeness(distances: ArrayLike) -> Floats:
    """Return FCH-FL's statistical utility, Eq. 9: 1 / (|g_i - g| + 1), with g the previous round's global gradient.

    distances: |g_i - g|, L2 norm over the whole model.
    """
    return 1 / (np.asarray(distances, dtype=np.float64) + 1)


def exempt(usefulness: ArrayLike, percent: float, ids: ArrayLike) -> Positions:
    """Return the positions of the ceil(percent / 100 * n_clients) most useful clients, best first."""
    best = descending(usefulness, ids)
    return best[: math.ceil(decimal(percent) * len(best) / 100)]


def penalised(
    usefulness: ArrayLike, times: ArrayLike, limit_s: float, *, exponent: float, exempt_percent: float, ids: ArrayLike
) -> Floats:
    """Return FCH-FL's utility U, Eq. 11: usefulness times `time_factor`, with `exempt_percent` of the clients exempt.

    usefulness: u of Eq. 9. times: seconds. limit_s: T, typically the median of times.
    """
    utility = np.array(usefulness, dtype=np.float64)
    spared = exempt(utility, exempt_percent, ids)
    factor = time_factor(times, limit_s, exponent)
    factor[spared] = 1
    return utility * factor


def descending(values: ArrayLike, ids: ArrayLike) -> Positions:
    """Return positions by descending value, ties by ascending id."""
    order: Positions = np.lexsort((np.asarray(ids), -np.asarray(values, dtype=np.float64)))
    return order


def decimal(number: float) -> Fraction:
    """Return a number as the exact decimal that it prints as, so that (1 - 0.7) * 10 is exactly 3."""
    return Fraction(repr(float(number)))
