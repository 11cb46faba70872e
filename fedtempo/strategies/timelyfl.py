"""TimelyFL: rounds as long as the faster clients need, with as much local work for each client as fits."""

from __future__ import annotations

import itertools
import math
from functools import partial
from typing import Annotated, Literal

from pydantic.dataclasses import dataclass

from fedtempo.federation import Client, Federation, Work
from fedtempo.parts.fields import STRICT, Count, Doc, Gt, Le
from fedtempo.strategies.planning.workload import steps_for
from fedtempo.strategies.rounds import train_round, uniform_sample


@dataclass(frozen=True, config=STRICT)
class TimelyFL:
    """Zhang, Gao, Lee, Zhang and Avestimehr, TimelyFL: Heterogeneity-aware Asynchronous Federated Learning with
    Adaptive Partial Training, CVPR Workshops 2023 (arXiv 2304.06947).

    A round lasts T, the k-th shortest expected visit of its n clients, and each client gets the work that fits: with
    t_cmp for its configured local work and t_com for both transfers,

        floor((T - t_com) / t_cmp) times this work if that is at least 1,
        otherwise the part (T - t_com) / t_cmp of it.

    So all n report in time and with the current model. In the paper a client that gets a part trains the last layers of
    the model; here it takes a part of its local steps, at least one. The mean of the models, weighted by examples, is
    the next global model.
    """

    clients_per_round: Annotated[
        Count | None, Doc("number of clients drawn per round, uniformly; n in the paper (default: all)")
    ] = None
    target: Annotated[
        float, Gt(0), Le(1), Doc("share of a round's clients whose expected visits the round has time for; k / n")
    ] = 0.5
    most_repeats: Annotated[
        Count | None, Doc("how many times a fast client does its configured work at most (default: no limit)")
    ] = None
    late: Annotated[
        Literal["wait", "drop"], Doc("whether the server waits for clients that need longer than T, or drops them")
    ] = "wait"

    async def run(self, fed: Federation) -> None:
        for round_number in itertools.count():
            chosen = uniform_sample(fed.clients, self.clients_per_round, fed.rng("sampling", round_number))
            visits_s = sorted(fed.estimate(client).visit_s for client in chosen)
            round_s = visits_s[math.ceil(self.target * len(chosen) - 1e-9) - 1]
            limit_s = round_s if self.late == "drop" else None
            if updates := await train_round(fed, chosen, partial(self.work, fed, round_s), limit_s=limit_s):
                fed.commit(await fed.average(updates))

    def work(self, fed: Federation, round_s: float, client: Client) -> Work:
        """Return the work of a client in a round of this duration."""
        times, steps = fed.estimate(client), fed.steps(client)
        fit = steps_for(round_s - times.download_s - times.upload_s, times.compute_s, steps)
        return Work(steps=fit if self.most_repeats is None else min(fit, self.most_repeats * steps))
