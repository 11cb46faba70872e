"""CA2FL: FedBuff whose changes are calibrated by the last change that the server cached for each client."""

from __future__ import annotations

import asyncio
from typing import Annotated

from pydantic.dataclasses import dataclass

from fedtempo.federation import Federation, Model, Update, Vector
from fedtempo.parts.fields import STRICT, Count, Doc, Positive
from fedtempo.strategies.asynchronous import ClientsAtOnce, Reach, fastest, train_always


@dataclass(frozen=True, config=STRICT)
class CA2FL:
    """Wang, Cao, Wu, Chen and Chen, Tackling the Data Heterogeneity in Asynchronous Federated Learning with Cached
    Update Calibration, ICLR 2024, Alg. 2.

    The server caches the last change h_i of each of the n clients (0 at first) and their mean h. When a change d of
    client i arrives,

        sum <- sum + (d - h_i),   h_i <- d,

    and when M changes have arrived, w <- w + server_lr * (h + sum / M); then h becomes the mean of the new h_i, and
    the sum 0. Changes are not weighted by staleness. The server keeps one model-sized vector for each client.
    """

    clients_at_once: ClientsAtOnce = None
    buffer: Annotated[Count, Doc("number of changes per commit; M in the paper")] = 10
    server_lr: Annotated[Positive, Doc("step size at the server; eta in the paper")] = 1.0
    reach: Reach = 1.0

    async def run(self, fed: Federation) -> None:
        turn = asyncio.Lock()
        among = fastest(fed, self.reach)
        collected: list[Update] = []
        cached: dict[int, Model] = {}
        mean: Model | float = 0.0
        differences: Model | float = 0.0

        async def calibrate(update: Update) -> None:
            nonlocal mean, differences
            async with turn:  # the global model must not change between reading and committing it
                collected.append(update)
                cached[update.client.id], differences = await fed.on_server(
                    add_difference,
                    update.received,
                    update.model,
                    cached=cached.get(update.client.id, 0.0),
                    differences=differences,
                )
                if len(collected) < self.buffer:
                    return
                share = min(1.0, self.server_lr)
                stepped, mean = await fed.on_server(
                    calibrated_step,
                    fed.model,
                    statistics_from={
                        fed.model: 1 - share,
                        **{update.model: share / self.buffer for update in collected},
                    },
                    mean=mean,
                    differences=differences,
                    buffer=self.buffer,
                    clients=len(among or fed.clients),
                    lr=self.server_lr,
                )
                staleness = max(fed.model.version - update.base_version for update in collected)
                fed.commit(await fed.server_step(stepped), staleness=staleness)
                collected.clear()
                differences = 0.0

        await train_always(fed, self.clients_at_once, calibrate, among=among)


def add_difference(
    start: Vector, end: Vector, *, cached: Vector | float, differences: Vector | float
) -> tuple[Vector, Vector]:
    """Return the change, which is cached next, and the sum of differences with that of this change to the cached one.

    cached, differences: 0 if there is none yet.
    """
    change = end - start
    return change, differences + (change - cached)


def calibrated_step(
    model: Vector, *, mean: Vector | float, differences: Vector, buffer: int, clients: int, lr: float
) -> tuple[Vector, Vector]:
    """Return the next model and the mean of the cached changes, which the differences moved by their sum / clients."""
    return model + lr * (mean + differences / buffer), mean + differences / clients
