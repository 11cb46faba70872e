"""Nodes that come while a run goes on are asked who they are."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from fedtempo.deploy.live.loop import RunLoop
from fedtempo.deploy.live.messages import Answer, Call
from fedtempo.deploy.live.operations import Outside
from fedtempo.deploy.live.roster import Description, Members, read_description

DESCRIBE_S = 60.0
"""Seconds for which a new node may take to say who it is."""
SILENT_S = 20.0
"""After so many the log tells of it."""

log = logging.getLogger("fedtempo.run")


def silent(node: int, seconds: float) -> str:
    """What there is to say of a node that does not say who it is."""
    return f"node {node} is there and has not said who it is for {seconds:g} s: it asks for nothing, or is busy"


class Reception:
    """Looks after one run's members. outside: where nodes are asked; it is there before the first look."""

    outside: Outside

    def __init__(self, loop: RunLoop, members: Members) -> None:
        self._loop, self._members = loop, members
        self._tasks: set[asyncio.Task[None]] = set()
        self._asking: set[int] = set()
        self._warned: set[int] = set()

    def look(self, nodes: Sequence[int]) -> None:
        """These nodes are there now: ask those that are new who they are."""
        for node in self._members.seen(nodes):
            if node not in self._asking:
                self._asking.add(node)
                task = self._loop.create_task(self._introduce(node))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    def close(self) -> None:
        for task in self._tasks:
            task.cancel()

    async def _introduce(self, node: int) -> None:
        asked = self.outside.call(Call(node, "describe", {}, ttl_s=DESCRIBE_S, check=read_description))
        try:
            await asyncio.wait([asked.future], timeout=SILENT_S)
            if not asked.future.done():
                self._warn(node, silent(node, SILENT_S))
                await asyncio.wait([asked.future], timeout=DESCRIBE_S - SILENT_S)
            if not asked.future.done() or asked.future.exception() is not None:
                return
            answer: Answer = asked.future.result()
            if answer.sent is not None:  # else it is no client of ours
                former = self._members.introduce(node, Description(**answer.sent))
                if former is not None:
                    self.outside.hang_up(former)
            elif (why := answer.flaw or answer.refusal) is not None:
                self._warn(node, f"node {node} is not taken up: {why}")
        finally:
            self._asking.discard(node)

    def _warn(self, node: int, line: str) -> None:
        """Once of a node; not again while a resumed run happens again."""
        if self._loop.live and node not in self._warned:
            self._warned.add(node)
            log.warning("%s", line)
