"""Parallel coroutines: visits, of which some may be lost, at half the cost of a TaskGroup, and others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, TypeVar

from fedtempo.federation import Client, ClientUnavailable

T = TypeVar("T")


async def came_back(visit: Callable[[Client], Coroutine[Any, Any, T]], clients: Iterable[Client]) -> list[T]:
    """Visit all clients in parallel; return the results in their order, without visits that raised ClientUnavailable.

    The first other error, or a cancellation from outside, cancels the rest and is raised once these have ended.
    """
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()
    results: dict[int, T] = {}
    left = 0

    async def counted(number: int, client: Client) -> None:
        nonlocal left
        try:
            results[number] = await visit(client)
        except ClientUnavailable:
            pass
        except Exception as error:  # noqa: BLE001  raised by the caller's await
            if not ended.done():
                ended.set_exception(error)
        finally:
            left -= 1
            if not left and not ended.done():
                ended.set_result(None)

    tasks = [loop.create_task(counted(number, client)) for number, client in enumerate(clients)]
    left = len(tasks)
    if tasks:
        try:
            await ended
        except BaseException:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            raise
    return [results[number] for number in range(len(tasks)) if number in results]


async def at_once(coroutines: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Run coroutines in parallel; return their results in the order given."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(coroutine) for coroutine in coroutines]
    return [task.result() for task in tasks]
