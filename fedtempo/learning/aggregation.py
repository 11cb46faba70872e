"""Arithmetic on models: functions of flat vectors that return a new flat vector.

Only operators are used, so NumPy arrays and PyTorch tensors both work, including empty ones. Sums run in the order of
the arguments, which fixes their bits. Arguments are never modified.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

V = TypeVar("V", bound=Any)
"""A flat vector: `numpy.ndarray` or `torch.Tensor`."""


def average(models: Sequence[V], weights: Sequence[float] | None = None) -> V:
    """Return the weighted mean of models (FedAvg: weights are numbers of examples); the plain mean by default.

    Raises ValueError without models, for unequal numbers of models and weights, or if weights do not sum to above 0.
    """
    if weights is None:
        weights = [1.0] * len(models)
    _check("average", models, weights)
    total = float(sum(weights))
    if not total > 0:
        raise ValueError(f"average: weights sum to {total:g}; the sum must be above 0")
    return _weighted_sum(models, [weight / total for weight in weights])


def mix(a: V, b: V, beta: float) -> V:
    """Return (1 - beta) * a + beta * b (FedHusky; FedAsync, where beta is alpha_t)."""
    return _weighted_sum([a, b], [1.0 - beta, beta])


def _check(what: str, vectors: Sequence[object], weights: Sequence[float]) -> None:
    if not vectors or len(vectors) != len(weights):
        raise ValueError(f"{what}: {len(vectors)} vectors and {len(weights)} weights; give one weight per vector")


def _weighted_sum(vectors: Sequence[V], weights: Sequence[float]) -> V:
    """Return the sum of weight * vector, in the order given."""
    factors = [float(weight) for weight in weights]  # Python floats, since NumPy's would widen float32 vectors
    total: V = vectors[0] * factors[0]
    if not len(total):
        return total  # the only case in runs without training, which may have many clients
    for vector, factor in zip(vectors[1:], factors[1:]):
        total += vector * factor
    return total
