"""Hybrid parallel and sequential training with fixed groups: the baseline of the FedHusky paper."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence

from pydantic.dataclasses import dataclass

from fedtempo.federation import Client, ClientUnavailable, Federation, Model
from fedtempo.parts.fields import STRICT
from fedtempo.strategies.grouping import ClusterChoice, CountWarmup, WarmupEpochs, find_clusters
from fedtempo.strategies.sequential_training import OnLoss, train_in_sequence


@dataclass(frozen=True, config=STRICT)
class Hybrid:
    """Hybrid FL as described by Zhou et al. (FedHusky, Section I and Fig. 1c).

    Clients are clustered by their data; each group consists of one client of each cluster and never changes. In a round
    all groups train in parallel, the clients of a group in sequence and in random order; the plain mean of the groups'
    last models is the next global model.
    """

    clusters: ClusterChoice = "models"
    warmup_epochs: WarmupEpochs = 3
    count_warmup: CountWarmup = True
    on_loss: OnLoss = "skip"

    async def run(self, fed: Federation) -> None:
        cluster = await find_clusters(fed, self.clusters, self.warmup_epochs, self.count_warmup)
        groups = fixed_groups(fed.clients, cluster)
        fed.note("groups", [[client.id for client in group] for group in groups])
        for round_number in itertools.count():
            async with asyncio.TaskGroup() as tasks:
                ends = []
                for number, group in enumerate(groups):
                    order = fed.rng("order", round_number, number).permutation(len(group))
                    chain = self.sequence(fed, [group[i] for i in order], round_number * len(groups) + number)
                    ends.append(tasks.create_task(chain))
            models = [model for end in ends if (model := end.result()) is not None]
            if models:
                fed.commit(await fed.average(models))

    async def sequence(self, fed: Federation, clients: Sequence[Client], number: int) -> Model | None:
        """Train the global model along a group and return the result; None if the group was aborted."""
        try:
            return await train_in_sequence(fed, clients, fed.model, group=number, on_loss=self.on_loss)
        except ClientUnavailable:
            return None


def fixed_groups(clients: Sequence[Client], cluster: Sequence[int]) -> list[list[Client]]:
    """Return groups with one client of each cluster; there is one per client of the smallest cluster.

    The remaining clients of larger clusters join the groups in turn.
    """
    members = [[client for client in clients if cluster[client.id] == c] for c in sorted(set(cluster))]
    count = min(map(len, members))
    groups: list[list[Client]] = [[] for _ in range(count)]
    for cluster_members in members:
        for position, client in enumerate(cluster_members):
            groups[position % count].append(client)
    return groups
