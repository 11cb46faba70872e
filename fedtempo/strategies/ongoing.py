"""Visits that may outlast the round in which they began."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping

from fedtempo.federation import Client, ClientUnavailable, Federation, Update, Work


class Ongoing:
    """Visits in progress, at most one per client, whose results are collected round by round."""

    def __init__(self, fed: Federation, tasks: asyncio.TaskGroup) -> None:
        self._fed, self._tasks = fed, tasks
        self._visits: dict[int, tuple[int, asyncio.Task[None]]] = {}
        self._ended: asyncio.Queue[tuple[Client, Update | None]] = asyncio.Queue()

    def __contains__(self, client: Client) -> bool:
        """Return whether a client has a visit in progress, or one whose result is not collected yet."""
        return client.id in self._visits

    def version(self, client: Client) -> int:
        """Return the version of the global model that the client's visit began with."""
        return self._visits[client.id][0]

    def begin(self, client: Client, work: Work | None = None) -> None:
        """Begin a visit with the global model."""
        self._visits[client.id] = self._fed.model.version, self._tasks.create_task(self._visit(client, work))

    def abandon(self, client: Client) -> None:
        """Cancel a client's visit, unless it has just ended."""
        visit = self._visits[client.id][1]
        if not visit.done():
            visit.cancel()
            del self._visits[client.id]

    async def arrivals(self, enough: Callable[[Mapping[int, Update]], bool], until: float) -> dict[int, Update]:
        """Return the updates that arrive until they are enough, nobody trains any more, or a time has passed.

        They are keyed by client, in the order of arrival; all of an instant arrive together. If none arrives, wait
        until that time.
        """
        arrived: dict[int, Update] = {}
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(until - self._fed.now):
                while not enough(arrived) and (self._visits or not arrived):
                    self._collect(arrived, await self._ended.get())
        await self._fed.sleep_until(self._fed.now)
        while not self._ended.empty():
            self._collect(arrived, self._ended.get_nowait())
        return arrived

    async def _visit(self, client: Client, work: Work | None) -> None:
        try:
            update = await self._fed.train(client, self._fed.model, work)
        except ClientUnavailable:
            update = None
        self._ended.put_nowait((client, update))

    def _collect(self, arrived: dict[int, Update], ended: tuple[Client, Update | None]) -> None:
        client, update = ended
        del self._visits[client.id]
        if update is not None:
            arrived[client.id] = update
