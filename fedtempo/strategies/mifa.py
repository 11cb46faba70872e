"""MIFA: rounds that wait for nobody; the latest changes of absent clients stand for them."""

from __future__ import annotations

import itertools
from typing import Annotated

from pydantic.dataclasses import dataclass

from fedtempo.federation import Federation
from fedtempo.parts.fields import STRICT, Count, Doc, Positive
from fedtempo.strategies.latest_changes import LatestChanges
from fedtempo.strategies.rounds import train_round, uniform_sample


@dataclass(frozen=True, config=STRICT)
class MIFA:
    """Gu, Huang, Zhang and Huang, Fast Federated Learning in the Presence of Arbitrary Device Unavailability,
    NeurIPS 2021.

    Memory-augmented Impatient Federated Averaging: the server keeps the latest change h_i of each of the N clients, 0
    at first. In each round the available clients train and replace theirs; then

        w <- w + (1 / N) * sum of h_i over all N clients, available or not.

    The authors' code keeps h_i / lr and multiplies the sum by the learning rate, which is the same if the rate stays.
    The server keeps one model-sized vector for each client.
    """

    clients_per_round: Annotated[
        Count | None, Doc("number of clients invited per round, drawn uniformly (default: all); a choice of ours")
    ] = None
    round_limit_s: Annotated[
        Positive | None,
        Doc(
            "longest wait for a round's clients, seconds; later ones are taken as unavailable, and their work is lost "
            "(default: no limit); a choice of ours"
        ),
    ] = None
    wait_for_all: Annotated[
        bool, Doc("make no step before each client has reported once; otherwise those not heard yet count as 0")
    ] = False

    async def run(self, fed: Federation) -> None:
        n_clients = len(fed.clients)
        memory = LatestChanges([1 / n_clients] * n_clients)
        unheard = {client.id for client in fed.clients} if self.wait_for_all else set[int]()
        for round_number in itertools.count():
            candidates = [client for client in fed.clients if client.id in unheard] or fed.clients
            chosen = uniform_sample(candidates, self.clients_per_round, fed.rng("sampling", round_number))
            updates = await train_round(fed, chosen, limit_s=self.round_limit_s)
            if not updates:
                continue
            stepped = await memory.step(fed, updates, [1 / n_clients] * len(updates))
            unheard -= {update.client.id for update in updates}
            if not unheard:
                fed.commit(await fed.server_step(stepped))
