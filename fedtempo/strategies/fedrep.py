"""FedRep: clients share a body, and each trains a head of its own on it before it trains the body."""

from __future__ import annotations

import itertools
from typing import Annotated

from pydantic.dataclasses import dataclass

from fedtempo.federation import Federation, Work
from fedtempo.parts.fields import STRICT, Count, Doc
from fedtempo.strategies.rounds import train_round, uniform_sample


@dataclass(frozen=True, config=STRICT)
class FedRep:
    """Collins, Hassani, Mokhtari and Shakkottai, Exploiting Shared Representations for Personalized Federated Learning,
    ICML 2021.

    The network is a body, the representation phi, which travels, and a head h_i, which each client keeps: the layers in
    `model.local`. In a round the clients S receive phi, and client i, with n_i examples and the loss f_i, trains

        h_i   <- h_i - lr * grad_h f_i(h_i, phi)           for `head_epochs` epochs, phi fixed;
        phi_i <- phi_i - lr * grad_phi f_i(h_i, phi_i)     for `body_epochs` epochs from phi, h_i fixed;
        phi   <- sum over S of n_i * phi_i / sum over S of n_i.
    """

    clients_per_round: Annotated[Count | None, Doc("number of clients drawn per round, uniformly (default: all)")] = (
        None
    )
    head_epochs: Annotated[Count, Doc("epochs on the head; 10 in the authors' scripts for CIFAR-10 and CIFAR-100")] = 10
    body_epochs: Annotated[Count, Doc("epochs on the body; 1 in the authors' scripts for CIFAR-10")] = 1

    async def run(self, fed: Federation) -> None:
        epochs = {"head_epochs": self.head_epochs, "body_epochs": self.body_epochs}
        work = Work(procedure="fedrep", epochs=sum(epochs.values()), numbers=epochs)
        for round_number in itertools.count():
            chosen = uniform_sample(fed.clients, self.clients_per_round, fed.rng("sampling", round_number))
            if updates := await train_round(fed, chosen, work):
                fed.commit(await fed.average(updates))
