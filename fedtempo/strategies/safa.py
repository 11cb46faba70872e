"""SAFA: rounds end when enough clients have reported, slow ones work on; the server averages a cached model of each."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping
from typing import Annotated

from pydantic.dataclasses import dataclass

from fedtempo.federation import Federation, Model, Update
from fedtempo.parts.fields import STRICT, Count, Doc, Gt, Le, Positive
from fedtempo.strategies.ongoing import Ongoing
from fedtempo.strategies.planning.first_come import first_come_first_merge


@dataclass(frozen=True, config=STRICT)
class SAFA:
    """Wu, He, Lin, Mao, Maple and Jarvis, SAFA: A Semi-Asynchronous Protocol for Fast Federated Learning With Low
    Overhead, IEEE Transactions on Computers 70(5), 2021.

    All clients train all the time. A round ends when C * n clients have reported that were not merged in the round
    before, when nobody trains any more, or after T_lim. It merges these clients, P; if they are too few, also others
    that have reported, in the order of arrival. The server caches a model w_k for each client, the initial one at
    first, and averages all of them, weighted by examples:

        w_k <- what k sent, for k in P;
        W <- sum of n_k / n * w_k;
        w_k <- what k sent, for others that have reported.

    Clients that have reported begin the next round with W. The others work on, unless their version is older than tau
    rounds: then they are forced to begin with W, which also replaces their cached model.
    """

    fraction: Annotated[float, Gt(0), Le(1), Doc("share of the clients that a round merges; C in the paper")] = 0.3
    lag_tolerance: Annotated[
        Count, Doc("a client whose model is this number of rounds old, or older, must begin anew; tau in the paper")
    ] = 5
    limit_s: Annotated[
        Positive | None,
        Doc("longest duration of a round, seconds; T_lim in the paper (default: the longest expected visit)"),
    ] = None

    async def run(self, fed: Federation) -> None:
        quota = math.ceil(self.fraction * len(fed.clients) - 1e-9)
        limit_s = self.limit_s or max(fed.estimate(client).visit_s for client in fed.clients)
        cache: dict[int, Model] = {client.id: fed.model for client in fed.clients}
        version = dict.fromkeys(cache, 0)  # of the model that each cached one is as new as
        picked: list[int] = []

        def enough(arrived: Mapping[int, Update]) -> bool:
            return len(arrived.keys() - set(picked)) >= quota

        async with asyncio.TaskGroup() as tasks:
            training = Ongoing(fed, tasks)
            while True:
                oldest = fed.model.version - self.lag_tolerance
                for client in fed.clients:
                    if version[client.id] <= oldest:
                        cache[client.id], version[client.id] = fed.model, fed.model.version
                    if client in training and training.version(client) <= oldest:
                        training.abandon(client)
                    if client not in training:
                        training.begin(client)
                arrived = await training.arrivals(enough, fed.now + limit_s)
                picked, waiting = first_come_first_merge(list(arrived), set(picked), quota)
                if not arrived:
                    continue
                cache |= {client: arrived[client].model for client in picked}
                mean = await fed.average(list(cache.values()), [client.num_examples for client in fed.clients])
                lag = max(fed.model.version - arrived[client].base_version for client in picked)
                fed.commit(mean, staleness=lag)
                cache |= {client: arrived[client].model for client in waiting}
                version |= dict.fromkeys(arrived, fed.model.version)
