"""Mixing results into the global model as they arrive, weighted by how stale they are."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from fedtempo.federation import Federation, Model, Vector
from fedtempo.strategies.planning.staleness import polynomial


class Mixer:
    """The server's side of asynchronous training, one commit a result.

    A result that started from version tau of the global model, now at version t, has the gap t - tau and the weight
    gain * (1 + gap)^(-exponent) (FedHusky, Eq. 18), at most 1. With `steady`, a gap below the mean of all gaps so far
    counts as that mean: results that come in a lull (the start, the last groups) else move the model as much as dozens
    of others together. It is mixed as a model, (1 - weight) * w + weight * trained (Eq.
    17), or as a change, w + weight * (trained - start). With `memory`, changes are corrected for their cluster.
    """

    def __init__(
        self,
        fed: Federation,
        cluster: Sequence[int],
        *,
        gain: float,
        exponent: float,
        change: bool,
        memory: float | None,
        steady: bool = False,
        cool: float = 0.0,
    ) -> None:
        """cluster: of each client. memory: share of a new change in its cluster's remembered one; None: uncorrected."""
        self._fed, self._cluster = fed, cluster
        self._gain, self._exponent, self._change, self._memory = gain, exponent, change, memory
        self._steady, self._cool = steady, cool
        self._gaps = self._commits = 0
        self._remembered: dict[int, Model] = {}
        self._total: Model | None = None
        self._turn = asyncio.Lock()

    async def commit(self, start: Model, trained: Model, client: int) -> None:
        """Mix what `client` (the last of a chain) made of `start`, a version of the global model."""
        async with self._turn:  # the global model must not change between reading and committing it
            fed = self._fed
            gap = fed.model.version - start.version
            weight = self._weight(gap)
            if self._memory is not None:
                mixed = await self._corrected(start, trained, self._cluster[client], weight, self._memory)
            elif self._change:
                mixed = await fed.on_server(
                    add_change,
                    fed.model,
                    start,
                    trained,
                    weight=weight,
                    statistics_from={fed.model: 1 - weight, trained: weight},
                )
            else:
                mixed = await fed.mix(fed.model, trained, weight)
            fed.commit(mixed, staleness=gap)

    def _weight(self, gap: int) -> float:
        self._gaps, self._commits = self._gaps + gap, self._commits + 1
        counted = max(gap, self._gaps / self._commits) if self._steady else gap
        gain = self._gain
        if self._cool and self._fed.now > (1 - self._cool) * self._fed.horizon:
            gain *= (self._fed.horizon - self._fed.now) / (self._cool * self._fed.horizon)
        return min(1.0, gain * polynomial(counted, self._exponent))

    async def _corrected(self, start: Model, trained: Model, cluster: int, weight: float, memory: float) -> Model:
        mixed: Model
        mixed, self._remembered[cluster], self._total = await self._fed.on_server(
            add_corrected_change,
            self._fed.model,
            start,
            trained,
            statistics_from={self._fed.model: 1 - weight, trained: weight},
            remembered=self._remembered.get(cluster),
            total=self._total,
            clusters=len(self._remembered.keys() | {cluster}),
            weight=weight,
            memory=memory,
        )
        return mixed


def add_change(model: Vector, start: Vector, trained: Vector, *, weight: float) -> Vector:
    """model + weight * (trained - start)."""
    return model + weight * (trained - start)


def add_corrected_change(
    model: Vector,
    start: Vector,
    trained: Vector,
    *,
    remembered: Vector | None,
    total: Vector | None,
    clusters: int,
    weight: float,
    memory: float,
) -> tuple[Vector, Vector, Vector]:
    """A change whose cluster's usual change is replaced by the mean of all clusters', as SAGA does with gradients.

    remembered: the cluster's usual change, None at its first; total: the sum of all clusters' remembered changes, None
    at the very first; clusters: how many these are, this one included. Returns the next global model, the cluster's
    remembered change, and the sum.
    """
    change = trained - start
    corrected = change
    if remembered is not None:
        corrected = corrected - remembered
    if total is not None:
        corrected = corrected + total / clusters
    news = change if remembered is None else memory * (change - remembered)
    return (
        model + weight * corrected,
        news if remembered is None else remembered + news,
        news if total is None else total + news,
    )
