"""FADAS: FedBuff whose mean change is the gradient of AMSGrad at the server, with shorter steps after long delays."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Annotated, Literal

import numpy as np
from pydantic.dataclasses import dataclass

from fedtempo.federation import Federation, Model, Update, Vector
from fedtempo.parts.fields import STRICT, Count, Doc, Ge, Lt, Positive
from fedtempo.strategies.asynchronous import ClientsAtOnce, Reach, fastest, train_always

Decay = Annotated[float, Ge(0), Lt(1)]


@dataclass(frozen=True, config=STRICT)
class FADAS:
    """Wang, Wang, Lu and Chen, FADAS: Towards Federated Adaptive Asynchronous Optimization, ICML 2024.

    When M changes have arrived, with mean D,

        m <- beta1 * m + (1 - beta1) * D,       v <- beta2 * v + (1 - beta2) * D^2,
        peak <- max(peak, v),                   w <- w + step * m / (sqrt(peak) + epsilon),

    per coordinate, from m = v = peak = 0 (the authors' code also corrects m and v for this start, as Adam does). If the
    oldest of the M changes missed x > tau_c commits, the step is server_lr / x (`delay = "divide"`, the authors' code)
    or min(server_lr, 1 / x) ("cap"); otherwise, and with "none" (FADAS without delay adaptation), it is server_lr.
    """

    clients_at_once: ClientsAtOnce = None
    buffer: Annotated[Count, Doc("number of changes per commit; M in the paper")] = 5
    server_lr: Annotated[Positive, Doc("step size at the server; eta in the paper")] = 0.001
    beta1: Annotated[Decay, Doc("decay of the mean change")] = 0.9
    beta2: Annotated[Decay, Doc("decay of the mean squared change")] = 0.99
    epsilon: Annotated[Positive, Doc("added to the root of the mean squared change")] = 1e-8
    delay: Annotated[
        Literal["divide", "cap", "none"],
        Doc("step after a long delay of x commits: server_lr / x, at most 1 / x, or unchanged"),
    ] = "divide"
    tau_c: Annotated[Count, Doc("number of commits that changes may miss before the step is shortened")] = 1
    reach: Reach = 1.0

    async def run(self, fed: Federation) -> None:
        turn = asyncio.Lock()
        collected: list[Update] = []
        moments: tuple[Model | float, ...] = (0.0, 0.0, 0.0)

        async def collect(update: Update) -> None:
            nonlocal moments
            collected.append(update)
            if len(collected) < self.buffer:
                return
            taken = collected.copy()
            collected.clear()
            async with turn:  # the global model must not change between reading and committing it
                missed = max(fed.model.version - update.base_version for update in taken)
                stepped, *latest = await fed.on_server(
                    amsgrad_step,
                    fed.model,
                    statistics_from={update.model: 1 for update in taken},
                    starts=[update.received for update in taken],
                    ends=[update.model for update in taken],
                    moments=moments,
                    betas=(self.beta1, self.beta2),
                    epsilon=self.epsilon,
                    lr=self.step(missed),
                )
                moments = tuple(latest)
                fed.commit(stepped, staleness=missed)

        await train_always(fed, self.clients_at_once, collect, among=fastest(fed, self.reach))

    def step(self, missed: int) -> float:
        """Return the step size for a buffer whose oldest change missed this number of commits."""
        if self.delay == "none" or missed <= self.tau_c:
            return self.server_lr
        return self.server_lr / missed if self.delay == "divide" else min(self.server_lr, 1 / missed)


def amsgrad_step(
    model: Vector,
    *,
    starts: Sequence[Vector],
    ends: Sequence[Vector],
    moments: Sequence[Vector | float],
    betas: tuple[float, float],
    epsilon: float,
    lr: float,
) -> tuple[Vector, Vector, Vector, Vector]:
    """Return the model after a step along the mean change, and the new moments: first, second, greatest second."""
    change = sum(end - start for start, end in zip(starts, ends)) / len(ends)
    first = betas[0] * moments[0] + (1 - betas[0]) * change
    second = betas[1] * moments[1] + (1 - betas[1]) * change**2
    peak = np.maximum(moments[2], second)
    return model + lr * first / (np.sqrt(peak) + epsilon), first, second, peak
