"""FedDyn: a regulariser that changes from round to round makes the clients' optima agree with the global one."""

from __future__ import annotations

import itertools
from typing import Annotated

from pydantic.dataclasses import dataclass

from fedtempo.federation import Federation, Model, Vector, Work
from fedtempo.parts.fields import STRICT, Count, Doc, Positive
from fedtempo.strategies.rounds import train_round, uniform_sample


@dataclass(frozen=True, config=STRICT)
class FedDyn:
    """Acar, Zhao, Matas, Mattina, Whatmough and Saligrama, Federated Learning Based on Dynamic Regularization,
    ICLR 2021, Alg. 1.

    Each client keeps g_i, an estimate of the gradient of its loss L_i, and the server keeps h; all are 0 at first. The
    clients S of a round receive w and minimise

        L_i(v) - <g_i, v> + alpha / 2 * |v - w|^2,     then g_i <- g_i - alpha * (v_i - w).

    With m clients in all, the server then computes

        h <- h - alpha / m * sum over S of (v_i - w),     w <- (mean of v_i over S) - h / alpha.

    A visit carries no more bytes than FedAvg's.
    """

    clients_per_round: Annotated[Count | None, Doc("number of clients drawn per round, uniformly (default: all)")] = (
        None
    )
    alpha: Annotated[Positive, Doc("weight of the regulariser; the authors' example for CIFAR-10 uses 0.01")] = 0.01

    async def run(self, fed: Federation) -> None:
        work = Work(procedure="feddyn", proximal=self.alpha)
        state: Model | float = 0.0
        for round_number in itertools.count():
            chosen = uniform_sample(fed.clients, self.clients_per_round, fed.rng("sampling", round_number))
            updates = await train_round(fed, chosen, work)
            if not updates:
                continue
            mean = await fed.average(updates, [1.0] * len(updates))
            stepped, state = await fed.on_server(
                dynamic_step,
                fed.model,
                mean,
                statistics_from={mean: 1},
                state=state,
                share=len(updates) / len(fed.clients),
                alpha=self.alpha,
            )
            fed.commit(stepped)


def dynamic_step(
    model: Vector, mean: Vector, *, state: Vector | float, share: float, alpha: float
) -> tuple[Vector, Vector]:
    """Return the next model and h. share: |S| / m; state: h, 0 at first."""
    state = state - alpha * share * (mean - model)
    return mean - state / alpha, state
