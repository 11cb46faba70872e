"""FedNova: each client's change is divided by its own number of local steps before the average."""

from __future__ import annotations

import itertools
from typing import Annotated

from pydantic.dataclasses import dataclass

from fedtempo.federation import Client, Federation, Work
from fedtempo.parts.fields import STRICT, Count, Doc, NonNegative, Positive
from fedtempo.strategies.rounds import steps_in_time, train_round, uniform_sample


@dataclass(frozen=True, config=STRICT)
class FedNova:
    """Wang, Liu, Liang, Joshi and Poor, Tackling the Objective Inconsistency Problem in Heterogeneous Federated
    Optimization, NeurIPS 2020.

    Clients that make more local steps pull the plain average towards their own optimum. Here the clients S of a round,
    with changes D_i and shares p_i of the examples of S, move the model along the mean change per step:

        x <- x + tau_eff * sum of p_i * D_i / |a_i|,     tau_eff = sum of p_i * |a_i|.

    |a_i| is client i's number of local steps tau_i, as if all its gradients were equal: more with momentum rho, where
    the sum of a_i is (tau_i - rho (1 - rho^tau_i) / (1 - rho)) / (1 - rho), and less with a proximal term, where it is
    (1 - (1 - lr mu)^tau_i) / (lr mu). With `mu`, tau_eff is the sum of p_i * tau_i, as in the authors' code. If all
    clients make the same number of steps, this is FedAvg.
    """

    clients_per_round: Annotated[Count | None, Doc("number of clients drawn per round, uniformly (default: all)")] = (
        None
    )
    mu: Annotated[NonNegative, Doc("weight of FedProx's proximal term in local training; 0: that of [training]")] = 0.0
    deadline_s: Annotated[
        Positive | None,
        Doc(
            "expected duration of a round, seconds: a client that cannot finish its local work by then does the part "
            "that it can, at least one step (default: all finish theirs); a choice of ours"
        ),
    ] = None

    async def run(self, fed: Federation) -> None:
        for round_number in itertools.count():
            chosen = uniform_sample(fed.clients, self.clients_per_round, fed.rng("sampling", round_number))
            works = {client: self.work(fed, client) for client in chosen}
            updates = await train_round(fed, chosen, works.__getitem__)
            if not updates:
                continue
            steps = [float(works[update.client].steps or fed.steps(update.client)) for update in updates]
            norms = [update.statistics.get("effective_steps", tau) for update, tau in zip(updates, steps)]
            examples = sum(update.num_examples for update in updates)
            shares = [update.num_examples / examples for update in updates]
            tau_eff = sum(p * tau for p, tau in zip(shares, steps if self.mu else norms))
            weights = [p / norm for p, norm in zip(shares, norms)]
            mean = await fed.average(updates, weights)  # x + sum of p_i D_i / |a_i|, divided by the sum of weights
            fed.commit(await fed.mix(fed.model, mean, tau_eff * sum(weights)))

    def work(self, fed: Federation, client: Client) -> Work:
        """Return a client's local work; with a deadline, the steps for which it has time."""
        steps = None if self.deadline_s is None else steps_in_time(fed, client, self.deadline_s)
        return Work(steps=steps, proximal=self.mu or None, statistics=frozenset({"effective_steps"}))
