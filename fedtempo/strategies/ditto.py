"""Ditto: beside the global model, each client trains a model of its own, which is tied to the global one."""

from __future__ import annotations

import itertools
from typing import Annotated, ClassVar

from pydantic.dataclasses import dataclass

from fedtempo.federation import Client, Federation, Work
from fedtempo.parts.fields import STRICT, Count, Doc, NonNegative
from fedtempo.strategies.rounds import train_round, uniform_sample


@dataclass(frozen=True, config=STRICT)
class Ditto:
    """Li, Hu, Beirami and Smith, Ditto: Fair and Robust Federated Learning Through Personalization, ICML 2021.

    The global model w is that of FedAvg with equal weights. Besides, each client k keeps a model of its own, v_k, which
    approximately minimises

        F_k(v_k) + lam / 2 * |v_k - w|^2,

    with F_k its loss: in each of its visits it makes some steps v_k <- v_k - lr * (gradient of F_k at v_k
    + lam * (v_k - w)) with the received w, and the usual steps on w. lam = 0 is local training, a large lam the global
    model. Clients' own models are evaluated on clients' own test sets.
    """

    OWN_MODELS: ClassVar[bool] = True

    clients_per_round: Annotated[Count | None, Doc("number of clients drawn per round, uniformly (default: all)")] = (
        None
    )
    lam: Annotated[
        NonNegative, Doc("how strongly own models are tied to the global one; 1 in the authors' scripts")
    ] = 1.0
    personal_steps: Annotated[
        Count | None, Doc("steps per visit on the own model (default: as many as on the global one)")
    ] = None

    async def run(self, fed: Federation) -> None:
        def work(client: Client) -> Work:
            steps = fed.steps(client)
            personal_steps = self.personal_steps or steps
            numbers = {"lam": self.lam, "personal_steps": personal_steps}
            return Work(procedure="ditto", steps=steps + personal_steps, numbers=numbers)

        for round_number in itertools.count():
            chosen = uniform_sample(fed.clients, self.clients_per_round, fed.rng("sampling", round_number))
            if updates := await train_round(fed, chosen, work):
                fed.commit(await fed.average(updates, [1.0] * len(updates)))
