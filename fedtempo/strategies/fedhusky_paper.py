"""FedHusky to the letter of its paper: a model hops along a whole group before it is mixed into the global one."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Annotated, Literal

from pydantic.dataclasses import dataclass

from fedtempo.federation import Federation, Work
from fedtempo.parts.fields import STRICT, Doc, NonNegative
from fedtempo.strategies.grouping import CountWarmup
from fedtempo.strategies.hopping_groups import HoppingGroups, Journey, OnLoss, Rebook
from fedtempo.strategies.mixing import Mixer

FULL_GRADIENT_STEP = Work(full_batch=True, epochs=1)
"""One step along the gradient of the client's mean loss (Eqs. 15, 16)."""
FirstGroup = Annotated[
    Literal["planned", "random"],
    Doc("draw the first group's clients and their order (Section III-B 1), or plan it as all others"),
]


@dataclass(frozen=True, config=STRICT)
class FedHuskyPaper(HoppingGroups):
    """Zhou, Shi, Lou and Hou, FedHusky: Accelerating Hybrid Federated Learning with Client Hopping, to the letter.

    Clients with similar data form clusters (step 1). A group takes one client of each cluster, in an order in which
    every client is free when the model reaches it: the exact optimum of OPT-j for each client j as head at the start
    (step 2), of OPT-k whenever a client is released (step 4). The first group is drawn: "the server selects one client
    from each of the other C - 1 clusters, respectively, and randomly places them in the rest C - 1 positions" (Section
    III-B 1). The model hops along the group, and the result is mixed
    into the global model with weight beta = (1 + gap)^(-exponent), w <- (1 - beta) * w + beta * result, where gap
    counts the versions since the group took its model (step 3, Eqs. 17, 18; zeta is `exponent`, tau `Model.version`).
    Groups end by the horizon T (step 5).

    One thing that the paper prints is off by default: one gradient step per visit (Eq. 15; its text has "stochastic
    gradient descent", its experiments no batch size).
    """

    count_warmup: CountWarmup = False
    on_loss: OnLoss = "skip"
    rebook: Rebook = False
    exponent: Annotated[NonNegative, Doc("how fast a stale result's weight decays; zeta in Eq. 18")] = 0.9
    first_group: FirstGroup = "random"
    mode: Annotated[
        Literal["local-sgd", "gradient"],
        Doc("local training as in [training], or one step along the client's full gradient (Eqs. 15, 16)"),
    ] = "local-sgd"

    async def run(self, fed: Federation) -> None:
        cluster = await self.find_clusters(fed)
        mixer = self.mixer(fed, cluster)
        random_first = fed.rng("first group") if self.first_group == "random" else None
        schedule = self.schedule(fed, cluster, first_group=random_first)
        await self.form_groups(fed, schedule, partial(self.live, fed, mixer))

    async def live(self, fed: Federation, mixer: Mixer, group: Journey) -> None:
        """Let a model hop along a group, and mix what it has learned at the end (step 3)."""
        start = model = fed.model
        work = FULL_GRADIENT_STEP if self.mode == "gradient" else None
        while group.alive:
            await group.wait_for_turn()
            update = await group.train(model, work, hand_over=True)
            if update is not None:
                model = update.model
            if group.at_last_stop and model is not start and not group.aborted:
                await mixer.commit(start, model, group.client.id)
            group.hop()

    def mixer(self, fed: Federation, cluster: Sequence[int]) -> Mixer:
        """Return what mixes groups' results into the global model (Eqs. 17, 18)."""
        return Mixer(fed, cluster, gain=1.0, exponent=self.exponent, change=False, memory=None)
