"""FCH-FL: clients chosen by how near their gradients are to the global one, without losing the useful but slow."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Annotated

import numpy as np
from pydantic.dataclasses import dataclass

from fedtempo.federation import Federation, Model, Update, Vector
from fedtempo.parts.fields import STRICT, Count, Doc, Ge, Interval, NonNegative, Positive, Share
from fedtempo.strategies.planning.bandits import aggregate_choice, confidence_bounds, screen
from fedtempo.strategies.planning.utility import Floats, closeness, penalised
from fedtempo.strategies.rounds import train_round


@dataclass(frozen=True, config=STRICT)
class FchFl:
    """Zhao et al., Heterogeneous FL via Active-Passive Collaboration: the server's passive half, Section 3.3.

    Clients with the highest confidence bounds of past utility U train; the mean of the best of this round's, and of
    some at random, is the next global model. U is 1 / (|g_i - g| + 1), g the global gradient of the round before and 0
    at first (Eq. 9), times (T / t)^alpha for a client that took t > T seconds (Eq. 10), but for the most useful p %
    (Eq. 11); T is the median of all clients' last times. A gradient is the change of a model, negated.

    Algorithm 2 lies in an appendix that the paper lacks; its two stages are as `planning.bandits` has them, t of the
    bound being the number of the round. A visit that failed counts as one of no utility.

    The clients' active half, the loss of Eq. 8, goes with any strategy: `[training] loss = "logit-adjusted"`.
    """

    clients_per_round: Annotated[Count, Doc("models in an average, m; all clients where there are fewer")] = 10
    screened: Annotated[float, Ge(1), Doc("clients that train, as a multiple of clients_per_round; q")] = 2.0
    screen_only: Annotated[bool, Doc("train just clients_per_round, and average all that come back")] = False
    exploration: Annotated[NonNegative, Doc("weight of the confidence bound's width; c")] = 1.0
    random_share: Annotated[Share, Doc("share of an average's models that are chosen at random; epsilon")] = 0.2
    penalty_exponent: Annotated[NonNegative, Doc("how hard slow clients are penalised; alpha in Eq. 10")] = 1.0
    exempt_percent: Annotated[
        float, Interval(ge=0, le=100), Doc("most useful clients, which go without penalty; p in Eq. 11")
    ] = 10.0
    gradient_lr: Annotated[
        Positive | None,
        Doc("gradients are changes divided by this: give that of [training]; the changes themselves where not given"),
    ] = None

    async def run(self, fed: Federation) -> None:
        ids = np.arange(len(fed.clients))
        wanted = min(self.clients_per_round, len(ids))
        share = 1.0 if self.screen_only else self.screened
        total, tried, seconds = np.zeros(len(ids)), np.zeros(len(ids)), np.full(len(ids), np.nan)
        previous: Model | None = None
        for round_number in itertools.count(1):
            bounds = confidence_bounds(total / np.maximum(tried, 1), tried, round_number, self.exploration)
            kept = np.sort(screen(bounds, ids, share, wanted))
            updates = await train_round(fed, [fed.clients[i] for i in kept])
            tried[kept] += 1
            if not updates:
                continue
            came = np.array([update.client.id for update in updates])
            seconds[came] = [update.finished - update.started for update in updates]
            utility = await self.utilities(fed, updates, previous, seconds[came], float(np.nanmedian(seconds)))
            total[came] += utility
            best = aggregate_choice(utility, came, wanted, self.random_share, fed.rng("aggregation", round_number))
            previous = fed.model
            fed.commit(await fed.average([updates[i] for i in best]))

    async def utilities(
        self, fed: Federation, updates: Sequence[Update], previous: Model | None, seconds: Floats, limit_s: float
    ) -> Floats:
        """U of each update. previous: the global model before the last commit. limit_s: T."""
        distances = await fed.on_server(
            gradient_distances, fed.model, models=[update.model for update in updates], previous=previous
        )
        return penalised(
            closeness(np.array(distances) / (self.gradient_lr or 1.0)),
            seconds,
            limit_s,
            exponent=self.penalty_exponent,
            exempt_percent=self.exempt_percent,
            ids=[update.client.id for update in updates],
        )


def gradient_distances(model: Vector, *, models: Sequence[Vector], previous: Vector | None) -> list[float]:
    """|(model - trained) - (previous - model)| for each trained model; without `previous` its gradient is 0."""
    centre = np.asarray(model, dtype=np.float64)
    expected = centre if previous is None else centre - (np.asarray(previous, dtype=np.float64) - centre)
    return [float(np.sqrt(np.square(expected - trained).sum())) for trained in models]
