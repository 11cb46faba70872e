"""Arithmetic on models: flat vectors in, a new flat vector out.

Only operators are used, so NumPy arrays and PyTorch tensors work alike, empty ones too. Sums run in the order given:
the same bits however the vectors came to be. Arguments are never written to.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

V = TypeVar("V", bound=Any)
"""A flat vector: `numpy.ndarray` or `torch.Tensor`."""


def average(models: Sequence[V], weights: Sequence[float] | None = None) -> V:
    """Sum of weight * model over the sum of weights (FedAvg: weights are numbers of examples); plain mean by default.

    Raises ValueError for no models, unequal numbers of models and weights, or weights that do not sum to more than 0.
    """
    if weights is None:
        weights = [1.0] * len(models)
    _check("average", models, weights)
    total = float(sum(weights))
    if not total > 0:
        raise ValueError(f"average: weights sum to {total:g}; it must be more than 0")
    return _weighted_sum(models, [weight / total for weight in weights])


def mix(a: V, b: V, beta: float) -> V:
    """(1 - beta) * a + beta * b (FedHusky; FedAsync, beta its alpha_t)."""
    return _weighted_sum([a, b], [1.0 - beta, beta])


def _check(what: str, vectors: Sequence[object], weights: Sequence[float]) -> None:
    if not vectors or len(vectors) != len(weights):
        raise ValueError(f"{what}: {len(vectors)} vectors and {len(weights)} weights; one weight for each is needed")


def _weighted_sum(vectors: Sequence[V], weights: Sequence[float]) -> V:
    """Sum of weight * vector in the order given."""
    factors = [float(weight) for weight in weights]  # plain floats: NumPy's would widen float32 vectors
    total: V = vectors[0] * factors[0]
    if not len(total):
        return total  # schedules alone have nothing else, of many clients
    for vector, factor in zip(vectors[1:], factors[1:]):
        total += vector * factor
    return total
