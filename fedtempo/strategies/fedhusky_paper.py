"""FedHusky to the letter of its paper: a model hops along a whole group before it is mixed into the global one."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Annotated

from pydantic.dataclasses import dataclass

from fedtempo.federation import Federation
from fedtempo.parts.fields import STRICT, Doc, NonNegative
from fedtempo.strategies.grouping import CountWarmup
from fedtempo.strategies.hopping_groups import HoppingGroups, Journey, OnLoss, Rebook
from fedtempo.strategies.mixing import Mixer


@dataclass(frozen=True, config=STRICT)
class FedHuskyPaper(HoppingGroups):
    """Zhou, Shi, Lou and Hou, FedHusky: Accelerating Hybrid Federated Learning with Client Hopping, to the letter.

    Clients with similar data form clusters (step 1). A group takes one client of each cluster, in an order in which
    every client is free when the model reaches it: the exact optimum of OPT-j for each client j as head at the start
    (step 2), of OPT-k whenever a client is released (step 4). The model hops along the group, and the result is mixed
    into the global model with weight beta = (1 + gap)^(-exponent), w <- (1 - beta) * w + beta * result, where gap
    counts the versions since the group took its model (step 3, Eqs. 17, 18; zeta is `exponent`, tau `Model.version`).
    Groups end by the horizon T (step 5).
    """

    count_warmup: CountWarmup = False
    on_loss: OnLoss = "skip"
    rebook: Rebook = False
    exponent: Annotated[NonNegative, Doc("how fast a stale result's weight decays; zeta in Eq. 18")] = 0.9

    async def run(self, fed: Federation) -> None:
        cluster = await self.find_clusters(fed)
        mixer = self.mixer(fed, cluster)
        schedule = self.schedule(fed, cluster)
        await self.form_groups(fed, schedule, partial(self.live, fed, mixer))

    async def live(self, fed: Federation, mixer: Mixer, group: Journey) -> None:
        """Let a model hop along a group, and mix what it has learned at the end (step 3)."""
        start = model = fed.model
        while group.alive:
            await group.wait_for_turn()
            update = await group.train(model, hand_over=True)
            if update is not None:
                model = update.model
            if group.at_last_stop and model is not start and not group.aborted:
                await mixer.commit(start, model, group.client.id)
            group.hop()

    def mixer(self, fed: Federation, cluster: Sequence[int]) -> Mixer:
        """Return what mixes groups' results into the global model (Eqs. 17, 18)."""
        return Mixer(fed, cluster, gain=1.0, exponent=self.exponent, change=False, memory=None)
