"""Rescaled ASGD: each change is added as it arrives, in proportion to the time that its client takes."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Annotated, Literal

from pydantic.dataclasses import dataclass

from fedtempo.federation import Client, Federation, Update
from fedtempo.parts.fields import STRICT, Doc
from fedtempo.strategies.asynchronous import ClientsAtOnce, Reach, ServerStep, fastest, train_always
from fedtempo.strategies.mixing import add_change


@dataclass(frozen=True, config=STRICT)
class RescaledASGD:
    """Mahran, Maranjyan and Richtárik, Rescaled Asynchronous SGD: Optimal Distributed Optimization under Data and
    System Heterogeneity, 2026 (arXiv 2605.13434).

    Plain asynchronous SGD moves the model most towards the fast clients, which report most often. Here the step for a
    change d of client i is proportional to the client's time t_i, so that every client contributes the same over a
    long period:

        w <- w + server_lr * t_i / (mean t over all clients) * d.

    The paper makes steps proportional to times; that the mean time is their common divisor is our reading. With the
    default of server_lr, the weights of all clients sum to 1 and none exceeds 1.
    """

    clients_at_once: ClientsAtOnce = None
    server_lr: ServerStep = None
    times: Annotated[
        Literal["visits", "results"],
        Doc(
            "a client's time: its expected visit, or the mean time between its results so far (counts waiting, absence)"
        ),
    ] = "visits"
    reach: Reach = 1.0

    async def run(self, fed: Federation) -> None:
        turn = asyncio.Lock()
        among = fastest(fed, self.reach) or fed.clients
        lr = self.server_lr or 1 / len(among)
        results = Counter[int]()

        def seconds(client: Client) -> float:
            if self.times == "results" and results[client.id]:
                return fed.now / results[client.id]
            return fed.estimate(client).visit_s

        time_of = {client.id: seconds(client) for client in among}
        total = sum(time_of.values())

        async def step(update: Update) -> None:
            nonlocal total
            async with turn:  # the global model must not change between reading and committing it
                client = update.client
                results[client.id] += 1
                before, time_of[client.id] = time_of[client.id], seconds(client)
                total += time_of[client.id] - before
                weight = lr * rescaled(time_of[client.id], total / len(among))
                share = min(1.0, weight)
                stepped = await fed.on_server(
                    add_change,
                    fed.model,
                    update.received,
                    update.model,
                    weight=weight,
                    statistics_from={fed.model: 1 - share, update.model: share},
                )
                fed.commit(stepped, staleness=fed.model.version - update.base_version)

        await train_always(fed, self.clients_at_once, step, among=among)


def rescaled(time: float, mean_time: float) -> float:
    """Return the factor on the step of a client with this time; 1 if nobody takes any time."""
    return time / mean_time if mean_time > 0 else 1.0
