"""Active Federated Learning (Goetz et al., arXiv 1909.12641, 2019): prefer clients on whose data the model is bad."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from annotated_types import Ge, Interval
from typing_extensions import Doc

from fedtempo import Federation
from fedtempo.strategies.rounds import train_round


@dataclass(frozen=True)
class ActiveFL:
    """Draw clients by the value sqrt(number of examples) * loss of their last training, and a few others."""

    clients_per_round: Annotated[int, Ge(1), Doc("clients that train in each round, m")] = 10
    passed_over: Annotated[float, Interval(ge=0, lt=1), Doc("share of clients of least value, alpha_1")] = 0.75
    sharpness: Annotated[float, Ge(0), Doc("chances grow as exp(sharpness * value), alpha_2")] = 0.01
    others: Annotated[float, Interval(ge=0, le=1), Doc("share of a round drawn from all others, alpha_3")] = 0.1

    async def run(self, fed: Federation) -> None:
        values, number = np.full(len(fed.clients), np.inf), 0
        while True:
            number += 1
            chosen = self.choose(values, fed.rng("selection", number))
            updates = await train_round(fed, [fed.clients[client] for client in chosen])
            for update in updates:
                values[update.client.id] = np.sqrt(update.num_examples) * update.statistics.get("loss", 0.0)
            if updates:
                fed.commit(await fed.average(updates))

    def choose(self, values, rng):
        count = min(self.clients_per_round, len(values))
        allowed = np.argsort(values, kind="stable")[int(self.passed_over * len(values)) :]
        chances = np.exp(self.sharpness * (np.minimum(values[allowed], 1000) - 1000))  # never trained: 1000
        preferred = min(len(allowed), count - round(self.others * count))
        first = rng.choice(allowed, preferred, replace=False, p=chances / chances.sum())
        return [*first, *rng.choice(np.setdiff1d(range(len(values)), first), count - preferred, replace=False)]
