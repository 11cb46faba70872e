"""Power-of-Choice (Cho, Wang and Joshi, AISTATS 2022): prefer clients on whose data the model is bad. Here rpow-d."""

from dataclasses import dataclass
from math import inf
from typing import Annotated

from annotated_types import Ge
from typing_extensions import Doc

from fedtempo import Federation
from fedtempo.strategies.rounds import train_round


@dataclass(frozen=True)
class PowerOfChoice:
    """Draw candidates by their shares of the data; train those whose last training had the highest loss."""

    candidates: Annotated[int, Ge(1), Doc("candidates drawn in each round, d")] = 20
    clients_per_round: Annotated[int, Ge(1), Doc("candidates that train, m")] = 10

    async def run(self, fed: Federation) -> None:
        losses: dict[int, float] = {}
        total = sum(client.num_examples for client in fed.clients)
        shares = [client.num_examples / total for client in fed.clients]
        number = 0
        while True:
            number += 1
            count = min(self.candidates, len(fed.clients))
            drawn = fed.rng("candidates", number).choice(len(fed.clients), count, replace=False, p=shares)
            drawn = sorted(drawn, key=lambda client: losses.get(client, inf), reverse=True)
            chosen = [fed.clients[client] for client in drawn[: self.clients_per_round]]
            updates = await train_round(fed, chosen)
            losses |= {update.client.id: update.statistics.get("loss", inf) for update in updates}
            if updates:
                fed.commit(await fed.average(updates, weights=[1.0] * len(updates)))
