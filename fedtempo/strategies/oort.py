"""Oort: prefer clients with high losses and short visits, and keep exploring new clients."""

from __future__ import annotations

import itertools
import math
from typing import Annotated

import numpy as np
from pydantic.dataclasses import dataclass

from fedtempo.federation import Federation, Update, Work
from fedtempo.parts.fields import STRICT, Count, Doc, Ge, Gt, Le, NonNegative, Positive, Share
from fedtempo.strategies.planning import oort
from fedtempo.strategies.rounds import train_round


@dataclass(frozen=True, config=STRICT)
class Oort:
    """Lai et al., Oort: Efficient Federated Learning via Guided Participant Selection, OSDI 2021, Alg. 1.

    Some of a round's clients are drawn from those seen before with good scores: from all whose score is at least 95 %
    of the lowest score that would be chosen. The others are new clients, preferably fast ones. A score is the
    statistical utility |B| * sqrt(mean squared loss), clipped at a percentile and scaled to [0, 1], plus sqrt(0.1 ln R
    / last round), times (T / t)^alpha for a client whose last visit took t > T seconds. The pacer raises T when a
    window of rounds brought less utility than the previous one. A round has `clients_per_round` clients if there are
    that many; the mean of their models, weighted by examples, is the next global model. In a run without training all
    squared losses are 1.
    """

    clients_per_round: Annotated[Count, Doc("number of clients per round, K, at most the number of clients")] = 10
    penalty_exponent: Annotated[NonNegative, Doc("how strongly slow clients are penalised; alpha")] = 2.0
    clip_quantile: Annotated[
        Share, Doc("quantile at which utilities are clipped (0.9 or 0.98 in other implementations)")
    ] = 0.95
    cut_off: Annotated[
        float, Gt(0), Le(1), Doc("a client is eligible if its score is this share of the K-th best; c")
    ] = 0.95
    explore: Annotated[Share, Doc("share of new clients in the first round; epsilon")] = 0.9
    explore_decay: Annotated[float, Gt(0), Le(1), Doc("factor by which that share falls each round")] = 0.98
    explore_least: Annotated[Share, Doc("lower limit of that share")] = 0.2
    window: Annotated[Count, Doc("number of rounds over which the pacer sums utilities; W")] = 20
    pacer_step_s: Annotated[
        Positive | None,
        Doc("initial T and its increment, seconds (default: the median of the estimated visits)"),
    ] = None
    most_picks: Annotated[
        Count | None,
        Doc("a client chosen this many times rests while others are available (default: no limit)"),
    ] = None
    over_commitment: Annotated[
        float,
        Ge(1),
        Doc("clients that train per round, as a multiple of clients_per_round; the round ends once that many report"),
    ] = 1.0
    examples_per_visit: Annotated[
        int | None, Ge(1), Doc("|B| if a visit trains on only some of the examples: steps x batch size")
    ] = None

    async def run(self, fed: Federation) -> None:
        wanted = min(self.clients_per_round, len(fed.clients))
        invited = min(math.ceil(self.over_commitment * wanted - 1e-9), len(fed.clients))
        step = self.pacer_step_s
        limit_s = step = float(np.median([fed.estimate(c).visit_s for c in fed.clients])) if step is None else step
        memory = _Memory(len(fed.clients))
        history: list[float] = []
        for round_number in itertools.count(1):
            if oort.utility_fell(history, self.window):
                limit_s += step
            chosen = self.choose(fed, memory, invited, round_number, limit_s)
            memory.picks[chosen] += 1
            clients = [fed.clients[i] for i in chosen]
            work = Work(statistics=frozenset({"squared_loss"}))
            updates = await train_round(fed, clients, work, enough=wanted)
            if not updates:
                continue
            for update in updates:
                memory.learn(update, round_number, self.examples_per_visit)
            history.append(float(sum(memory.utility[update.client.id] for update in updates)))
            del history[: -2 * self.window]
            fed.commit(await fed.average(updates))

    def choose(self, fed: Federation, memory: _Memory, wanted: int, round_number: int, limit_s: float) -> list[int]:
        """Return the ids of a round's clients, ascending. limit_s: T, seconds."""
        rng = fed.rng("selection", round_number)
        pool = oort.allowed(memory.picks, self.most_picks, wanted)
        seen, new = pool[memory.last_round[pool] > 0], pool[memory.last_round[pool] == 0]
        share = oort.exploration_share(round_number, self.explore, self.explore_decay, self.explore_least)
        exploit, explore, more = oort.counts(wanted, share, len(seen), len(new))
        chosen: list[int] = []
        if exploit + more:
            scores = oort.scores(
                memory.utility[seen],
                memory.last_round[seen],
                memory.seconds[seen],
                round_number=round_number,
                limit_s=limit_s,
                exponent=self.penalty_exponent,
                clip_quantile=self.clip_quantile,
            )
            chosen += seen[oort.exploitation(scores.score, seen, exploit + more, self.cut_off, rng)].tolist()
        if explore:
            times = [fed.estimate(fed.clients[i]).visit_s for i in new]
            chosen += new[oort.draw(oort.speed_chances(times), explore, rng)].tolist()
        return sorted(chosen)


class _Memory:
    """What the server knows about each client. last_round: 0 if never seen; utility, seconds: of its last visit."""

    def __init__(self, n_clients: int) -> None:
        self.utility, self.seconds = np.zeros(n_clients), np.zeros(n_clients)
        self.last_round, self.picks = np.zeros(n_clients, dtype=int), np.zeros(n_clients, dtype=int)

    def learn(self, update: Update, round_number: int, examples_per_visit: int | None) -> None:
        client = update.client.id
        n_examples = oort.examples_trained(update.num_examples, examples_per_visit)
        self.utility[client] = oort.statistical_utility(update.statistics.get("squared_loss", 1.0), n_examples)
        self.seconds[client] = update.finished - update.started
        self.last_round[client] = round_number
