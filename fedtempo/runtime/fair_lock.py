"""A fair lock: a client does one thing at a time, first come, first served."""

from __future__ import annotations

import asyncio
from collections import deque


class FairLock:
    """A fair lock that is acquired and released in different places (the first and last phase of a visit)."""

    __slots__ = ("_taken", "_waiting")

    def __init__(self) -> None:
        self._taken = False
        self._waiting: deque[asyncio.Future[None]] | None = None

    def take_if_free(self) -> bool:
        """Take the turn if nobody has it or waits for it; return whether it was taken."""
        if self._taken:
            return False
        self._taken = True
        return True

    def queue(self, loop: asyncio.AbstractEventLoop) -> asyncio.Future[None]:
        """Queue for a turn that is taken; return a future that is done when it comes (cancel it to leave)."""
        turn = loop.create_future()
        if self._waiting is None:
            self._waiting = deque()
        self._waiting.append(turn)
        return turn

    async def take(self) -> None:
        """Wait for the turn, in order of arrival. If cancelled, leave the queue and pass on a turn just received."""
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
        """Pass the turn to the next waiter, if there is one."""
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self._taken = False
