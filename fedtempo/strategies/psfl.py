"""PSFL: sequences of clients train at once, as many and as long as the data and the clients' times ask for."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

import numpy as np
from pydantic import BeforeValidator
from pydantic.dataclasses import dataclass

from fedtempo.errors import ConfigError
from fedtempo.federation import Federation, Update, Vector, Work
from fedtempo.parts.construct import construct
from fedtempo.parts.fields import STRICT, Count, Doc, Ge, Gt, Lt
from fedtempo.strategies.planning.sampling import Ids, partition_sequences, uniform_sequences, weighted_sequences
from fedtempo.strategies.planning.structure import Constants, Rounding, Structure, StructureProblem, measured_constants
from fedtempo.strategies.rounds import train_round
from fedtempo.strategies.sequential_training import train_in_sequence


def _constants(value: object) -> object:
    return construct(Constants, value, "strategy.constants") if isinstance(value, Mapping) else value


@dataclass(frozen=True, config=STRICT)
class Psfl:
    """Zhou, Zhao, Xu, Xiao, Wu and Zhang, PSFL: Parallel-Sequential Federated Learning with Convergence Guarantees.

    Algorithm 1. Each round W sequences of S clients train at once, each sequence one client after the other, and the
    plain mean of the last models is the next global one (Eq. 3). For every sequence partition sampling takes one client
    of each of S classes of speed (Section V-C); speeds are running means of the visits seen.

    W and S are `width` and `length`. Where they are not given they minimise Eq. 21, with its constants as given or
    measured in a warm-up: rounds in which all clients compute their whole gradient. Such a visit takes as long as one
    of one epoch.
    """

    clients_per_round: Annotated[Count | None, Doc("most clients of a round, N-tilde; all where not given")] = None
    width: Annotated[Count | None, Doc("sequences at once, W; solved for, with length, where not given")] = None
    length: Annotated[Count | None, Doc("clients of a sequence, S; solved for, with width, where not given")] = None
    constants: Annotated[
        Constants | None,
        BeforeValidator(_constants),
        Doc(
            "what Eq. 21 depends on, {gradient_variance, gradient_spread, visit_s, visit_variance}: sigma^2, B, t-bar "
            "in seconds, kappa^2; measured in a warm-up where not given"
        ),
    ] = None
    c0: Annotated[float, Gt(0), Lt(0.2), Doc("bound of the learning rate, c0 / (L S), in Theorem 1")] = 0.1
    rounding: Annotated[Rounding, Doc("to whole W and S: the best pair of neighbours, or nearest, cut to N-tilde")] = (
        "best"
    )
    warmup_rounds: Annotated[int, Ge(2), Doc("rounds of the warm-up, K")] = 5
    variance_of: Annotated[
        Literal["batch", "example"], Doc("whose gradients' variance is sigma^2: a mini-batch's, or one example's")
    ] = "batch"
    sampling: Annotated[
        Literal["partition", "uniform", "weighted"],
        Doc("a client of each class of speed, any clients, or fast ones more often: by 1 / sqrt(time)"),
    ] = "partition"

    def __post_init__(self) -> None:
        if (self.width is None) != (self.length is None):
            raise ValueError("width and length go together: give both, or neither to have them solved for")
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
        """Ids of a round's clients, (W, S)."""
        width, length = structure
        if self.sampling == "uniform":
            return uniform_sequences(len(times), length, width, rng)
        if self.sampling == "weighted":
            return weighted_sequences(times, length, width, rng)
        return partition_sequences(times, length, width, rng)

    async def structure(self, fed: Federation) -> Structure:
        """W and S as given, or solved for. Raises ConfigError where they cannot be, or the clients are too few."""
        n_clients = len(fed.clients)
        if self.width is not None and self.length is not None:
            if self.width * self.length > n_clients:
                raise ConfigError(
                    f"strategy.width = {self.width} times strategy.length = {self.length} must not exceed "
                    f"the number of clients, {n_clients}"
                )
            return Structure(self.width, self.length)
        constants = self.constants or await self.warm_up(fed)
        return self.problem(constants, n_clients).structure(self.rounding)

    def problem(self, constants: Constants, n_clients: int) -> StructureProblem:
        """The choice of W and S for so many clients."""
        return StructureProblem(constants, min(self.clients_per_round or n_clients, n_clients), self.c0)

    async def warm_up(self, fed: Federation) -> Constants:
        """Lines 1-10: measure what Eq. 21 needs (Eqs. 24-26), while the whole gradient of all clients trains."""
        work = Work(
            steps=1,
            full_batch=True,
            batch_size=1 if self.variance_of == "example" else None,
            statistics=frozenset({"gradient_variance", "gradient_norm"}),
        )
        variances, times = np.full((2, self.warmup_rounds, len(fed.clients)), np.nan)
        spreads: list[float] = []
        while len(spreads) < self.warmup_rounds:
            updates = await train_round(fed, fed.clients, work)
            if not updates:
                continue
            if "gradient_variance" not in updates[0].statistics:
                raise ConfigError(
                    "strategy.width and strategy.length are missing: they are solved for after a warm-up that measures "
                    "gradients, and this run trains none; give both, or strategy.constants"
                )
            for update in updates:
                place = len(spreads), update.client.id
                variances[place] = update.statistics["gradient_variance"]
                times[place] = update.finished - update.started
            models = [update.model for update in updates]
            norms = [update.statistics["gradient_norm"] for update in updates]
            spreads.append(await fed.on_server(gradient_spread, fed.model, models=models, norms=norms))
            fed.commit(await fed.average(models))
        constants = measured_constants(variances, spreads, times)
        fed.note("constants", {name: getattr(constants, name) for name in Constants.__annotations__})
        return constants


class _Times:
    """Running means of the clients' visits, seconds; what the server believes before the first."""

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


def gradient_spread(start: Vector, *, models: Sequence[Vector], norms: Sequence[float]) -> float:
    """Mean squared distance of the clients' gradients from their mean (B_k of Eq. 25).

    models: each client's after one step from `start` along its whole gradient, whose norm the client tells: so the step
    size need not be known.
    """
    mean = sum(np.asarray(model, dtype=np.float64) for model in models) / len(models)
    moved = sum(_squared_norm(np.asarray(model, dtype=np.float64) - start) for model in models)
    apart = sum(_squared_norm(model - mean) for model in models)
    return apart / len(models) * (sum(norm**2 for norm in norms) / moved if moved else 0.0)


def _squared_norm(vector: Vector) -> float:
    return float(vector @ vector)
