"""FedAT: tiers of similar speed train in rounds of their own, and the server's mean favours slow tiers."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from typing import Annotated

from pydantic.dataclasses import dataclass

from fedtempo.federation import Client, Federation, Work
from fedtempo.parts.fields import STRICT, Count, Doc, Ge, NonNegative
from fedtempo.strategies.means import weighted_mean
from fedtempo.strategies.planning.tiers import mirrored_shares
from fedtempo.strategies.rounds import train_round, uniform_sample
from fedtempo.strategies.tiering import ProfilingLimit, ProfilingRounds, TierCount, Tiers, form_tiers


@dataclass(frozen=True, config=STRICT)
class FedAT:
    """Chai, Chen, Anwar, Zhao, Cheng and Rangwala, FedAT: A High-Performance and Communication-Efficient Federated
    Learning System with Asynchronous Tiers, SC 2021.

    Clients are profiled and sorted into M tiers by response latency, tier 1 the fastest (as in TiFL). All tiers train
    in parallel, each in synchronous rounds: random clients of the tier train the global model w, each minimising its
    loss plus lambda / 2 * |w_k - w|^2, and w_m becomes the mean of their models, weighted by examples. After each round
    of any tier

        w <- sum over m of T_(M + 1 - m) / T * w_m,

    where T_m counts the rounds of tier m and T those of all: the slowest tier has the weight that the rounds of the
    fastest would give. All w_m are the initial model at first.
    """

    tiers: TierCount = 5
    clients_per_round: Annotated[Count, Doc("clients of a tier that train in one of its rounds")] = 10
    proximal: Annotated[
        NonNegative, Doc("weight of the term that keeps clients near w; lambda in the paper, the value is ours")
    ] = 0.4
    kind: Tiers = "equal-size"
    profiling_rounds: ProfilingRounds = 1
    profiling_limit_s: ProfilingLimit = None
    head_start: Annotated[
        int,
        Ge(0),
        Doc(
            "rounds that each tier counts with from the start, ours; with 0, as in the paper, the global model stays "
            "the initial one until the slowest tier's first round has ended"
        ),
    ] = 0

    async def run(self, fed: Federation) -> None:
        tiers = await form_tiers(fed, self.tiers, self.kind, self.profiling_rounds, self.profiling_limit_s)
        models = [fed.model] * len(tiers)
        rounds = [self.head_start] * len(tiers)
        turn = asyncio.Lock()

        async def train_tier(tier: int, clients: Sequence[Client]) -> None:
            for round_number in itertools.count():
                start = fed.model
                chosen = uniform_sample(clients, self.clients_per_round, fed.rng("sampling", tier, round_number))
                updates = await train_round(fed, chosen, Work(proximal=self.proximal))
                if not updates:
                    continue
                async with turn:  # the other tiers' models must not change between reading and committing them
                    models[tier] = await fed.average(updates)
                    rounds[tier] += 1
                    mean = await weighted_mean(fed, models, mirrored_shares(rounds))
                    fed.commit(mean, staleness=fed.model.version - start.version)

        async with asyncio.TaskGroup() as tasks:
            for tier, clients in enumerate(tiers):
                tasks.create_task(train_tier(tier, clients))
