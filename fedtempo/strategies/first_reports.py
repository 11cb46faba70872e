"""Rounds that end before all of their clients have reported."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from fedtempo.federation import Client, ClientUnavailable, Federation, Model, Update, Work


async def first_reports(
    fed: Federation,
    clients: Sequence[Client],
    model: Model,
    work: Work | Callable[[Client], Work] | None,
    enough: int,
    limit_s: float | None,
) -> list[Update]:
    """Return the first `enough` updates within `limit_s`, in the order of `clients`; cancel other visits."""
    expected_s = max(fed.estimate(client).visit_s for client in clients)
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
