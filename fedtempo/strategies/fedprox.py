"""FedProx: federated averaging with a proximal term that keeps clients near the model they received."""

from __future__ import annotations

import itertools
from functools import partial
from typing import Annotated

from pydantic.dataclasses import dataclass

from fedtempo.federation import Client, Federation, Work
from fedtempo.parts.fields import STRICT, Count, Doc, NonNegative, Positive
from fedtempo.strategies.rounds import steps_in_time, train_round, uniform_sample


@dataclass(frozen=True, config=STRICT)
class FedProx:
    """Li et al., Federated Optimization in Heterogeneous Networks, MLSys 2020, Alg. 2.

    Rounds are those of FedAvg; each client minimises its loss plus mu / 2 * |w - w_received|^2 (Eq. 2). Clients are
    drawn uniformly and weighted by their number of examples, whereas the paper draws them in proportion to that number
    and takes the plain mean. With a deadline, slow clients do part of their work (Section 5.2: stragglers' partial work
    is averaged, where FedAvg drops it).
    """

    clients_per_round: Annotated[Count | None, Doc("number of clients drawn per round, uniformly (default: all)")] = (
        None
    )
    mu: Annotated[NonNegative, Doc("weight of the proximal term; the paper tries 0.001 to 1")] = 0.01
    deadline_s: Annotated[
        Positive | None,
        Doc(
            "expected duration of a round, seconds: a client that cannot finish its local work by then does the part "
            "that it can, at least one step (default: all finish theirs)"
        ),
    ] = None

    async def run(self, fed: Federation) -> None:
        work = Work(proximal=self.mu) if self.deadline_s is None else partial(self.partial_work, fed, self.deadline_s)
        for round_number in itertools.count():
            chosen = uniform_sample(fed.clients, self.clients_per_round, fed.rng("sampling", round_number))
            if updates := await train_round(fed, chosen, work):
                fed.commit(await fed.average(updates))

    def partial_work(self, fed: Federation, deadline_s: float, client: Client) -> Work:
        """Return the local steps for which a client has time, at least one."""
        return Work(proximal=self.mu, steps=steps_in_time(fed, client, deadline_s))
