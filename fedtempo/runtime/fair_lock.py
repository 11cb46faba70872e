"""Whose turn it is: a client does one thing at a time, first come, first served."""

from __future__ import annotations

import asyncio
from collections import deque


class Turns:
    """A fair lock that is taken and given back in different places (a visit's first and last phase)."""

    __slots__ = ("_taken", "_waiting")

    def __init__(self) -> None:
        self._taken = False
        self._waiting: deque[asyncio.Future[None]] | None = None

    def take_if_free(self) -> bool:
        """Take the turn where nobody has it or waits for it; says whether that was so."""
        if self._taken:
            return False
        self._taken = True
        return True

    def queue(self, loop: asyncio.AbstractEventLoop) -> asyncio.Future[None]:
        """Queue for a turn that somebody has. The future is done when it comes; cancel it to leave the queue."""
        turn = loop.create_future()
        if self._waiting is None:
            self._waiting = deque()
        self._waiting.append(turn)
        return turn

    async def take(self) -> None:
        """Wait for all who came before; cancellation gives up the place, and passes the turn on if it had just come."""
        if not self.take_if_free():
            await self.taken(self.queue(asyncio.get_running_loop()))

    async def taken(self, turn: asyncio.Future[None]) -> None:
        """Wait for a turn of `queue`, as `take` does."""
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.give()
            raise

    def give(self) -> None:
        """Pass the turn to the next who still waits."""
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self._taken = False
