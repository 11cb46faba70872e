"""Oort: clients whose losses are high and whose visits are short, beside new ones."""

from __future__ import annotations

import itertools
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

    Of the clients seen before those with the best scores train, drawn among all above 95 % of the score that just
    makes it; the rest of a round are new ones, fast ones rather. A score is the statistical utility |B| * sqrt(mean
    squared loss), cut at a percentile and brought to [0, 1], plus sqrt(0.1 ln R / last round), times (T / t)^alpha for
    a client whose last visit took t > T seconds. The pacer raises T when a window of rounds brought less utility than
    the one before. A round asks for `clients_per_round` clients whenever there are as many; the mean of their models,
    weighted by examples, is the next global one. Without training all squared losses are taken to be 1.
    """

    clients_per_round: Annotated[Count, Doc("clients chosen each round, K; all where there are fewer")] = 10
    penalty_exponent: Annotated[NonNegative, Doc("how hard slow clients are penalised; alpha")] = 2.0
    clip_quantile: Annotated[Share, Doc("utilities above this quantile are cut to it (0.9 or 0.98 elsewhere)")] = 0.95
    cut_off: Annotated[float, Gt(0), Le(1), Doc("share of the K-th best score that admits a client; c")] = 0.95
    explore: Annotated[Share, Doc("share of new clients in the first round; epsilon")] = 0.9
    explore_decay: Annotated[float, Gt(0), Le(1), Doc("factor on that share each round")] = 0.98
    explore_least: Annotated[Share, Doc("that share falls no further")] = 0.2
    window: Annotated[Count, Doc("rounds that the pacer sums utilities over; W")] = 20
    pacer_step_s: Annotated[
        Positive | None,
        Doc("T at first, and what it grows by, seconds; the median of the estimated visits where not given"),
    ] = None
    most_picks: Annotated[
        Count | None,
        Doc("a client picked so often rests while others are left; no limit where not given"),
    ] = None
    examples_per_visit: Annotated[
        int | None, Ge(1), Doc("|B|, where a visit trains fewer than all examples: steps x batch size")
    ] = None

    async def run(self, fed: Federation) -> None:
        asked = min(self.clients_per_round, len(fed.clients))
        step = self.pacer_step_s
        limit_s = step = float(np.median([fed.estimate(c).visit_s for c in fed.clients])) if step is None else step
        memory = _Memory(len(fed.clients))
        history: list[float] = []
        for round_number in itertools.count(1):
            if oort.utility_fell(history, self.window):
                limit_s += step
            chosen = self.choose(fed, memory, asked, round_number, limit_s)
            memory.picks[chosen] += 1
            clients = [fed.clients[i] for i in chosen]
            updates = await train_round(fed, clients, Work(statistics=frozenset({"squared_loss"})))
            if not updates:
                continue
            for update in updates:
                memory.learn(update, round_number, self.examples_per_visit)
            history.append(float(sum(memory.utility[update.client.id] for update in updates)))
            del history[: -2 * self.window]
            fed.commit(await fed.average(updates))

    def choose(self, fed: Federation, memory: _Memory, asked: int, round_number: int, limit_s: float) -> list[int]:
        """Ids of the clients of a round, ascending. limit_s: T."""
        rng = fed.rng("selection", round_number)
        pool = oort.allowed(memory.picks, self.most_picks, asked)
        seen, new = pool[memory.last_round[pool] > 0], pool[memory.last_round[pool] == 0]
        share = oort.exploration_share(round_number, self.explore, self.explore_decay, self.explore_least)
        exploit, explore, more = oort.counts(asked, share, len(seen), len(new))
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
    """What the server knows of each client. last_round: 0 for one that was never seen; utility, seconds: when last."""

    def __init__(self, n_clients: int) -> None:
        self.utility, self.seconds = np.zeros(n_clients), np.zeros(n_clients)
        self.last_round, self.picks = np.zeros(n_clients, dtype=int), np.zeros(n_clients, dtype=int)

    def learn(self, update: Update, round_number: int, examples_per_visit: int | None) -> None:
        client = update.client.id
        n_examples = oort.examples_trained(update.num_examples, examples_per_visit)
        self.utility[client] = oort.statistical_utility(update.statistics.get("squared_loss", 1.0), n_examples)
        self.seconds[client] = update.finished - update.started
        self.last_round[client] = round_number
