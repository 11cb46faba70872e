"""PSFL: clients train in parallel sequences, whose number and length follow from the data and the clients' speeds."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

import numpy as np
from pydantic import BeforeValidator
from pydantic.dataclasses import dataclass

from fedtempo.errors import ConfigError
from fedtempo.federation import Federation, Update
from fedtempo.parts.construct import construct
from fedtempo.parts.fields import STRICT, Count, Doc, Ge, Gt, Lt
from fedtempo.strategies.planning.sampling import Ids, partition_sequences, uniform_sequences, weighted_sequences
from fedtempo.strategies.planning.structure import Constants, Rounding, Structure, StructureProblem
from fedtempo.strategies.psfl_warmup import warm_up
from fedtempo.strategies.sequential_training import train_in_sequence


def _constants(value: object) -> object:
    return construct(Constants, value, "strategy.constants") if isinstance(value, Mapping) else value


@dataclass(frozen=True, config=STRICT)
class Psfl:
    """Zhou, Zhao, Xu, Xiao, Wu and Zhang, PSFL: Parallel-Sequential Federated Learning with Convergence Guarantees.

    Algorithm 1. Each round W sequences of S clients train in parallel; within a sequence, client after client trains
    the same model. The plain mean of the last models is the next global model (Eq. 3). Partition sampling takes for
    every sequence one client of each of S classes of speed (Section V-C); speeds are running means of observed visits.

    W and S are `width` and `length`. If they are not given they minimise Eq. 21, with constants that are given or
    measured in a warm-up (`psfl_warmup`): rounds in which all clients compute their whole gradient. Such a visit takes
    as long as one local epoch.
    """

    clients_per_round: Annotated[Count | None, Doc("largest number of clients per round, N-tilde (default: all)")] = (
        None
    )
    width: Annotated[Count | None, Doc("number of parallel sequences, W (default: solved for, with length)")] = None
    length: Annotated[Count | None, Doc("clients per sequence, S (default: solved for, with width)")] = None
    constants: Annotated[
        Constants | None,
        BeforeValidator(_constants),
        Doc(
            "constants of Eq. 21, {gradient_variance, gradient_spread, visit_s, visit_variance}: sigma^2, B, t-bar in "
            "seconds, kappa^2 (default: measured in a warm-up)"
        ),
    ] = None
    c0: Annotated[float, Gt(0), Lt(0.2), Doc("c0 of the learning rate's bound c0 / (L S) in Theorem 1")] = 0.1
    rounding: Annotated[
        Rounding, Doc("how to round W and S: to the best neighbouring pair, or to the nearest, cut to N-tilde")
    ] = "best"
    warmup_rounds: Annotated[int, Ge(2), Doc("number of warm-up rounds, K")] = 5
    variance_of: Annotated[
        Literal["batch", "example"],
        Doc("sigma^2 is the variance of the gradients of mini-batches, or of single examples"),
    ] = "batch"
    sampling: Annotated[
        Literal["partition", "uniform", "weighted"],
        Doc("one client per class of speed, any clients, or fast ones more often: as 1 / sqrt(time)"),
    ] = "partition"

    def __post_init__(self) -> None:
        if (self.width is None) != (self.length is None):
            raise ValueError("width and length go together: give both, or neither to solve for them")
        if self.width and self.length and self.clients_per_round and self.width * self.length > self.clients_per_round:
            raise ValueError(
                f"width = {self.width} times length = {self.length} must not exceed "
                f"clients_per_round = {self.clients_per_round}"
            )

    async def run(self, fed: Federation) -> None:
        structure = await self.structure(fed)
        fed.note("structure", {"width": structure.width, "length": structure.length})
        times = _Times(fed)
        for round_number in itertools.count():
            sequences = self.sequences(times.means(), structure, fed.rng("sampling", round_number))
            start = fed.model
            async with asyncio.TaskGroup() as tasks:
                chains = [
                    tasks.create_task(
                        train_in_sequence(
                            fed,
                            [fed.clients[i] for i in sequence],
                            start,
                            group=round_number * structure.width + number,
                            observe=times.observe,
                        )
                    )
                    for number, sequence in enumerate(sequences.tolist())
                ]
            ends = [end for chain in chains if (end := chain.result()) is not start]
            if ends:
                fed.commit(await fed.average(ends))

    def sequences(self, times: Sequence[float], structure: Structure, rng: np.random.Generator) -> Ids:
        """Return the ids of a round's clients, (W, S)."""
        width, length = structure
        if self.sampling == "uniform":
            return uniform_sequences(len(times), length, width, rng)
        if self.sampling == "weighted":
            return weighted_sequences(times, length, width, rng)
        return partition_sequences(times, length, width, rng)

    async def structure(self, fed: Federation) -> Structure:
        """Return W and S as given, or solve for them. Raises ConfigError if that fails or there are too few clients."""
        n_clients = len(fed.clients)
        if self.width is not None and self.length is not None:
            if self.width * self.length > n_clients:
                raise ConfigError(
                    f"strategy.width = {self.width} times strategy.length = {self.length} must not exceed "
                    f"the number of clients, {n_clients}"
                )
            return Structure(self.width, self.length)
        constants = self.constants or await warm_up(fed, self.warmup_rounds, per_example=self.variance_of == "example")
        return self.problem(constants, n_clients).structure(self.rounding)

    def problem(self, constants: Constants, n_clients: int) -> StructureProblem:
        """Return the problem of choosing W and S for this number of clients."""
        return StructureProblem(constants, min(self.clients_per_round or n_clients, n_clients), self.c0)


class _Times:
    """Running means of the clients' visits, seconds; the server's estimate until a client's first visit."""

    def __init__(self, fed: Federation) -> None:
        self._fed = fed
        self._sums = np.zeros(len(fed.clients))
        self._counts = np.zeros(len(fed.clients), dtype=int)

    def observe(self, update: Update) -> None:
        self._sums[update.client.id] += update.finished - update.started
        self._counts[update.client.id] += 1

    def means(self) -> list[float]:
        return [
            float(seconds) / int(count) if count else self._fed.estimate(client).visit_s
            for client, seconds, count in zip(self._fed.clients, self._sums, self._counts)
        ]
