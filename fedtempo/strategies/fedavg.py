"""Parallel federated averaging, with optional momentum at the server."""

from __future__ import annotations

import itertools
from typing import Annotated

from pydantic.dataclasses import dataclass

from fedtempo.federation import Federation, Vector
from fedtempo.parts.fields import STRICT, Count, Doc, Ge, Lt, Positive
from fedtempo.strategies.rounds import train_round, uniform_sample


@dataclass(frozen=True, config=STRICT)
class FedAvg:
    """McMahan et al., Communication-Efficient Learning of Deep Networks from Decentralized Data, AISTATS 2017, Alg. 1.

    Each round the chosen clients train the global model in parallel; the mean of their models, weighted by the number
    of examples, is the next global model. With `server_momentum` the mean change serves as a gradient for SGD with
    momentum at the server: FedAvgM of Hsu et al., Measuring the Effects of Non-Identical Data Distribution, 2019, Eq.
    2.
    """

    clients_per_round: Annotated[Count | None, Doc("number of clients drawn per round, uniformly (default: all)")] = (
        None
    )
    server_momentum: Annotated[float, Ge(0), Lt(1), Doc("momentum of the server's steps; 0 means plain averaging")] = (
        0.0
    )
    server_lr: Annotated[Positive, Doc("step size at the server; 1 means plain averaging")] = 1.0

    async def run(self, fed: Federation) -> None:
        velocity = None
        for round_number in itertools.count():
            chosen = uniform_sample(fed.clients, self.clients_per_round, fed.rng("sampling", round_number))
            updates = await train_round(fed, chosen)
            if not updates:
                continue
            mean = await fed.average(updates)
            if self.server_momentum or self.server_lr != 1.0:
                mean, velocity = await fed.on_server(
                    momentum_step,
                    fed.model,
                    mean,
                    *([] if velocity is None else [velocity]),
                    statistics_from={mean: 1},
                    momentum=self.server_momentum,
                    lr=self.server_lr,
                )
            fed.commit(mean)


def momentum_step(
    model: Vector, mean: Vector, velocity: Vector | None = None, *, momentum: float, lr: float
) -> tuple[Vector, Vector]:
    """Take one step of SGD with momentum and gradient `model - mean`; return the new model and velocity."""
    gradient = model - mean
    velocity = gradient if velocity is None else momentum * velocity + gradient
    return model - lr * velocity, velocity
