"""Robust averages, which one bad model cannot move far: coordinate median, trimmed mean, clipped changes.

Yin, Chen, Ramchandran and Bartlett, Byzantine-Robust Distributed Learning: Towards Optimal Statistical Rates, ICML
2018, Definitions 1 and 2. Every model has the same weight: with numbers of examples as weights, a client could choose
its own weight.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np

from fedtempo.learning.aggregation import average

Vector = np.ndarray[Any, np.dtype[Any]]
Aggregation = Literal["mean", "median", "trimmed-mean"]


def median(models: Sequence[Vector]) -> Vector:
    """Return the coordinate-wise median (Definition 1), the mean of the middle two for an even number of models."""
    stacked = np.stack(models)
    return np.asarray(np.median(stacked, axis=0)) if stacked.size else stacked[0]


def trimmed_mean(models: Sequence[Vector], trim: float) -> Vector:
    """Return the coordinate-wise mean without the share `trim` (rounded down) at either end (Definition 2)."""
    stacked = np.stack(models)
    import scipy  # here, because every configuration imports this module

    return np.asarray(scipy.stats.trim_mean(stacked, trim, axis=0), dtype=stacked.dtype) if stacked.size else stacked[0]


def clipped(model: Vector, base: Vector, clip_norm: float) -> Vector:
    """Return `base` plus the change from it to `model`, scaled down to L2 norm `clip_norm` if it is longer."""
    change = model - base
    norm = float(np.linalg.norm(change.astype(np.float64)))
    return model if norm <= clip_norm else base + change * (clip_norm / norm)


def aggregated(models: Sequence[Vector], weights: Sequence[float], *, aggregation: Aggregation, trim: float) -> Vector:
    """Return the models' average of this kind; weights apply to "mean" only."""
    averages: dict[Aggregation, Callable[[], Vector]] = {
        "mean": lambda: average(models, weights),
        "median": lambda: median(models),
        "trimmed-mean": lambda: trimmed_mean(models, trim),
    }
    return averages[aggregation]()


def robust_average(
    models: Sequence[Vector],
    weights: Sequence[float],
    base: Vector,
    *,
    aggregation: Aggregation,
    trim: float,
    clip_norm: float | None,
) -> Vector:
    """Return the `aggregated` models, with their changes from `base` clipped first if clip_norm is given."""
    if clip_norm is not None:
        models = [clipped(model, base, clip_norm) for model in models]
    return aggregated(models, weights, aggregation=aggregation, trim=trim)
