"""Weighted means of models that the settings of `fed.average` leave alone."""

from __future__ import annotations

from collections.abc import Sequence

from fedtempo.federation import Federation, Model, Vector


async def weighted_mean(fed: Federation, models: Sequence[Model], weights: Sequence[float]) -> Model:
    """Return the sum of weight / (sum of weights) * model.

    Unlike `fed.average` it is not followed by a step of `server.optimizer`, and it is not protected.
    """
    total = sum(weights)
    shares = [weight / total for weight in weights]
    statistics: dict[Model, float] = {}
    for model, share in zip(models, shares):
        statistics[model] = statistics.get(model, 0.0) + share
    mean: Model = await fed.on_server(weighted_sum, models=models, weights=shares, statistics_from=statistics)
    return mean


def weighted_sum(*, models: Sequence[Vector], weights: Sequence[float]) -> Vector:
    """Return the sum of weight * model, added in the given order."""
    total = weights[0] * models[0]
    for model, weight in zip(models[1:], weights[1:]):
        total = total + weight * model
    return total
