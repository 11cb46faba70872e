"""PSFL's warm-up: measure the constants of Eq. 21 while all clients train with their whole gradients."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedtempo.errors import ConfigError
from fedtempo.federation import Federation, Vector, Work
from fedtempo.strategies.planning.structure import Constants, measured_constants
from fedtempo.strategies.rounds import train_round


async def warm_up(fed: Federation, rounds: int, *, per_example: bool) -> Constants:
    """Run lines 1-10 of Algorithm 1 and return what Eq. 21 needs (Eqs. 24-26); it is also noted in the records.

    Each round all clients take one step along their whole gradient and the mean of their models is committed; rounds in
    which no client reports are repeated. per_example: measure the variance of single examples' gradients, not of
    mini-batches'. Raises ConfigError if the run trains nothing.
    """
    work = Work(
        steps=1,
        full_batch=True,
        batch_size=1 if per_example else None,
        statistics=frozenset({"gradient_variance", "gradient_norm"}),
    )
    variances, times = np.full((2, rounds, len(fed.clients)), np.nan)
    spreads: list[float] = []
    while len(spreads) < rounds:
        updates = await train_round(fed, fed.clients, work)
        if not updates:
            continue
        if "gradient_variance" not in updates[0].statistics:
            raise ConfigError(
                "strategy.width and strategy.length are missing: they are solved for after a warm-up that measures "
                "gradients, and this run trains none; give both, or strategy.constants"
            )
        for update in updates:
            cell = len(spreads), update.client.id
            variances[cell] = update.statistics["gradient_variance"]
            times[cell] = update.finished - update.started
        models = [update.model for update in updates]
        norms = [update.statistics["gradient_norm"] for update in updates]
        spreads.append(await fed.on_server(gradient_spread, fed.model, models=models, norms=norms))
        fed.commit(await fed.average(models))
    constants = measured_constants(variances, spreads, times)
    fed.note("constants", {name: getattr(constants, name) for name in Constants.__annotations__})
    return constants


def gradient_spread(start: Vector, *, models: Sequence[Vector], norms: Sequence[float]) -> float:
    """Return the mean squared distance of the clients' gradients from their mean (B_k of Eq. 25).

    models: each client's model after one step from `start` along its whole gradient; norms: the norms of those
    gradients, which clients report, so that the step size need not be known.
    """
    mean = sum(np.asarray(model, dtype=np.float64) for model in models) / len(models)
    moved = sum(_squared_norm(np.asarray(model, dtype=np.float64) - start) for model in models)
    apart = sum(_squared_norm(model - mean) for model in models)
    return apart / len(models) * (sum(norm**2 for norm in norms) / moved if moved else 0.0)


def _squared_norm(vector: Vector) -> float:
    return float(vector @ vector)
