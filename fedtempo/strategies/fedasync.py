"""FedAsync: each client's model is mixed into the global model as it arrives."""

from __future__ import annotations

import asyncio
from typing import Annotated, Literal

from pydantic.dataclasses import dataclass

from fedtempo.federation import Federation, Update, Work
from fedtempo.parts.fields import STRICT, Count, Doc, Gt, Le, NonNegative
from fedtempo.strategies.asynchronous import ClientsAtOnce, Reach, fastest, train_always
from fedtempo.strategies.planning.staleness import constant, hinge, polynomial


@dataclass(frozen=True, config=STRICT)
class FedAsync:
    """Xie, Koyejo and Gupta, Asynchronous Federated Optimization, 2019, Alg. 1.

    When a model trained from version tau arrives at version t, the global model becomes (1 - a) * w + a * trained with
    a = alpha * s(t - tau), where s is one of the paper's three functions (Section 5) and 1 for a fresh result.
    """

    clients_at_once: ClientsAtOnce = None
    alpha: Annotated[float, Gt(0), Le(1), Doc("weight of a fresh result")] = 0.6
    alpha_decay: Annotated[
        float, Gt(0), Le(1), Doc("factor on alpha from commit decay_at on; 0.5 in the paper's experiments")
    ] = 1.0
    decay_at: Annotated[Count, Doc("number of commits after which alpha decays")] = 400
    reach: Reach = 1.0
    staleness: Annotated[
        Literal["constant", "polynomial", "hinge"], Doc("how the weight falls with the number of commits missed")
    ] = "polynomial"
    exponent: Annotated[NonNegative, Doc("polynomial: (1 + missed)^-exponent; a in the paper")] = 0.5
    slope: Annotated[NonNegative, Doc("hinge: 1 / (slope * (missed - knee) + 1) above the knee; a in the paper")] = 10.0
    knee: Annotated[
        NonNegative, Doc("hinge: number of commits that may be missed without loss of weight; b in the paper")
    ] = 4.0
    proximal: Annotated[NonNegative, Doc("mu of mu / 2 * |w - w_received|^2 in local training; rho in Alg. 1")] = 0.005

    async def run(self, fed: Federation) -> None:
        turn = asyncio.Lock()

        async def mix(update: Update) -> None:
            async with turn:  # the global model must not change between reading and committing it
                missed = fed.model.version - update.base_version
                mixed = await fed.mix(fed.model, update.model, self.weight(fed.model.version) * self.freshness(missed))
                fed.commit(mixed, staleness=missed)

        among = fastest(fed, self.reach)
        await train_always(fed, self.clients_at_once, mix, Work(proximal=self.proximal), among=among)

    def weight(self, version: int) -> float:
        """Return alpha after this number of commits."""
        return self.alpha * (self.alpha_decay if version >= self.decay_at else 1.0)

    def freshness(self, missed: int) -> float:
        """Return s(missed), the share of its weight that a result keeps after missing this number of commits."""
        if self.staleness == "polynomial":
            return polynomial(missed, self.exponent)
        return hinge(missed, self.slope, self.knee) if self.staleness == "hinge" else constant(missed)
