"""Visits at once: as tasks of a TaskGroup, or at half of what a group costs for each."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, TypeVar

from fedtempo.federation import Client, ClientUnavailable

T = TypeVar("T")


async def came_back(visit: Callable[[Client], Coroutine[Any, Any, T]], clients: Iterable[Client]) -> list[T]:
    """What the visits to all clients returned, in their order, without those that ended in ClientUnavailable.

    The first other error cancels the rest and is raised once that is over, and so does a cancellation from outside.
    """
    loop = asyncio.get_running_loop()
    over: asyncio.Future[None] = loop.create_future()
    results: dict[int, T] = {}
    left = 0

    async def counted(number: int, client: Client) -> None:
        nonlocal left
        try:
            results[number] = await visit(client)
        except ClientUnavailable:
            pass
        except Exception as error:  # noqa: BLE001  it is raised where all of them are awaited
            if not over.done():
                over.set_exception(error)
        finally:
            left -= 1
            if not left and not over.done():
                over.set_result(None)

    tasks = [loop.create_task(counted(number, client)) for number, client in enumerate(clients)]
    left = len(tasks)
    if tasks:
        try:
            await over
        except BaseException:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            raise
    return [results[number] for number in range(len(tasks)) if number in results]


async def at_once(work: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """What all of it returned, in the order given."""
    async with asyncio.TaskGroup() as tasks:
        running = [tasks.create_task(each) for each in work]
    return [task.result() for task in running]
