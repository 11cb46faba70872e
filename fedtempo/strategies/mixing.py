"""Mixing results into the global model as they arrive, weighted by how stale they are."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Annotated

from fedtempo.federation import Federation, Model, Vector
from fedtempo.parts.fields import Doc, Interval, Share
from fedtempo.strategies.planning.staleness import polynomial

Steady = Annotated[bool, Doc("weight a result fresher than the mean so far as if it were as stale as the mean")]
MemoryShare = Annotated[float, Interval(gt=0, le=1), Doc("share of a new change in the remembered one")]
Cool = Annotated[Share, Doc("last share of the horizon over which the gain falls linearly to 0")]


class Mixer:
    """The server's side of asynchronous training, with one commit per result.

    A result that started from version tau of the global model, now at version t, has the gap t - tau and the weight
    min(1, gain * (1 + gap)^(-exponent)) (FedHusky, Eq. 18). With `steady`, a gap below the mean of all gaps so far
    counts as that mean; otherwise a result that arrives in a lull (at the start, among the last groups) would move the
    model as much as dozens of others together. With `cool`, the gain falls linearly to 0 over that last share of the
    horizon. A result is mixed as a model, (1 - weight) * w + weight * trained (Eq. 17), or as a change,
    w + weight * (trained - start). With `memory`, changes are corrected by remembered ones (`add_corrected_change`).
    """

    def __init__(
        self,
        fed: Federation,
        memory_of: Sequence[int],
        *,
        gain: float,
        exponent: float,
        change: bool,
        memory: float | None,
        steady: bool = False,
        cool: float = 0.0,
    ) -> None:
        """memory_of: for each client, the number of its remembered change: its cluster, or its own id.

        change: mix changes rather than models. memory: share of a new change in the remembered one; None turns the
        correction off.
        """
        self._fed, self._memory_of = fed, memory_of
        self._gain, self._exponent, self._change, self._memory = gain, exponent, change, memory
        self._steady, self._cool = steady, cool
        self._gaps = self._commits = 0
        self._remembered: dict[int, Model] = {}
        self._total: Model | None = None
        self._turn = asyncio.Lock()

    async def commit(self, start: Model, trained: Model, client: int) -> None:
        """Mix the model that `client` (the last of a chain) trained from `start`, a version of the global model."""
        async with self._turn:  # the global model must not change between reading and committing it
            fed = self._fed
            gap = fed.model.version - start.version
            weight = self._weight(gap)
            if self._memory is not None:
                mixed = await self._corrected(start, trained, self._memory_of[client], weight, self._memory)
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

    async def _corrected(self, start: Model, trained: Model, number: int, weight: float, memory: float) -> Model:
        mixed: Model
        mixed, self._remembered[number], self._total = await self._fed.on_server(
            add_corrected_change,
            self._fed.model,
            start,
            trained,
            statistics_from={self._fed.model: 1 - weight, trained: weight},
            remembered=self._remembered.get(number),
            total=self._total,
            memories=len(self._remembered.keys() | {number}),
            weight=weight,
            memory=memory,
        )
        return mixed


def add_change(model: Vector, start: Vector, trained: Vector, *, weight: float) -> Vector:
    """Return model + weight * (trained - start)."""
    return model + weight * (trained - start)


def add_corrected_change(
    model: Vector,
    start: Vector,
    trained: Vector,
    *,
    remembered: Vector | None,
    total: Vector | None,
    memories: int,
    weight: float,
    memory: float,
) -> tuple[Vector, Vector, Vector]:
    """Add a change from which the remembered one is subtracted and the mean of all is added, as in SAGA.

    remembered: the change remembered for this client or cluster, None at its first; total: the sum of all remembered
    changes, None at the very first; memories: how many there are, this one included. Returns the next global model, the
    updated remembered change, and the updated sum.
    """
    change = trained - start
    corrected = change
    if remembered is not None:
        corrected = corrected - remembered
    if total is not None:
        corrected = corrected + total / memories
    update = change if remembered is None else memory * (change - remembered)
    return (
        model + weight * corrected,
        update if remembered is None else remembered + update,
        update if total is None else total + update,
    )
