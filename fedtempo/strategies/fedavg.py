"""Parallel federated averaging."""

from __future__ import annotations

import itertools
from typing import Annotated

from pydantic.dataclasses import dataclass

from fedtempo.federation import Federation
from fedtempo.parts.fields import STRICT, Count, Doc
from fedtempo.strategies.rounds import train_round, uniform_sample


@dataclass(frozen=True, config=STRICT)
class FedAvg:
    """McMahan et al., Communication-Efficient Learning of Deep Networks from Decentralized Data, AISTATS 2017, Alg. 1.

    Each round the chosen clients train the global model in parallel; the mean of their models, weighted by the number
    of examples, is the next global model. With `server.optimizer` the mean change serves as a gradient: FedAvgM,
    FedAdam and others.
    """

    clients_per_round: Annotated[Count | None, Doc("number of clients drawn per round, uniformly (default: all)")] = (
        None
    )

    async def run(self, fed: Federation) -> None:
        for round_number in itertools.count():
            chosen = uniform_sample(fed.clients, self.clients_per_round, fed.rng("sampling", round_number))
            updates = await train_round(fed, chosen)
            if updates:
                fed.commit(await fed.average(updates))
