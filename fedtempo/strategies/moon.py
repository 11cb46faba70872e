"""MOON: local training keeps representations near the global ones and away from those of the client's last model."""

from __future__ import annotations

import itertools
from typing import Annotated

from pydantic.dataclasses import dataclass

from fedtempo.federation import Federation, Work
from fedtempo.parts.fields import STRICT, Count, Doc, NonNegative, Positive
from fedtempo.strategies.rounds import train_round, uniform_sample


@dataclass(frozen=True, config=STRICT)
class Moon:
    """Li, He and Song, Model-Contrastive Federated Learning, CVPR 2021.

    Rounds are those of FedAvg. A client minimises its loss plus mu times

        -log(exp(cos(z, z_glob) / tau) / (exp(cos(z, z_glob) / tau) + exp(cos(z, z_prev) / tau)))

    for each example, where z, z_glob and z_prev are the representations of the example by the model that trains, by the
    global model that the client received, and by the model that the client sent last time. A representation is what
    goes into the network's last layer. Each client keeps its last model; a visit carries no more bytes than FedAvg's.
    """

    clients_per_round: Annotated[Count | None, Doc("number of clients drawn per round, uniformly (default: all)")] = (
        None
    )
    mu: Annotated[NonNegative, Doc("weight of the contrastive term; the default of the authors' code is 1")] = 1.0
    temperature: Annotated[Positive, Doc("tau; the default of the authors' code is 0.5")] = 0.5

    async def run(self, fed: Federation) -> None:
        work = Work(procedure="moon", numbers={"mu": self.mu, "temperature": self.temperature})
        for round_number in itertools.count():
            chosen = uniform_sample(fed.clients, self.clients_per_round, fed.rng("sampling", round_number))
            if updates := await train_round(fed, chosen, work):
                fed.commit(await fed.average(updates))
