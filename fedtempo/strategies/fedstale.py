"""FedStale: fresh changes of the clients that take part, blended with the latest changes of those that do not."""

from __future__ import annotations

import itertools
from typing import Annotated, Literal

import numpy as np
from pydantic.dataclasses import dataclass

from fedtempo.federation import Federation
from fedtempo.parts.fields import STRICT, Count, Doc, Positive, Share
from fedtempo.strategies.latest_changes import LatestChanges
from fedtempo.strategies.rounds import train_round, uniform_sample


@dataclass(frozen=True, config=STRICT)
class FedStale:
    """Rodio and Neglia, FedStale: Leveraging Stale Client Updates in Federated Learning, arXiv 2405.04171, 2024.

    The server keeps the latest change h_i of each client, 0 at first. Client i has the share alpha_i of all examples
    and takes part in a round with probability p_i. A round with the clients S, whose changes are d_i, makes the step

        w <- w + server_lr * (beta * sum over all j of alpha_j h_j
                              + sum over S of (alpha_i / p_i) * (d_i - beta * h_i)),

    and then h_i <- d_i for i in S. beta = 0 is FedAvg with weights by participation; beta = 1 is FedVARP's rule.

    The p_i are usually unknown. As in the authors' experiments, 1 / p_i is then the mean number of rounds from one
    participation of the client to its next, over the rounds before this one, and 1 before its first (FedAU: Wang and
    Ji, A Lightweight Method for Tackling Unknown Participation Statistics in Federated Averaging, ICLR 2024).
    """

    clients_per_round: Annotated[Count | None, Doc("number of clients drawn per round, uniformly (default: all)")] = (
        None
    )
    beta: Annotated[Share, Doc("weight of stale changes; beta in the paper, which compares several values")] = 0.5
    server_lr: Annotated[Positive, Doc("step size at the server")] = 1.0
    participation: Annotated[
        Literal["estimated", "drawn"],
        Doc("p_i: estimated from past rounds, or clients_per_round / number of clients, as if nobody were ever absent"),
    ] = "estimated"

    async def run(self, fed: Federation) -> None:
        examples = np.array([client.num_examples for client in fed.clients], dtype=float)
        shares = (examples / examples.sum()).tolist()
        drawn = min(self.clients_per_round or len(shares), len(shares)) / len(shares)
        last, times = np.zeros(len(shares)), np.zeros(len(shares))
        memory = LatestChanges(shares)
        for round_number in itertools.count(1):
            chosen = uniform_sample(fed.clients, self.clients_per_round, fed.rng("sampling", round_number))
            updates = await train_round(fed, chosen)
            if not updates:
                continue
            reported = [update.client.id for update in updates]
            intervals = [last[i] / times[i] if times[i] else 1.0 for i in reported]  # mean, as they add up to `last`
            if self.participation == "drawn":
                intervals = [1 / drawn] * len(reported)
            weights = [shares[i] * float(interval) for i, interval in zip(reported, intervals)]
            stepped = await memory.step(fed, updates, weights, stale=self.beta, lr=self.server_lr)
            fed.commit(await fed.server_step(stepped))
            last[reported], times[reported] = round_number, times[reported] + 1
