"""Async-memory: each client's change is mixed as it arrives, corrected by a change remembered for that client."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Annotated

from pydantic.dataclasses import dataclass

from fedtempo.federation import Client, Federation, Update
from fedtempo.parts.fields import STRICT, Doc, NonNegative, Positive
from fedtempo.strategies.asynchronous import ClientsAtOnce, fastest_clients, train_always
from fedtempo.strategies.grouping import ClusterChoice, CountWarmup, Reach, WarmupEpochs, find_clusters
from fedtempo.strategies.mixing import Cool, MemoryShare, Mixer, Steady


@dataclass(frozen=True, config=STRICT)
class AsyncMemory:
    """CA2FL with a buffer of one, weights by staleness, and a damped memory; our own combination.

    There are no rounds and no groups: any idle client trains on the current global model w, those with the fewest
    visits first. When its change d arrives, having missed `gap` commits, the server computes

        w <- w + beta * (d - m_i + mean of all m),   beta = min(1, gain * (1 + gap)^(-exponent)),
        m_i <- m_i + memory * (d - m_i),             the first time m_i = d,

    where m_i is the change remembered for client i. The server keeps one model-sized vector for each client.

    Relatives: CA2FL (Wang et al., Tackling the Data Heterogeneity in Asynchronous Federated Learning with Cached Update
    Calibration, ICLR 2024) buffers several changes before a commit and does not weight them by staleness; MIFA (Gu et
    al., NeurIPS 2021) and FedVARP (Jhunjhunwala et al., UAI 2022) remember changes in synchronous rounds; SAGA (Defazio
    et al., NeurIPS 2014) is the variance reduction behind all of them. With `clusters`, the clients of a cluster share
    one remembered change, as in ClusterFedVARP.
    """

    clients_at_once: ClientsAtOnce = None
    reach: Reach = 1.0
    clusters: Annotated[
        ClusterChoice | None,
        Doc("clusters whose clients share a remembered change, found as for fedhusky (default: a change per client)"),
    ] = None
    warmup_epochs: WarmupEpochs = 3
    count_warmup: CountWarmup = True
    gain: Annotated[Positive, Doc("weight of a fresh change; weights are capped at 1")] = 1.0
    exponent: Annotated[NonNegative, Doc("a change that missed x commits has weight gain * (1 + x)^-exponent")] = 0.75
    steady: Steady = True
    correction: Annotated[bool, Doc("correct changes by the remembered ones")] = True
    memory: MemoryShare = 0.5
    cool: Cool = 0.0

    async def run(self, fed: Federation) -> None:
        memory_of: Sequence[int] = range(len(fed.clients))
        reachable = fastest_clients(fed, [0] * len(fed.clients), self.reach)
        if self.clusters is not None:
            memory_of = await find_clusters(fed, self.clusters, self.warmup_epochs, self.count_warmup)
            reachable = fastest_clients(fed, memory_of, self.reach)
        mixer = self.mixer(fed, memory_of)
        visits, visits_to_memory = Counter[int](), Counter[int]()

        def fewest_visits(client: Client) -> tuple[int, int]:
            return visits_to_memory[memory_of[client.id]], visits[client.id]

        def count(client: Client) -> None:
            visits_to_memory[memory_of[client.id]] += 1
            visits[client.id] += 1

        async def mix(update: Update) -> None:
            await mixer.commit(update.received, update.model, update.client.id)

        among = [fed.clients[i] for i in reachable]
        await train_always(fed, self.clients_at_once, mix, among=among, prefer=fewest_visits, begins=count)

    def mixer(self, fed: Federation, memory_of: Sequence[int], kind: type[Mixer] = Mixer) -> Mixer:
        """Return what mixes the changes; memory_of: for each client, the number of its remembered change."""
        return kind(
            fed,
            memory_of,
            gain=self.gain,
            exponent=self.exponent,
            change=True,
            memory=self.memory if self.correction else None,
            steady=self.steady,
            cool=self.cool,
        )
