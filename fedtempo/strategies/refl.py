"""REFL: the clients that will be least available train first, and updates that come too late for their round count."""

from __future__ import annotations

import asyncio
import itertools
import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Annotated

from pydantic.dataclasses import dataclass

from fedtempo.federation import Federation, Update
from fedtempo.parts.fields import STRICT, Count, Doc, Ge, Gt, Le, Lt, Positive, Share
from fedtempo.strategies.changes import commit_changes
from fedtempo.strategies.ongoing import Ongoing
from fedtempo.strategies.planning.refl import StaleRule, least_available, squared_deviations, stale_weights


@dataclass(frozen=True, config=STRICT)
class REFL:
    """Abdelmoniem, Sahu, Canini and Fahmy, REFL: Resource-Efficient Federated Learning, EuroSys 2023.

    A round chooses, of the present clients that are not at work, those least likely to be present from mu to 2 mu from
    now; mu is a moving average of rounds' durations, and clients of the latest rounds rest. It ends when the target
    share of them has reported. The others work on, and their updates count in the round in which they arrive. With the
    change u_i of each client, the mean v of the n fresh changes, and t commits missed,

        w <- w + sum of a_i * u_i / sum of a_i,
        a_i = 1 if fresh, else (1 - beta) / (t + 1) + beta * (1 - e^(-L_i / max L)),
        L_i = |v - (u_i + n v) / (n + 1)|^2 / |v|^2.
    """

    clients_per_round: Annotated[Count, Doc("number of clients chosen per round; N_0 in the paper")] = 10
    target: Annotated[float, Gt(0), Le(1), Doc("share of a round's clients after whose reports it ends")] = 0.8
    deadline_s: Annotated[
        Positive | None, Doc("longest duration of a round, seconds (default: the longest expected visit in it)")
    ] = None
    rest_rounds: Annotated[int, Ge(0), Doc("rounds for which a client rests after it was chosen, if others do not")] = 5
    adapt: Annotated[bool, Doc("choose as many clients fewer as late updates are due within mu (APT)")] = False
    stale: Annotated[StaleRule, Doc("weight of late updates: as above, 1, 1 / (t + 1), or e^-(t + 1)")] = "refl"
    beta: Annotated[Share, Doc("share of the deviation in the weight of late updates; beta")] = 0.35
    most_stale: Annotated[Count | None, Doc("drop updates that missed more commits (default: no limit)")] = None
    smoothing: Annotated[float, Ge(0), Lt(1), Doc("weight of the past in mu; alpha")] = 0.25

    async def run(self, fed: Federation) -> None:
        chosen_in, due = dict[int, int](), dict[int, float]()
        mean_s = max(fed.estimate(client).visit_s for client in fed.clients)
        async with asyncio.TaskGroup() as tasks:
            training = Ongoing(fed, tasks)
            for number in itertools.count():
                began = fed.now
                late = sum(client in training and due[client.id] <= began + mean_s for client in fed.clients)
                count = max(1, self.clients_per_round - late) if self.adapt else self.clients_per_round
                free = [c for c in fed.clients if c not in training and fed.forecast(c, began, began) > 0]
                chances = [fed.forecast(client, began + mean_s, began + 2 * mean_s) for client in free]
                resting = [number - chosen_in.get(c.id, -math.inf) <= self.rest_rounds for c in free]
                chosen = [free[i] for i in least_available(chances, resting, count, fed.rng("selection", number))]
                for client in chosen:
                    training.begin(client)
                    chosen_in[client.id], due[client.id] = number, began + fed.estimate(client).visit_s
                needed = math.ceil(self.target * len(chosen) - 1e-9)
                enough = partial(fresh_enough, version=fed.model.version, needed=needed)
                longest_s = self.deadline_s or max((due[c.id] - began for c in chosen), default=mean_s)
                arrived = await training.arrivals(enough, began + longest_s)
                await self.step(fed, list(arrived.values()))
                mean_s = (1 - self.smoothing) * (fed.now - began) + self.smoothing * mean_s

    async def step(self, fed: Federation, updates: Sequence[Update]) -> None:
        """Commit the weighted mean of the updates that are not too old, if there are any."""
        version, most = fed.model.version, self.most_stale or math.inf
        fresh = [update for update in updates if update.base_version == version]
        late = [update for update in updates if 0 < version - update.base_version <= most]
        if not (fresh or late):
            return
        weights = [1.0] * len(fresh)
        if late:
            deviations = await fed.on_server(
                squared_deviations,
                changes=[(u.received, u.model) for u in late],
                fresh=[(u.received, u.model) for u in fresh],
            )
            missed = [version - update.base_version for update in late]
            weights += stale_weights(self.stale, missed, deviations, self.beta)
        await commit_changes(fed, fresh + late, [weight / math.fsum(weights) for weight in weights])


def fresh_enough(arrived: Mapping[int, Update], *, version: int, needed: int) -> bool:
    """Return whether enough clients have reported that began with this version of the global model."""
    return 0 < needed <= sum(update.base_version == version for update in arrived.values())
