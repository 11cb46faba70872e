"""FAVAS: the server polls a few clients, and divides what each has changed by the number of steps to expect of it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic.dataclasses import dataclass

from fedtempo.federation import Federation, Vector
from fedtempo.parts.fields import STRICT, Doc
from fedtempo.strategies.planning.polls import Expected
from fedtempo.strategies.polling import PolledPerRound, Polling, RoundSeconds

_NEVER = 1e-6


@dataclass(frozen=True, config=STRICT)
class FAVAS:
    """Leconte, Nguyen and Moulines, FAVAS: Federated AVeraging with ASynchronous clients, 2023 (arXiv 2305.16099);
    published as FAVANO: Federated Averaging with Asynchronous Nodes, ICASSP 2024.

    All clients receive the model w and train by themselves, at most K local steps each. In every round the server polls
    s clients, drawn uniformly, and waits for none of them. Client i, which began with b_i and has w_i after E_i steps,
    counts as b_i + (w_i - b_i) / alpha_i, and

        w <- (w + sum of these) / (s + 1),

    which the s clients receive, to begin anew. With alpha_i = the mean of E_i, or the probability of E_i > 0 times E_i,
    a change divided by alpha_i is one step on average, so fast clients do not count more than slow ones. K is the local
    work that `[training]` configures, a round lasts `round_s`, and s counts the clients that answer.
    """

    clients_per_round: PolledPerRound = 10
    round_s: RoundSeconds = None
    divide_by: Annotated[
        Literal["expected", "taken"],
        Doc("alpha: the expected number of steps, or the steps taken times the probability of at least one"),
    ] = "expected"

    async def run(self, fed: Federation) -> None:
        async with asyncio.TaskGroup() as tasks:
            polling = Polling(fed, tasks, self.clients_per_round, self.round_s)
            while True:
                answers = await polling.answers()
                if not answers:
                    continue
                ends = [answer.model for answer in answers]
                mean = await fed.on_server(
                    unbiased_mean,
                    fed.model,
                    starts=[answer.start for answer in answers],
                    ends=ends,
                    divisors=[self.divisor(answer.steps, polling.expected(answer.client)) for answer in answers],
                    statistics_from={fed.model: 1.0, **dict.fromkeys(ends, 1.0)},
                )
                oldest = min(answer.start.version for answer in answers)
                fed.commit(await fed.server_step(mean), staleness=fed.model.version - oldest)
                for answer in answers:
                    polling.begin(answer.client, fed.model)

    def divisor(self, steps: int, expected: Expected) -> float:
        """Return alpha for a client that has taken these steps; without steps it changed nothing, and alpha is 1.

        Steps that could not be expected (with a probability below `_NEVER`) count as if they were certain.
        """
        if not steps:
            return 1.0
        alpha = expected.steps if self.divide_by == "expected" else expected.some * steps
        return alpha if expected.some >= _NEVER else float(steps)


def unbiased_mean(
    model: Vector, *, starts: Sequence[Vector], ends: Sequence[Vector], divisors: Sequence[float]
) -> Vector:
    """Return the mean of the model and of start + (end - start) / divisor for each client."""
    total = model
    for start, end, divisor in zip(starts, ends, divisors):
        total = total + (start + (end - start) / divisor)
    return total / (len(ends) + 1)
