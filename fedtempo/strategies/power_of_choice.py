"""Power-of-Choice: of some candidates, those on whose data the model is worst train."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

from pydantic.dataclasses import dataclass

from fedtempo.federation import Client, Federation, Update
from fedtempo.parts.fields import STRICT, Count, Doc
from fedtempo.strategies.evaluating import FORWARD_PASS, EvaluationCost, evaluation
from fedtempo.strategies.rounds import share_sample, train_round


@dataclass(frozen=True, config=STRICT)
class PowerOfChoice:
    """Cho, Wang and Joshi, Towards Understanding Biased Client Selection in Federated Learning, AISTATS 2022.

    Each round:

    1. Draw d candidates without replacement, client k with probability p_k, its share of all examples.
    2. Learn the local losses F_k(w) of the candidates. pow-d: they evaluate the global model on all of their examples.
       cpow-d: on a random mini-batch of b. rpow-d: nobody evaluates; the server takes the mean loss over the local
       steps of each client's last training, which came with its model, and infinity for clients that never trained.
    3. The m candidates with the highest losses train, ties broken at random; the plain mean of their models is the next
       global model.

    In a run without training all losses are equal.
    """

    candidates: Annotated[Count, Doc("number of candidates drawn per round; d in the paper")] = 20
    clients_per_round: Annotated[Count, Doc("number of candidates that train per round; m in the paper")] = 10
    variant: Annotated[
        Literal["pow-d", "cpow-d", "rpow-d"],
        Doc("losses of candidates: measured on all examples, on a mini-batch, or those of each client's last training"),
    ] = "pow-d"
    batch: Annotated[Count, Doc("cpow-d: number of random examples in the mini-batch; b in the paper")] = 64
    evaluation_cost: EvaluationCost = FORWARD_PASS

    def __post_init__(self) -> None:
        if self.candidates < self.clients_per_round:
            raise ValueError(
                f"candidates = {self.candidates} must be at least clients_per_round = {self.clients_per_round}"
            )

    async def run(self, fed: Federation) -> None:
        latest: dict[int, float] = {}
        for round_number in itertools.count():
            rng = fed.rng("candidates", round_number)
            candidates: Sequence[Client] = share_sample(fed.clients, self.candidates, rng)
            losses: Mapping[int, float] = latest
            if self.variant != "rpow-d":
                work = evaluation(self.evaluation_cost, self.batch if self.variant == "cpow-d" else None)
                reports = await train_round(fed, candidates, work)
                candidates, losses = [report.client for report in reports], losses_of(reports)
            in_random_order = [candidates[i] for i in rng.permutation(len(candidates))]
            chosen = highest(in_random_order, losses, self.clients_per_round)
            if chosen and (updates := await train_round(fed, chosen)):
                latest |= losses_of(updates)
                fed.commit(await fed.average(updates, [1.0] * len(updates)))


def losses_of(updates: Sequence[Update]) -> dict[int, float]:
    """Return the loss that each client reported, by client id; infinity if it reported none."""
    return {update.client.id: update.statistics.get("loss", math.inf) for update in updates}


def highest(clients: Sequence[Client], losses: Mapping[int, float], count: int) -> list[Client]:
    """Return the `count` clients with the highest losses, by id; infinity if unknown. Earlier ones win ties."""
    ranked = sorted(clients, key=lambda client: -losses.get(client.id, math.inf))
    return sorted(ranked[:count], key=lambda client: client.id)
