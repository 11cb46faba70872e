"""Training in rounds: clients train the global model in parallel, and the server waits for all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import numpy as np

from fedtempo.federation import Client, ClientUnavailable, Federation, Update, Work


async def train_round(
    fed: Federation,
    clients: Sequence[Client],
    work: Work | Callable[[Client], Work] | None = None,
    *,
    enough: int | None = None,
    limit_s: float | None = None,
) -> list[Update]:
    """Train the global model at the given clients and return the updates of those that reported, in the given order.

    work: the same for all clients, or a function of the client. enough: the round ends as soon as this many have
    reported (default: when all have, or have failed). limit_s: the round ends after this time, seconds. Visits that are
    in progress then are cancelled. If no client reports and there is no limit, the round takes its expected time, since
    the server cannot know earlier.
    """
    if callable(work) or limit_s is not None or (enough is not None and enough < len(clients)):
        return await _first_reports(fed, clients, work, enough or len(clients), limit_s)
    updates = await fed.train_all(clients, fed.model, work)
    if not updates:
        await fed.sleep_until(fed.now + max(fed.estimate(client).visit_s for client in clients))
    return updates


async def _first_reports(
    fed: Federation,
    clients: Sequence[Client],
    work: Work | Callable[[Client], Work] | None,
    enough: int,
    limit_s: float | None,
) -> list[Update]:
    """Return the first `enough` updates within `limit_s`, in the order of `clients`; cancel other visits."""
    model, expected_s = fed.model, max(fed.estimate(client).visit_s for client in clients)
    end_s = fed.now + (expected_s if limit_s is None else limit_s)
    arrived: dict[int, Update] = {}
    ended = asyncio.Event()

    async def visit(client: Client) -> None:
        try:
            update = await fed.train(client, model, work(client) if callable(work) else work)
        except ClientUnavailable:
            return
        if len(arrived) < enough:
            arrived[client.id] = update
        if len(arrived) == enough:
            ended.set()

    async def visit_all() -> None:
        async with asyncio.TaskGroup() as visits:
            for client in clients:
                visits.create_task(visit(client))
        if not arrived:
            await fed.sleep_until(end_s)
        ended.set()

    async def wait_until_limit() -> None:
        await fed.sleep_until(end_s)
        ended.set()

    async with asyncio.TaskGroup() as tasks:
        running = [tasks.create_task(visit_all())]
        if limit_s is not None:
            running.append(tasks.create_task(wait_until_limit()))
        await ended.wait()
        for task in running:
            task.cancel()
    return [arrived[client.id] for client in clients if client.id in arrived]


def uniform_sample(clients: Sequence[Client], count: int | None, rng: np.random.Generator) -> list[Client]:
    """Draw `count` different clients uniformly, in ascending order; return all if `count` is None or too large."""
    if count is None or count >= len(clients):
        return list(clients)
    return [clients[i] for i in sorted(rng.choice(len(clients), size=count, replace=False))]
