"""Parallel visits: ordered results, lost clients left out, and errors or cancellation that end all visits."""

import asyncio

import pytest

from fedtempo.federation import Client, ClientUnavailable
from fedtempo.runtime import clock
from fedtempo.runtime.gather import came_back

CLIENTS = [Client(i, 10) for i in range(4)]


def test_results_come_in_the_requested_order_without_lost_clients() -> None:
    async def visit(client: Client) -> int:
        await asyncio.sleep(10.0 - client.id)
        if client.id == 2:
            raise ClientUnavailable(client, "it left")
        return client.id

    async def main() -> tuple[list[int], float]:
        return await came_back(visit, CLIENTS), asyncio.get_running_loop().time()

    assert clock.run(main()) == ([0, 1, 3], 10.0)
    assert clock.run(came_back(visit, [])) == []


def test_the_first_error_cancels_the_others_immediately() -> None:
    ended: list[tuple[int, float]] = []

    async def visit(client: Client) -> None:
        try:
            await asyncio.sleep(1.0 + client.id)
            raise ValueError(f"client {client.id}")
        finally:
            ended.append((client.id, asyncio.get_running_loop().time()))

    async def main() -> None:
        with pytest.raises(ValueError, match="client 0"):
            await came_back(visit, CLIENTS)

    clock.run(main())
    assert ended == [(0, 1.0), (1, 1.0), (2, 1.0), (3, 1.0)]


def test_cancellation_from_outside_ends_all_visits_including_those_not_yet_begun() -> None:
    begun: list[int] = []

    async def visit(client: Client) -> None:
        begun.append(client.id)
        await asyncio.sleep(100.0)

    async def main() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(5.0):
                await came_back(visit, CLIENTS)
        task = asyncio.create_task(came_back(visit, CLIENTS))
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
        assert len(asyncio.all_tasks()) == 1

    clock.run(main())
    assert begun == [0, 1, 2, 3]
