"""SCAFFOLD: control variates at the server and at each client correct the drift of local training."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic.dataclasses import dataclass

from fedtempo.federation import Federation, Vector, Work
from fedtempo.parts.fields import STRICT, Count, Doc, Positive
from fedtempo.strategies.rounds import train_round, uniform_sample

_PROCEDURES = {"gradient": "scaffold-gradient", "steps": "scaffold"}


@dataclass(frozen=True, config=STRICT)
class Scaffold:
    """Karimireddy et al., SCAFFOLD: Stochastic Controlled Averaging for Federated Learning, ICML 2020, Alg. 1.

    Client i keeps a control variate c_i, an estimate of its own gradient, and the server has their mean c; all begin at
    0. A client of the round's S receives x and c, makes K steps from y_i = x, and replaces c_i:

        y_i <- y_i - lr * (g_i(y_i) - c_i + c),
        c_i+ = g_i(x) (option I), or c_i - c + (x - y_i) / (K * lr) (option II),
        x <- x + server_lr * mean over S of (y_i - x),     c <- c + (1 / N) * sum over S of (c_i+ - c_i).

    A visit sends c down and the change of c_i up, besides the model: twice FedAvg's bytes. The clients of a round have
    equal weights, as in the paper.
    """

    clients_per_round: Annotated[Count | None, Doc("number of clients drawn per round, uniformly (default: all)")] = (
        None
    )
    server_lr: Annotated[Positive, Doc("step size at the server, eta_g; 1 means plain averaging")] = 1.0
    control: Annotated[
        Literal["steps", "gradient"],
        Doc(
            "a client's new control variate: 'steps', the mean gradient of its local steps (option II), or 'gradient', "
            "its gradient at the received model, which takes another pass over its examples (option I)"
        ),
    ] = "steps"

    async def run(self, fed: Federation) -> None:
        control = await fed.on_server(zeros, fed.model)
        for round_number in itertools.count():
            chosen = uniform_sample(fed.clients, self.clients_per_round, fed.rng("sampling", round_number))
            updates = await train_round(
                fed, chosen, Work(procedure=_PROCEDURES[self.control], payload=(control,), returns=1)
            )
            if not updates:
                continue
            mean = await fed.average(updates, [1.0] * len(updates))
            if self.server_lr != 1.0:
                mean = await fed.on_server(step, fed.model, mean, lr=self.server_lr, statistics_from={mean: 1})
            changes = [update.sent[0] for update in updates]
            control = await fed.on_server(add_changes, control, changes=changes, n_clients=len(fed.clients))
            fed.commit(mean)


def zeros(model: Vector) -> Vector:
    """Return a vector of zeros."""
    return model * 0


def step(model: Vector, mean: Vector, *, lr: float) -> Vector:
    """Return x + eta_g * (mean of y_i - x)."""
    return model + lr * (mean - model)


def add_changes(control: Vector, *, changes: Sequence[Vector], n_clients: int) -> Vector:
    """Return c + (sum of the clients' changes of c_i) / N."""
    total = changes[0]
    for change in changes[1:]:
        total = total + change
    return control + total / n_clients
