"""QuAFL: the server polls a few clients, takes whatever they have, and averages their models with its own."""

from __future__ import annotations

import asyncio

from pydantic.dataclasses import dataclass

from fedtempo.federation import Federation
from fedtempo.parts.fields import STRICT
from fedtempo.strategies.polling import PolledPerRound, Polling, RoundSeconds


@dataclass(frozen=True, config=STRICT)
class QuAFL:
    """Zakerinia, Talaei, Nadiradze and Alistarh, Communication-Efficient Federated Learning with Data and Client
    Heterogeneity, AISTATS 2024 (QuAFL; Alg. 1 in the version submitted to ICLR 2023).

    All clients receive the model X and train by themselves, at most K local steps each. In every round the server polls
    s clients, drawn uniformly, and waits for none of them: client i sends Y_i, its model X_i after the steps that it
    has taken so far, maybe none. Then

        X <- (X + sum of Y_i) / (s + 1),
        X_i <- X / (s + 1) + s / (s + 1) * Y_i,

    where the second X is the one before the round, and client i goes on from X_i. K is the local work that `[training]`
    configures, a round lasts `round_s`, and s counts the clients that answer. Messages are compressed if
    `server.compression` says so.
    """

    clients_per_round: PolledPerRound = 10
    round_s: RoundSeconds = None

    async def run(self, fed: Federation) -> None:
        async with asyncio.TaskGroup() as tasks:
            polling = Polling(fed, tasks, self.clients_per_round, self.round_s)
            while True:
                answers = await polling.answers()
                if not answers:
                    continue
                model, models = fed.model, [answer.model for answer in answers]
                mean = await fed.average([model, *models], [1.0] * (len(models) + 1))
                for client, _, progress, _ in answers:
                    mixed = await fed.mix(model, progress, len(models) / (len(models) + 1))
                    polling.begin(client, mixed)
                fed.commit(mean, staleness=max(model.version - answer.start.version for answer in answers))
