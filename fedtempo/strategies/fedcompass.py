"""FedCompass: clients get as many local steps as let groups of them arrive together."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic.dataclasses import dataclass

from fedtempo.federation import Client, ClientUnavailable, Federation, Update, Work
from fedtempo.parts.fields import STRICT, Count, Doc, Ge, Interval, NonNegative, Positive
from fedtempo.strategies.arrival_groups import ArrivalGroups, Group
from fedtempo.strategies.changes import commit_changes
from fedtempo.strategies.planning.staleness import polynomial


@dataclass(frozen=True, config=STRICT)
class FedCompass:
    """Li et al., FedCompass: Efficient Cross-Silo Federated Learning on Heterogeneous Client Devices using a Computing
    Power Aware Scheduler, ICLR 2024, as in the authors' program.

    Client i takes S_i seconds per local step, transfers included. At first all make Q_max steps, and each result moves
    the global model by itself. After a result the client joins the group that it can reach by its expected arrival T_a
    with the most steps between Q_min and Q_max; if there is none, it founds a group (`planning.arrivals`). A group's
    results are collected until all have arrived, at most until T_max = start + lambda * (T_a - start). Then

        w <- w + sum of alpha * (1 + missed)^(-a) * p_i * (trained - received),

    over the group's results and those that came too late for theirs, and the group's clients, fastest first, join or
    found groups. A client that is late begins again at once.
    """

    most_steps: Annotated[
        Count | None, Doc("Q_max, largest number of local steps (default: those of the longest configured visit)")
    ] = None
    least_share: Annotated[float, Interval(gt=0, le=1), Doc("Q_min as a share of Q_max; 20 of 100 in the program")] = (
        0.2
    )
    latest: Annotated[float, Ge(1), Doc("a group's longest wait relative to the expected one; lambda")] = 1.2
    alpha: Annotated[Positive, Doc("weight of a fresh change")] = 0.9
    exponent: Annotated[NonNegative, Doc("a change that missed x commits has weight (1 + x)^-exponent; a")] = 0.5
    momentum: Annotated[float, Interval(gt=0, le=1), Doc("weight of the last visit in a client's time per step")] = 0.9
    weights: Annotated[
        Literal["equal", "examples"], Doc("p_i: 1 / number of clients, or a client's share of all examples")
    ] = "equal"

    async def run(self, fed: Federation) -> None:
        most = self.most_steps or max(map(fed.steps, fed.clients))
        total = sum(client.num_examples for client in fed.clients)
        turn = asyncio.Lock()

        async def commit(updates: Sequence[Update]) -> None:
            async with turn:  # the global model must not change between reading and committing it
                missed = [fed.model.version - update.base_version for update in updates]
                shares = [
                    u.num_examples / total if self.weights == "examples" else 1 / len(fed.clients) for u in updates
                ]
                weights = [self.alpha * polynomial(x, self.exponent) * share for x, share in zip(missed, shares)]
                await commit_changes(fed, updates, weights)

        async def serve(client: Client) -> None:
            group: Group | None = None
            steps = most
            while True:
                began = fed.now
                try:
                    update = await fed.train(client, fed.model, Work(steps=steps))
                except ClientUnavailable:
                    await groups.leave(client, group)
                    await fed.sleep_until(began + fed.estimate(client).visit_s)
                    if group is not None:
                        group, steps = groups.assign(client)
                    continue
                groups.observe(client, (fed.now - began) / steps, self.momentum)
                if group is None:
                    await commit([update])
                    group, steps = groups.assign(client)
                else:
                    group, steps = await groups.arrive(update, group)

        async with asyncio.TaskGroup() as tasks:
            least = max(1, round(self.least_share * most))
            groups = ArrivalGroups(fed, tasks, commit, least, most, self.latest)
            for client in fed.clients:
                tasks.create_task(serve(client))
