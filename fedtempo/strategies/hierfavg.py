"""HierFAVG: edge servers average their own clients' models, and the cloud now and then averages the edges' models."""

from __future__ import annotations

import asyncio
import itertools
import statistics
from collections.abc import Sequence
from typing import Annotated

from pydantic import Field
from pydantic.dataclasses import dataclass

from fedtempo.errors import ConfigError
from fedtempo.federation import Client, Federation, Model, Work
from fedtempo.parts.fields import STRICT, Count, Doc, NonNegative
from fedtempo.strategies.means import weighted_mean
from fedtempo.strategies.planning.edges import members_by_name, random_members
from fedtempo.strategies.rounds import train_round, uniform_sample

Names = Annotated[tuple[str, ...], Field(strict=False)]


@dataclass(frozen=True, config=STRICT)
class HierFAVG:
    """Liu, Zhang, Song and Letaief, Client-Edge-Cloud Hierarchical Federated Learning, ICC 2020.

    Every client belongs to one edge server; the links of `[fleet]` are those between clients and edges. Means are
    weighted by examples: |D_i| of client i, |D^l| of the clients of edge l. After local step number k (Alg. 1),

        w_l <- sum over clients i of edge l of |D_i| * w_i / |D^l|     if kappa_1 divides k,
        w   <- sum over edges l of |D^l| * w_l / |D|                   if kappa_1 * kappa_2 divides k.

    Clients go on from w_l, or from w. Between two averages of the cloud, the commits, edges do not wait for each other.
    """

    edges: Annotated[
        Count | Annotated[tuple[Names, ...], Field(strict=False)],
        Doc("number of edges, to which clients are assigned at random, or the names of each edge's clients"),
    ] = 5
    local_steps: Annotated[
        Count | None, Doc("local steps between two averages of an edge; kappa_1 (default: as configured in [training])")
    ] = None
    edge_rounds: Annotated[Count, Doc("averages of an edge per average of the cloud; kappa_2")] = 2
    cloud_s: Annotated[
        NonNegative | Annotated[tuple[NonNegative, ...], Field(strict=False)] | None,
        Doc(
            "time of a transfer between edge and cloud, in each direction, seconds: a number, or one per edge "
            "(default: ten times the clients' mean expected upload)"
        ),
    ] = None
    clients_per_round: Annotated[Count | None, Doc("clients of an edge drawn per edge round (default: all)")] = None

    async def run(self, fed: Federation) -> None:
        edges = self.members(fed)
        cloud_s = self.cloud_times(fed, len(edges))
        fed.note("edges", [[client.id for client in clients] for clients in edges])
        fed.note("cloud_s", cloud_s)
        examples = [float(sum(client.num_examples for client in clients)) for clients in edges]
        for round_number in itertools.count():
            async with asyncio.TaskGroup() as tasks:
                rounds = [
                    tasks.create_task(self.train_edge(fed, edge, clients, cloud_s[edge], round_number))
                    for edge, clients in enumerate(edges)
                ]
            models = [task.result() for task in rounds]
            if any(model is not fed.model for model in models):
                fed.commit(await fed.average(models, examples))

    async def train_edge(
        self, fed: Federation, edge: int, clients: Sequence[Client], cloud_s: float, round_number: int
    ) -> Model:
        """Return an edge's model after its rounds, when the cloud has it; the global one if no client reported."""
        model = fed.model
        await fed.sleep_until(fed.now + cloud_s)
        for number in range(self.edge_rounds):
            chosen = uniform_sample(clients, self.clients_per_round, fed.rng("sampling", round_number, edge, number))
            if updates := await train_round(fed, chosen, Work(steps=self.local_steps), model=model):
                weights = [float(update.num_examples) for update in updates]
                model = await weighted_mean(fed, [update.model for update in updates], weights)
        await fed.sleep_until(fed.now + cloud_s)
        return model

    def members(self, fed: Federation) -> list[list[Client]]:
        """Return the clients of each edge. Raises ConfigError unless each client belongs to one of the named edges."""
        if isinstance(self.edges, int):
            drawn = random_members(len(fed.clients), self.edges, fed.rng("edges"))
        else:
            drawn = members_by_name([client.name or str(client.id) for client in fed.clients], self.edges)
        return [[fed.clients[client] for client in edge] for edge in drawn]

    def cloud_times(self, fed: Federation, n_edges: int) -> list[float]:
        """Return the time of a transfer between each edge and the cloud, seconds. Raises ConfigError if misnumbered."""
        times = self.cloud_s
        if times is None:
            times = 10 * statistics.fmean(fed.estimate(client).upload_s for client in fed.clients)
        of_edges = list(times) if isinstance(times, tuple) else [float(times)] * n_edges
        if len(of_edges) != n_edges:
            raise ConfigError(f"strategy.cloud_s: {len(of_edges)} numbers for {n_edges} edges; give one for each")
        return of_edges
