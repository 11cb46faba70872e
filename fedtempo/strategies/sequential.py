"""Sequential federated learning: one model visits client after client."""

from __future__ import annotations

import itertools
from typing import Annotated, Literal

from pydantic.dataclasses import dataclass

from fedtempo.federation import ClientUnavailable, Federation
from fedtempo.parts.fields import STRICT, Count, Doc
from fedtempo.strategies.rounds import uniform_sample
from fedtempo.strategies.sequential_training import OnLoss, train_in_sequence


@dataclass(frozen=True, config=STRICT)
class Sequential:
    """SFL: Li and Lyu, Convergence Analysis of Sequential Federated Learning on Heterogeneous Data, NeurIPS 2023.

    Each round draws clients without replacement in random order; the model that the last one sends is the next global
    model. The default commits after every visit, since the server relays the model anyway.
    """

    clients_per_round: Annotated[Count | None, Doc("number of clients per round (default: all)")] = None
    commit: Annotated[Literal["visit", "round"], Doc("when the travelling model becomes the global model")] = "visit"
    on_loss: OnLoss = "skip"

    async def run(self, fed: Federation) -> None:
        for round_number in itertools.count():
            rng = fed.rng("sampling", round_number)
            chosen = uniform_sample(fed.clients, self.clients_per_round, rng)
            order = [chosen[i] for i in rng.permutation(len(chosen))]
            parts = [order] if self.commit == "round" else [[client] for client in order]
            try:
                for part in parts:
                    model = await train_in_sequence(fed, part, fed.model, group=round_number, on_loss=self.on_loss)
                    fed.commit(model)
            except ClientUnavailable:
                continue  # aborted: start the next round
