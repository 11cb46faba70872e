"""Strategies that were tried beyond the papers and are not registered; settings name them by module and class."""

from __future__ import annotations

import asyncio
import itertools
import math
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import numpy as np
from pydantic.dataclasses import dataclass

from fedtempo.federation import Client, ClientUnavailable, Federation, Model, Vector
from fedtempo.parts.fields import STRICT, Count, Doc, NonNegative, Positive
from fedtempo.strategies import AsyncMemory, FedHusky, FedHuskyPaper, Psfl
from fedtempo.strategies.asynchronous import fastest_clients
from fedtempo.strategies.fedhusky import Paced
from fedtempo.strategies.fedhusky_paper import FirstGroup
from fedtempo.strategies.grouping import ClusterChoice, Reach, find_clusters
from fedtempo.strategies.mixing import Cool, Mixer, Steady
from fedtempo.strategies.planning.hopping import HoppingSchedule, Pace

EvenSpeeds = Annotated[bool, Doc("swap clients between clusters until all are about equally fast")]
MinAttemptGap = Annotated[NonNegative, Doc("least time between attempts to plan a group, seconds")]


@dataclass(frozen=True, config=STRICT)
class FedHuskyHops(FedHusky):
    """FedHusky with options of its schedule and its mixing that are not worth their place in the strategy."""

    even_speeds: EvenSpeeds = False
    correct_by: Annotated[
        Literal["cluster", "client"], Doc("remember a change per cluster or per client, each of a model's size")
    ] = "cluster"
    cool: Cool = 0.0
    reach: Reach = 1.0
    clients_at_once: Annotated[Count | None, Doc("most groups alive, each with one client at work (default: all)")] = (
        None
    )
    min_attempt_gap: MinAttemptGap = 0.0
    length: Annotated[Count | None, Doc("with pace: clusters that a group visits (default: all)")] = None

    async def find_clusters(self, fed: Federation, *, even_speeds: bool = False) -> list[int]:
        return await super().find_clusters(fed, even_speeds=even_speeds or self.even_speeds)

    def mixer(self, fed: Federation, memory_of: Sequence[int], *, cool: float = 0.0) -> Mixer:
        by_client = self.correct_by == "client"
        return super().mixer(fed, range(len(fed.clients)) if by_client else memory_of, cool=cool or self.cool)

    def schedule(self, fed: Federation, cluster: Sequence[int], **options: Any) -> HoppingSchedule:
        options |= {"min_attempt_gap_s": self.min_attempt_gap, "most_alive": self.clients_at_once}
        if options["paced"] is not None:
            options["paced"] = options["paced"]._replace(length=self.length)
        schedule = super().schedule(fed, cluster, **options)
        schedule.keep(fastest_clients(fed, cluster, self.reach))
        return schedule


@dataclass(frozen=True, config=STRICT)
class FedHuskyGroups(FedHuskyPaper):
    """FedHusky's paper with other readings of its schedule, and other ways to mix a whole group's result.

    The first group is planned, unlike in the paper.
    """

    first_group: FirstGroup = "planned"
    even_speeds: EvenSpeeds = False
    min_attempt_gap: MinAttemptGap = 0.0
    pace: Paced = None
    mix: Annotated[
        Literal["model", "change"], Doc("mixed in: a group's model, (1 - weight) * w + weight * model, or its change")
    ] = "model"
    gain: Annotated[Positive, Doc("weight of a fresh result; weights are capped at 1")] = 1.0
    steady: Steady = False

    async def find_clusters(self, fed: Federation, *, even_speeds: bool = False) -> list[int]:
        return await super().find_clusters(fed, even_speeds=even_speeds or self.even_speeds)

    def mixer(self, fed: Federation, cluster: Sequence[int]) -> Mixer:
        change = self.mix == "change"
        gain, exponent, steady = self.gain, self.exponent, self.steady
        return Mixer(fed, cluster, gain=gain, exponent=exponent, change=change, memory=None, steady=steady)

    def schedule(self, fed: Federation, cluster: Sequence[int], **options: Any) -> HoppingSchedule:
        options["paced"] = None if self.pace is None else Pace(self.pace, fed.rng("order"))
        return super().schedule(fed, cluster, min_attempt_gap_s=self.min_attempt_gap, **options)


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
