"""REFL's choice of participants, least available first, and its weights of stale updates."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

Change = tuple[Any, Any]
"""The vectors between which a client's training went, from the first to the second."""

StaleRule = Literal["refl", "equal", "inverse", "exponential"]


def least_available(chances: ArrayLike, resting: ArrayLike, count: int, rng: np.random.Generator) -> list[int]:
    """Return the positions of the `count` clients that are least likely to be available later, in ascending order.

    chances: (n,), probability to be available later. resting: (n,), whether a client took part recently; such clients
    come after all others. Ties are broken at random.
    """
    order = np.lexsort((rng.random(np.size(chances)), np.asarray(chances, float), np.asarray(resting, bool)))
    return sorted(order[:count].tolist())


def squared_deviations(*, changes: Sequence[Change], fresh: Sequence[Change]) -> list[float]:
    """Return the squared distance of each change from the mean of the fresh ones; 0 without any.

    REFL divides it by the squares of that mean and of the number of fresh changes + 1, which are common to all.
    """
    if not fresh:
        return [0.0] * len(changes)
    mean = sum(end - start for start, end in fresh) / len(fresh)
    return [float(np.sum((mean - (end - start)) ** 2)) for start, end in changes]


def stale_weights(rule: StaleRule, missed: Sequence[int], deviations: Sequence[float], beta: float) -> list[float]:
    """Return the weights of stale updates, relative to 1 for fresh ones.

    rule: "equal", 1; "inverse", 1 / (missed + 1); "exponential", e^-(missed + 1); "refl", (1 - beta) / (missed + 1) +
    beta * (1 - e^-(deviation / largest deviation)). missed: commits that each one missed. deviations: its squared
    distance from the mean of the fresh ones; if all are 0, each counts as the largest.
    """
    peak = max(deviations, default=0.0)
    return [
        _weight(rule, commits, deviation / peak if peak > 0 else 1.0, beta)
        for commits, deviation in zip(missed, deviations, strict=True)
    ]


def _weight(rule: StaleRule, missed: int, deviation: float, beta: float) -> float:
    if rule == "equal":
        return 1.0
    if rule == "inverse":
        return 1 / (missed + 1)
    if rule == "exponential":
        return math.exp(-(missed + 1))
    return (1 - beta) / (missed + 1) + beta * (1 - math.exp(-deviation))
