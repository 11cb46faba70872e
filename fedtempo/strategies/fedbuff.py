"""FedBuff: the server collects changes in a buffer and commits when the buffer is full."""

from __future__ import annotations

import asyncio
from typing import Annotated

from pydantic.dataclasses import dataclass

from fedtempo.federation import Federation, Update
from fedtempo.parts.fields import STRICT, Count, Doc, NonNegative, Positive
from fedtempo.strategies.asynchronous import ClientsAtOnce, Reach, fastest, train_always
from fedtempo.strategies.changes import commit_changes
from fedtempo.strategies.planning.staleness import polynomial


@dataclass(frozen=True, config=STRICT)
class FedBuff:
    """Nguyen et al., Federated Learning with Buffered Asynchronous Aggregation, AISTATS 2022, Alg. 1.

    When K changes have arrived, w <- w + server_lr / K * sum of (1 + missed)^(-1/2) * (trained - received), where
    missed counts the commits since a change's start. The sum is divided by K, not by the sum of weights, so stale
    changes move w less.
    """

    clients_at_once: ClientsAtOnce = None
    buffer: Annotated[Count, Doc("number of changes per commit; K in the paper")] = 10
    exponent: Annotated[NonNegative, Doc("a change that missed x commits has weight (1 + x)^-exponent")] = 0.5
    server_lr: Annotated[Positive, Doc("step size at the server; eta_g in the paper")] = 1.0
    reach: Reach = 1.0

    async def run(self, fed: Federation) -> None:
        turn = asyncio.Lock()
        collected: list[Update] = []

        async def collect(update: Update) -> None:
            collected.append(update)
            if len(collected) < self.buffer:
                return
            taken = collected.copy()
            collected.clear()
            async with turn:  # the global model must not change between reading and committing it
                missed = [fed.model.version - update.base_version for update in taken]
                weights = [self.server_lr / self.buffer * self.freshness(commits) for commits in missed]
                await commit_changes(fed, taken, weights)

        await train_always(fed, self.clients_at_once, collect, among=fastest(fed, self.reach))

    def freshness(self, missed: int) -> float:
        """Return the share of its weight that a change keeps after missing this number of commits."""
        return polynomial(missed, self.exponent)
