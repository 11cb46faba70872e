"""CS-GD: clients clustered by computing time upload cluster after cluster, while slower ones still compute."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic.dataclasses import dataclass

from fedtempo.federation import Client, ClientUnavailable, Federation, Update, Work
from fedtempo.parts.fields import STRICT, Count, Doc, NonNegative
from fedtempo.strategies.planning.pipeline import Clusters, cluster_by_time, last_opening, openings
from fedtempo.strategies.rounds import uniform_sample

GRADIENT = Work(full_batch=True, epochs=1)
"""One step along the full gradient: the mean of the resulting models is one step along the mean gradient (Eq. 5)."""


@dataclass(frozen=True, config=STRICT)
class CsGd:
    """Keçeci, Shaqfeh, Al-Qahtani, Ismail and Serpedin, Clustered Scheduling and Communication Pipelining for Efficient
    Resource Management of Wireless Federated Learning, IEEE Internet of Things Journal 2023, Algorithms 1 and 2.

    Clients are clustered by computing time once, at the start of the run. Each round N clients of every cluster receive
    the model and compute in parallel. The clusters then upload one after the other, each in its own frame, so that N
    sub-channels serve K N clients; the mean of their models, weighted by examples, is the next global model. One
    cluster is conventional training. Computing times tau_m are the server's estimates for a configured visit; a frame
    lasts tau_com, the longest upload of any client; clients start to compute when the longest download has ended. A
    client that misses its frame sends late.
    """

    n_clusters: Annotated[Count, Doc("number of clusters and of frames per round, K")] = 2
    channels: Annotated[Count, Doc("number of sub-channels, N: clients of a cluster that upload in parallel")] = 1
    extra_s: Annotated[
        NonNegative,
        Doc("longest planned time minus the slowest client's, s (more evens out clusters); Delta_global"),
    ] = 0.0
    mode: Annotated[
        Literal["gradient", "local-sgd"],
        Doc("one step along each client's full gradient, or local training as in [training]"),
    ] = "gradient"
    slowest: Annotated[
        Literal["sampled", "all"],
        Doc("frames wait for the slowest of the round's clients (Eq. 6), or of all clients (Eq. 20)"),
    ] = "sampled"

    async def run(self, fed: Federation) -> None:
        estimates = [fed.estimate(client) for client in fed.clients]
        compute_s = [estimate.compute_s for estimate in estimates]
        upload_s = max(estimate.upload_s for estimate in estimates)
        clusters = cluster_by_time(compute_s, self.n_clusters, upload_s, self.extra_s)
        note_clusters(fed, clusters)
        for round_number in itertools.count():
            began, rng = fed.now, fed.rng("sampling", round_number)
            chosen = [
                uniform_sample([fed.clients[i] for i in members], self.channels, rng) for members in clusters.members
            ]
            opens_s: Sequence[float] = clusters.opens_s
            if self.slowest == "sampled":
                ids = [[client.id for client in clients] for clients in chosen]
                opens_s = openings(last_opening(compute_s, ids, upload_s), self.n_clusters, upload_s)
            computing = began + max(estimate.download_s for estimate in estimates)
            async with asyncio.TaskGroup() as tasks:
                visits = [
                    tasks.create_task(self.visit(fed, client, computing, computing + opens_s[k], round_number))
                    for k, clients in enumerate(chosen)
                    for client in clients
                ]
            await fed.sleep_until(computing + opens_s[-1] + upload_s)
            updates = [update for visit in visits if (update := visit.result()) is not None]
            if updates:
                fed.commit(await fed.average(updates))
            if round_number == 0 and fed.now > began:
                used_s = len(updates) * upload_s
                fed.note("spectral_utilisation", used_s / (self.channels * (fed.now - began)))

    async def visit(
        self, fed: Federation, client: Client, computing: float, opens: float, round_number: int
    ) -> Update | None:
        """Run a client's part of a round: it starts to compute at `computing` and to upload at `opens`, seconds."""
        try:
            with await fed.download(client, fed.model, group=round_number) as visit:
                await fed.sleep_until(computing)
                await fed.compute(visit, GRADIENT if self.mode == "gradient" else None)
                await fed.sleep_until(opens)
                return await fed.upload(visit)
        except ClientUnavailable:
            return None


def note_clusters(fed: Federation, clusters: Clusters) -> None:
    """Note the clusters in the records, with a warning if some are empty."""
    cluster = [0] * len(fed.clients)
    for k, members in enumerate(clusters.members):
        for client in members:
            cluster[client] = k
    fed.note("clusters", cluster)
    fed.note("pipeline", {"opens_s": clusters.opens_s, "done": clusters.done, "sizes": clusters.sizes})
    if empty := [k for k, size in enumerate(clusters.sizes) if not size]:
        fed.note(
            "warning", f"clusters {empty} are empty: their frames stay unused; fewer clusters, or more extra_s, help"
        )
