"""FedVARP: FedAvg whose mean change is corrected by the latest changes of all clients, or of clusters of clients."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from typing import Annotated

from pydantic.dataclasses import dataclass

from fedtempo.federation import Federation
from fedtempo.parts.fields import STRICT, Count, Doc, Positive
from fedtempo.strategies.grouping import ClusterChoice, CountWarmup, WarmupEpochs, find_clusters
from fedtempo.strategies.latest_changes import LatestChanges
from fedtempo.strategies.rounds import train_round, uniform_sample


@dataclass(frozen=True, config=STRICT)
class FedVARP:
    """Jhunjhunwala, Sharma, Nagarkatti and Joshi, FedVARP: Tackling the Variance Due to Partial Client Participation in
    Federated Learning, UAI 2022.

    The server keeps the latest change y_j of each of the N clients, 0 at first. A round with the clients S, whose
    changes are d_i, makes the step

        v = (1 / |S|) * sum over S of (d_i - y_i) + (1 / N) * sum over all j of y_j,     w <- w + server_lr * v,

    and then y_i <- d_i for i in S. With `clusters` this is ClusterFedVARP: the clients of a cluster share one y, which
    becomes the mean of the changes that a round brought from the cluster. Clients have equal weights.
    """

    clients_per_round: Annotated[
        Count | None, Doc("number of clients drawn per round, uniformly (default: all); |S|")
    ] = None
    server_lr: Annotated[Positive, Doc("step size at the server; 1 moves by the whole corrected mean")] = 1.0
    clusters: Annotated[
        ClusterChoice | None,
        Doc("clusters whose clients share a remembered change, found as for fedhusky (default: a change per client)"),
    ] = None
    warmup_epochs: WarmupEpochs = 3
    count_warmup: CountWarmup = True

    async def run(self, fed: Federation) -> None:
        cluster: Sequence[int] = range(len(fed.clients))
        if self.clusters is not None:
            cluster = await find_clusters(fed, self.clusters, self.warmup_epochs, self.count_warmup)
        sizes = Counter(cluster)
        memory = LatestChanges([sizes[k] / len(cluster) for k in range(max(cluster) + 1)], cluster)
        for round_number in itertools.count():
            chosen = uniform_sample(fed.clients, self.clients_per_round, fed.rng("sampling", round_number))
            if updates := await train_round(fed, chosen):
                weights = [1 / len(updates)] * len(updates)
                stepped = await memory.step(fed, updates, weights, lr=self.server_lr)
                fed.commit(await fed.server_step(stepped))
