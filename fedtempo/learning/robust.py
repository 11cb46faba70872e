"""Averages that one bad model cannot move far: coordinate median, trimmed mean, clipped changes.

Yin, Chen, Ramchandran and Bartlett, Byzantine-Robust Distributed Learning: Towards Optimal Statistical Rates, ICML
2018, Definitions 1 and 2. Every model counts the same: a number of examples that a client claims would be a weight that
it gives itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
import scipy

from fedtempo.learning.aggregation import average

Vector = np.ndarray[Any, np.dtype[Any]]
Aggregation = Literal["mean", "median", "trimmed-mean"]


def median(models: Sequence[Vector]) -> Vector:
    """In each coordinate the median of the models (Definition 1); the mean of the middle two where they are even."""
    stacked = np.stack(models)
    return np.asarray(np.median(stacked, axis=0)) if stacked.size else stacked[0]


def trimmed_mean(models: Sequence[Vector], trim: float) -> Vector:
    """In each coordinate the mean without the `trim` largest and the `trim` smallest share, rounded down (Def. 2)."""
    stacked = np.stack(models)
    return np.asarray(scipy.stats.trim_mean(stacked, trim, axis=0), dtype=stacked.dtype) if stacked.size else stacked[0]


def clipped(model: Vector, base: Vector, clip_norm: float) -> Vector:
    """`base` and the change from it to `model`, shortened to the L2 norm `clip_norm` where it is longer."""
    change = model - base
    norm = float(np.linalg.norm(change.astype(np.float64)))
    return model if norm <= clip_norm else base + change * (clip_norm / norm)


def aggregated(models: Sequence[Vector], weights: Sequence[float], *, aggregation: Aggregation, trim: float) -> Vector:
    """The models' average of this kind; only a mean has weights."""
    ways: dict[Aggregation, Callable[[], Vector]] = {
        "mean": lambda: average(models, weights),
        "median": lambda: median(models),
        "trimmed-mean": lambda: trimmed_mean(models, trim),
    }
    return ways[aggregation]()


def robust_average(
    models: Sequence[Vector],
    weights: Sequence[float],
    base: Vector,
    *,
    aggregation: Aggregation,
    trim: float,
    clip_norm: float | None,
) -> Vector:
    """The models' changes from `base` clipped, where clip_norm is given, then `aggregated`."""
    if clip_norm is not None:
        models = [clipped(model, base, clip_norm) for model in models]
    return aggregated(models, weights, aggregation=aggregation, trim=trim)
