"""Per-FedAvg: a global model that becomes good for a client by one more step on its examples."""

from __future__ import annotations

import itertools
from typing import Annotated, Literal

from pydantic.dataclasses import dataclass

from fedtempo.federation import Client, Federation, Work
from fedtempo.parts.fields import STRICT, Count, Doc, Positive
from fedtempo.strategies.rounds import train_round, uniform_sample

_GRADIENTS = {"first-order": 2, "hessian-free": 4}
"""Number of gradients that a step computes, by variant."""


@dataclass(frozen=True, config=STRICT)
class PerFedAvg:
    """Fallah, Mokhtari and Ozdaglar, Personalized Federated Learning with Theoretical Guarantees: A Model-Agnostic
    Meta-Learning Approach, NeurIPS 2020.

    Rounds are those of FedAvg with equal weights, but client i minimises the loss f_i after a step of its own,
    f_i(w - alpha * gradient of f_i at w). A local step is, with g the gradient of f_i at that point and H the Hessian
    of f_i at w,

        w <- w - beta * (g - alpha * H g),
        H g = (gradient at w + delta * g, minus gradient at w - delta * g) / (2 * delta),

    each on mini-batches of its own (the paper's HF variant); `first-order` leaves out H g (its FO variant). beta is
    `training.lr`. A step computes four gradients, or two, and takes the time of so many usual steps.
    """

    clients_per_round: Annotated[Count | None, Doc("number of clients drawn per round, uniformly (default: all)")] = (
        None
    )
    alpha: Annotated[Positive, Doc("length of the step that a client makes for itself; alpha. The default is ours")] = (
        0.01
    )
    variant: Annotated[
        Literal["hessian-free", "first-order"], Doc("how the Hessian is treated: by differences of gradients, or not")
    ] = "hessian-free"
    delta: Annotated[Positive, Doc("hessian-free: length of the differences; delta. The default is ours")] = 0.001

    async def run(self, fed: Federation) -> None:
        gradients = _GRADIENTS[self.variant]
        numbers = {"alpha": self.alpha, "delta": self.delta, "gradients": gradients}

        def work(client: Client) -> Work:
            return Work(procedure="per-fedavg", steps=gradients * fed.steps(client), numbers=numbers)

        for round_number in itertools.count():
            chosen = uniform_sample(fed.clients, self.clients_per_round, fed.rng("sampling", round_number))
            if updates := await train_round(fed, chosen, work):
                fed.commit(await fed.average(updates, [1.0] * len(updates)))
