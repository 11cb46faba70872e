"""Parallel federated averaging, with optional momentum at the server."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Annotated

import numpy as np
from pydantic.dataclasses import dataclass

from fedtempo.federation import Client, Federation, Vector
from fedtempo.fields import STRICT, Count, Doc, Ge, Lt, Positive


@dataclass(frozen=True, config=STRICT)
class FedAvg:
    """McMahan et al., Communication-Efficient Learning of Deep Networks from Decentralized Data, AISTATS 2017, Alg. 1.

    Each round the chosen clients train the global model at once; the mean of their models, weighted by examples, is
    the next global model. With `server_momentum` the mean change is a gradient for SGD with momentum at the server:
    FedAvgM of Hsu et al., Measuring the Effects of Non-Identical Data Distribution, 2019, Eq. 2.
    """

    clients_per_round: Annotated[Count | None, Doc("clients chosen each round, uniformly; all where not given")] = None
    server_momentum: Annotated[float, Ge(0), Lt(1), Doc("momentum of the server's steps; 0 is plain averaging")] = 0.0
    server_lr: Annotated[Positive, Doc("step size at the server; 1 is plain averaging")] = 1.0

    async def run(self, fed: Federation) -> None:
        velocity = None
        for round_number in itertools.count():
            chosen = uniform_sample(fed.clients, self.clients_per_round, fed.rng("sampling", round_number))
            updates = await fed.train_all(chosen, fed.model)
            if not updates:
                await fed.sleep_until(fed.now + max(fed.estimate(client).visit_s for client in chosen))
                continue
            mean = await fed.average(updates)
            if self.server_momentum or self.server_lr != 1.0:
                mean, velocity = await fed.on_server(
                    momentum_step,
                    fed.model,
                    mean,
                    *([] if velocity is None else [velocity]),
                    momentum=self.server_momentum,
                    lr=self.server_lr,
                )
            fed.commit(mean)


def momentum_step(
    model: Vector, mean: Vector, velocity: Vector | None = None, *, momentum: float, lr: float
) -> tuple[Vector, Vector]:
    """One step of SGD with momentum whose gradient is `model - mean`; returns the new model and velocity."""
    gradient = model - mean
    velocity = gradient if velocity is None else momentum * velocity + gradient
    return model - lr * velocity, velocity


def uniform_sample(clients: Sequence[Client], count: int | None, rng: np.random.Generator) -> list[Client]:
    """`count` different clients, uniformly, in ascending order; all of them where `count` is None or larger."""
    if count is None or count >= len(clients):
        return list(clients)
    return [clients[i] for i in sorted(rng.choice(len(clients), size=count, replace=False))]
