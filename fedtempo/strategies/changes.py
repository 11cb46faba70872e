"""Commits that add clients' changes to the global model, each with a weight of its own."""

from __future__ import annotations

from collections.abc import Sequence

from fedtempo.federation import Federation, Update, Vector


async def commit_changes(fed: Federation, updates: Sequence[Update], weights: Sequence[float]) -> None:
    """Commit the global model + the sum of weight * (trained - received); weights are at least 0.

    Running statistics are averaged with these weights, and the global model's with the rest of 1. With
    `server.optimizer` that model is where its step leads to. Hold a lock: the global model must not change between
    reading and committing it.
    """
    ends = [update.model for update in updates]
    stepped = await fed.on_server(
        add_changes,
        fed.model,
        starts=[update.received for update in updates],
        ends=ends,
        weights=weights,
        statistics_from={fed.model: max(0.0, 1 - sum(weights)), **dict(zip(ends, weights))},
    )
    stepped = await fed.server_step(stepped)
    fed.commit(stepped, staleness=max(fed.model.version - update.base_version for update in updates))


def add_changes(model: Vector, *, starts: Sequence[Vector], ends: Sequence[Vector], weights: Sequence[float]) -> Vector:
    """Return model + the sum of weight * (end - start), added in the given order."""
    for start, end, weight in zip(starts, ends, weights):
        model = model + weight * (end - start)
    return model
