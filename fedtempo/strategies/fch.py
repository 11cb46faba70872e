"""FCH-FL: prefer clients whose gradients are near the global one, without losing useful but slow clients."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic.dataclasses import dataclass

from fedtempo.federation import Federation, Model, Update, Vector
from fedtempo.parts.fields import STRICT, Count, Doc, Ge, Interval, NonNegative, Positive, Share
from fedtempo.strategies.planning.bandits import aggregate_choice, confidence_bounds, screen
from fedtempo.strategies.planning.utility import Floats, closeness, penalised
from fedtempo.strategies.rounds import train_round


@dataclass(frozen=True, config=STRICT)
class FchFl:
    """Zhao et al., Heterogeneous FL via Active-Passive Collaboration: the server's (passive) part, Section 3.3.

    Clients with the highest confidence bounds of past utility U train. The mean of the models with the highest utility
    in the round, and of some random ones, is the next global model. U is 1 / (|g_i - g| + 1), where g is the previous
    round's global gradient, 0 at first (Eq. 9). It is multiplied by (T / t)^alpha for a client that took t > T seconds
    (Eq. 10), except for the most useful p % (Eq. 11); T is the median of all clients' latest times. A gradient is the
    negated change of a model.

    The paper puts its Algorithm 2 into an appendix that is not available; `planning.bandits` says how its two stages
    are read here, with the round's number as t of the bound. A failed visit counts as one without utility.

    The clients' (active) part, the loss of Eq. 8, works with any strategy: `[training] loss = "logit-adjusted"`.
    """

    MOVED: ClassVar[dict[str, str]] = {"gradient_lr": 'is now gradients: "scaled" divides changes by training.lr'}

    clients_per_round: Annotated[Count, Doc("number of models averaged, m, at most the number of clients")] = 10
    screened: Annotated[float, Ge(1), Doc("number of clients that train, as a multiple of clients_per_round; q")] = 2.0
    screen_only: Annotated[bool, Doc("train only clients_per_round clients and average all their models")] = False
    exploration: Annotated[NonNegative, Doc("weight of the confidence bound's width; c")] = 1.0
    random_share: Annotated[Share, Doc("share of the averaged models that is chosen at random; epsilon")] = 0.2
    penalty_exponent: Annotated[NonNegative, Doc("how strongly slow clients are penalised; alpha in Eq. 10")] = 1.0
    exempt_percent: Annotated[
        float,
        Interval(ge=0, le=100),
        Doc("percentage of clients, the most useful, that are not penalised; p in Eq. 11"),
    ] = 10.0
    gradients: Annotated[
        Literal["scaled", "changes"],
        Doc("what Eq. 9 compares: changes of models divided by training.lr, or the changes themselves"),
    ] = "scaled"
    round_limit_s: Annotated[
        Positive | None,
        Doc("longest wait of the server for a round's clients, seconds; tau_max in Eq. 5 (default: no limit)"),
    ] = None

    async def run(self, fed: Federation) -> None:
        ids = np.arange(len(fed.clients))
        wanted = min(self.clients_per_round, len(ids))
        share = 1.0 if self.screen_only else self.screened
        total, tried, seconds = np.zeros(len(ids)), np.zeros(len(ids)), np.full(len(ids), np.nan)
        previous: Model | None = None
        for round_number in itertools.count(1):
            bounds = confidence_bounds(total / np.maximum(tried, 1), tried, round_number, self.exploration)
            screened = np.sort(screen(bounds, ids, share, wanted))
            updates = await train_round(fed, [fed.clients[i] for i in screened], limit_s=self.round_limit_s)
            tried[screened] += 1
            if self.round_limit_s is not None:
                seconds[screened] = self.round_limit_s  # Eq. 5, unless the client reports
            if not updates:
                continue
            reported = np.array([update.client.id for update in updates])
            seconds[reported] = [update.finished - update.started for update in updates]
            utility = await self.utilities(fed, updates, previous, seconds[reported], float(np.nanmedian(seconds)))
            total[reported] += utility
            best = aggregate_choice(utility, reported, wanted, self.random_share, fed.rng("aggregation", round_number))
            previous = fed.model
            fed.commit(await fed.average([updates[i] for i in best]))

    async def utilities(
        self, fed: Federation, updates: Sequence[Update], previous: Model | None, seconds: Floats, limit_s: float
    ) -> Floats:
        """Return U of each update. previous: the global model before the last commit. limit_s: T, seconds."""
        distances = await fed.on_server(
            gradient_distances, fed.model, models=[update.model for update in updates], previous=previous
        )
        return penalised(
            closeness(np.array(distances) / (fed.lr if self.gradients == "scaled" else 1.0)),
            seconds,
            limit_s,
            exponent=self.penalty_exponent,
            exempt_percent=self.exempt_percent,
            ids=[update.client.id for update in updates],
        )


def gradient_distances(model: Vector, *, models: Sequence[Vector], previous: Vector | None) -> list[float]:
    """Return |(model - trained) - (previous - model)| for each trained model; without `previous` the latter is 0."""
    centre = np.asarray(model, dtype=np.float64)
    expected = centre if previous is None else centre - (np.asarray(previous, dtype=np.float64) - centre)
    return [float(np.sqrt(np.square(expected - trained).sum())) for trained in models]
