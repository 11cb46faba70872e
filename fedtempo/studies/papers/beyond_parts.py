"""Strategies that were tried beyond the papers and not kept; the settings name them by module and class."""

from __future__ import annotations

import asyncio
import itertools
import math
from collections.abc import Sequence

import numpy as np
from pydantic.dataclasses import dataclass

from fedtempo.federation import Client, ClientUnavailable, Federation, Model, Vector
from fedtempo.parts.fields import STRICT, NonNegative, Positive
from fedtempo.strategies import AsyncMemory, Psfl
from fedtempo.strategies.grouping import ClusterChoice, find_clusters
from fedtempo.strategies.mixing import Mixer


@dataclass(frozen=True, config=STRICT)
class AdaptiveAsyncMemory(AsyncMemory):
    """Async-memory whose gain follows the angle between a client's change and the global model's change meanwhile.

    gain *= exp(adapt * cosine): if they agree, the steps were too short, as in hypergradient descent (Baydin et al.,
    ICLR 2018).
    """

    adapt: NonNegative = 0.02

    def mixer(self, fed: Federation, memory_of: Sequence[int], kind: type[Mixer] = Mixer) -> Mixer:
        mixer = super().mixer(fed, memory_of, _AdaptiveMixer)
        assert isinstance(mixer, _AdaptiveMixer)
        mixer.adapt = self.adapt
        return mixer


class _AdaptiveMixer(Mixer):
    adapt = 0.0

    async def commit(self, start: Model, trained: Model, client: int) -> None:
        if self._fed.model.version > start.version:
            cosine = await self._fed.on_server(agreement, self._fed.model, start, trained)
            self._gain *= math.exp(self.adapt * cosine)
        await super().commit(start, trained, client)


def agreement(model: Vector, start: Vector, trained: Vector) -> float:
    """Return the cosine of the angle between `trained - start` and `model - start`; 0 if either is zero."""
    change, moved = trained - start, model - start
    scale = float(np.linalg.norm(change) * np.linalg.norm(moved))
    return float(change @ moved) / scale if scale else 0.0


@dataclass(frozen=True, config=STRICT)
class PsflHops(Psfl):
    """PSFL's rounds and sequences, but clients start from the latest global model and commit corrected changes."""

    clusters: ClusterChoice = "labels"
    gain: Positive = 2.0
    memory: Positive = 0.5

    async def run(self, fed: Federation) -> None:
        cluster = await find_clusters(fed, self.clusters, 3, True)
        mixer = Mixer(fed, cluster, gain=self.gain, exponent=1.0, change=True, memory=self.memory, steady=True)
        structure = await self.structure(fed)
        times = [fed.estimate(client).visit_s for client in fed.clients]

        async def hop_along(clients: Sequence[Client], number: int) -> None:
            for client in clients:
                start, asked = fed.model, fed.now
                try:
                    update = await fed.train(client, start, group=number)
                except ClientUnavailable:
                    await fed.sleep_until(asked + fed.estimate(client).visit_s)
                else:
                    await mixer.commit(start, update.model, client.id)

        for round_number in itertools.count():
            sequences = self.sequences(times, structure, fed.rng("sampling", round_number))
            async with asyncio.TaskGroup() as tasks:
                for number, sequence in enumerate(sequences.tolist()):
                    clients = [fed.clients[i] for i in sequence]
                    tasks.create_task(hop_along(clients, round_number * structure.width + number))
