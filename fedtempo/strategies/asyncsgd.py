"""Asynchronous SGD: a fixed number of jobs for clients drawn from all, and short steps after long delays."""

from __future__ import annotations

import asyncio
from typing import Annotated, Literal

from pydantic.dataclasses import dataclass

from fedtempo.federation import Federation, Update
from fedtempo.parts.fields import STRICT, Doc
from fedtempo.strategies.asynchronous import ClientsAtOnce, Reach, ServerStep, fastest, train_always
from fedtempo.strategies.mixing import add_change


@dataclass(frozen=True, config=STRICT)
class AsyncSGD:
    """Koloskova, Stich and Jaggi, Sharper Convergence Guarantees for Asynchronous SGD for Distributed and Federated
    Learning, NeurIPS 2022, Alg. 2 and the step sizes of Theorem 8.

    There are always tau_C jobs (`clients_at_once`). Whenever one ends, its change d is added, and the next job, with
    the new model, goes to a client drawn uniformly from all n. If that client is busy, the job waits for its turn:

        w <- w + step * d,
        step = server_lr if t <= tau_C, otherwise server_lr / t,

    where the delay t is the number of results that arrived since the job was given out. The theorem allows any step
    from 0 (drop the result) to min(server_lr, 1 / (4 L t)) after a delay above tau_C; server_lr / t is the paper's
    advice (Section 4.4), since server_lr is at most 1 / (4 L).
    """

    clients_at_once: Annotated[ClientsAtOnce, Doc("number of jobs at any time; tau_C in the paper (default: all)")] = (
        None
    )
    server_lr: ServerStep = None
    delay: Annotated[
        Literal["divide", "drop", "none"],
        Doc("step after a delay of t > clients_at_once results: server_lr / t, 0, or server_lr as Alg. 2 has it"),
    ] = "divide"
    draw: Annotated[
        Literal["all", "idle"],
        Doc("the next client is drawn from all clients, as in Alg. 2, or from the idle ones, as Alg. 1 allows"),
    ] = "all"
    reach: Reach = 1.0

    async def run(self, fed: Federation) -> None:
        turn = asyncio.Lock()
        among = fastest(fed, self.reach) or fed.clients
        lr = self.server_lr or 1 / len(among)
        jobs = min(self.clients_at_once or len(among), len(among))

        async def step(update: Update) -> None:
            async with turn:  # the global model must not change between reading and committing it
                delay = fed.model.version - update.base_version
                weight = lr * self.freshness(delay, jobs)
                share = min(1.0, weight)
                stepped = fed.model  # a dropped result makes a commit too, since delays count all results
                if weight:
                    stepped = await fed.on_server(
                        add_change,
                        fed.model,
                        update.received,
                        update.model,
                        weight=weight,
                        statistics_from={fed.model: 1 - share, update.model: share},
                    )
                fed.commit(stepped, staleness=delay)

        await train_always(fed, self.clients_at_once, step, among=among, also_busy=self.draw == "all")

    def freshness(self, delay: int, jobs: int) -> float:
        """Return the factor on the step of a result after this delay. jobs: tau_C."""
        if self.delay == "none" or delay <= jobs:
            return 1.0
        return 1 / delay if self.delay == "divide" else 0.0
