"""TiFL: each round trains clients of one tier of similar speed; tiers with low accuracy have better chances."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Annotated

import numpy as np
from pydantic import Field
from pydantic.dataclasses import dataclass

from fedtempo.errors import ConfigError
from fedtempo.federation import Client, Federation
from fedtempo.parts.fields import STRICT, Count, Doc
from fedtempo.strategies.evaluating import FORWARD_PASS, EvaluationCost, evaluation
from fedtempo.strategies.planning.tiers import chances_by_rank
from fedtempo.strategies.rounds import train_round, uniform_sample
from fedtempo.strategies.tiering import ProfilingLimit, ProfilingRounds, TierCount, Tiers, form_tiers


@dataclass(frozen=True, config=STRICT)
class TiFL:
    """Chai et al., TiFL: A Tier-based Federated Learning System, HPDC 2020, with adaptive tier selection (Alg. 2).

    Profiling measures the clients' response latencies, by which they form tiers; clients that do not answer are
    excluded. In round r a tier is drawn and one of its Credits_t taken; it is drawn again while it has none left. |C|
    random clients of the tier train; the mean of their models, weighted by examples, is the next global model.

    Tiers have equal chances at first. Every I rounds the accuracy A_t of the global model on the data of each tier is
    measured. If it has not risen within I rounds for the tier that was drawn last, ChangeProbs gives tiers with lower
    accuracies better chances. Here they fall linearly with the rank of A_t (`planning.tiers`): of n tiers with credits,
    from the lowest accuracy to the highest, the chances are

        n / D, (n - 1) / D, ..., 1 / D     with D = n (n + 1) / 2.
    """

    tiers: TierCount = 5
    clients_per_round: Annotated[Count, Doc("clients of the tier that train in a round; |C| in the paper")] = 5
    interval: Annotated[Count, Doc("rounds between measurements of the tiers' accuracies; I in the paper")] = 10
    credits: Annotated[
        tuple[Count, ...],
        Field(strict=False),
        Doc(
            "number of rounds of each tier, from the fastest on, or one number for all; when all are used up, they "
            "start again; Credits_t in the paper (default: no limit)"
        ),
    ] = ()
    kind: Tiers = "equal-size"
    profiling_rounds: ProfilingRounds = 1
    profiling_limit_s: ProfilingLimit = None
    evaluation_cost: EvaluationCost = FORWARD_PASS

    async def run(self, fed: Federation) -> None:
        tiers = await form_tiers(fed, self.tiers, self.kind, self.profiling_rounds, self.profiling_limit_s)
        credits = self.credits_of(len(tiers))
        equal = np.full(len(tiers), 1 / len(tiers))
        left, chances, drawn, before = credits.copy(), equal, 0, np.full(len(tiers), np.nan)
        for round_number in itertools.count():
            if not left.any():
                left, chances = credits.copy(), equal
            if round_number % self.interval == 0:
                accuracy = await self.accuracies(fed, tiers)
                if accuracy[drawn] <= before[drawn]:  # not at first, nor without training: NaN
                    chances = chances_by_rank(accuracy, left > 0)
                    fed.note("tier_chances", chances.tolist())
                before = np.array(accuracy)
            rng = fed.rng("tier", round_number)
            possible = chances * (left > 0)
            drawn = int(rng.choice(len(tiers), p=possible / possible.sum()))
            left[drawn] -= 1
            if updates := await train_round(fed, uniform_sample(tiers[drawn], self.clients_per_round, rng)):
                fed.commit(await fed.average(updates))

    def credits_of(self, n_tiers: int) -> np.ndarray:
        """Return the credits of each tier, infinite if not limited. Raises ConfigError if their number is wrong."""
        if len(self.credits) not in (0, 1, n_tiers):
            raise ConfigError(f"strategy.credits: {len(self.credits)} numbers for {n_tiers} tiers; give one for each")
        return np.full(n_tiers, np.inf) if not self.credits else np.broadcast_to(self.credits, n_tiers).astype(float)

    async def accuracies(self, fed: Federation, tiers: Sequence[Sequence[Client]]) -> list[float]:
        """Return the accuracy of the global model on the examples of each tier; NaN if nobody measured it.

        Labels that are numbers have no accuracy: the negative loss takes its place.
        """
        reports = await train_round(fed, list(itertools.chain(*tiers)), evaluation(self.evaluation_cost))
        measured = {
            report.client: report.statistics.get("accuracy", -report.statistics.get("loss", math.nan))
            for report in reports
        }
        return [mean_over_examples({c: measured[c] for c in tier if c in measured}) for tier in tiers]


def mean_over_examples(measured: dict[Client, float]) -> float:
    """Return the mean of the clients' values, weighted by their numbers of examples; NaN without clients."""
    total = sum(client.num_examples for client in measured)
    return sum(client.num_examples * value for client, value in measured.items()) / total if total else math.nan
