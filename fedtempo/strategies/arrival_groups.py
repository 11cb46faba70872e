"""Groups of clients that are to arrive together, as they form, close and time out (FedCompass)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from fedtempo.federation import Client, Federation, Update
from fedtempo.strategies.planning.arrivals import Closing, joined, steps_of_new_group


@dataclass(eq=False)
class Group:
    """Clients that are to arrive together.

    expected_s: when they are to arrive. latest_s: when the server stops waiting. members: ids of its clients. training:
    those that have not arrived yet. over: set when the others may go on.
    """

    expected_s: float
    latest_s: float
    members: set[int] = field(default_factory=set)
    training: set[int] = field(default_factory=set)
    arrived: list[Update] = field(default_factory=list)
    over: asyncio.Event = field(default_factory=asyncio.Event)


class ArrivalGroups:
    """The open groups of a run.

    A group closes when all of its clients have arrived or failed, or at its latest time. Then the results that have
    arrived, and those that came too late for their group since the last commit, are committed.
    """

    def __init__(
        self,
        fed: Federation,
        tasks: asyncio.TaskGroup,
        commit: Callable[[Sequence[Update]], Awaitable[None]],
        least: int,
        most: int,
        latest: float,
    ) -> None:
        """least, most: limits of local steps. latest: longest wait for a group relative to the expected one."""
        self._fed, self._tasks, self._commit = fed, tasks, commit
        self._least, self._most, self._latest = least, most, latest
        self._open: list[Group] = []
        self._late: list[Update] = []
        self._step_s: dict[int, float] = {}
        self._next: dict[int, tuple[Group, int]] = {}

    def observe(self, client: Client, step_s: float, momentum: float) -> None:
        """Note a client's time per step; `momentum` is the weight of this one if there is an earlier one."""
        known = self._step_s.get(client.id, step_s)
        self._step_s[client.id] = (1 - momentum) * known + momentum * step_s

    def assign(self, client: Client) -> tuple[Group, int]:
        """Let a client join or found a group; return the group and the client's local steps."""
        now, step_s = self._fed.now, self._step_s[client.id]
        found = joined([group.expected_s for group in self._open], now, step_s, self._least, self._most)
        if found is not None:
            group, steps = self._open[found[0]], found[1]
        else:
            closings = [
                Closing(group.latest_s, min(map(self._step_s.__getitem__, group.members))) for group in self._open
            ]
            steps = steps_of_new_group(closings, now, step_s, self._least, self._most)
            group = Group(now + steps * step_s, now + self._latest * steps * step_s)
            self._open.append(group)
            self._tasks.create_task(self._time_out(group))
        group.members.add(client.id)
        group.training.add(client.id)
        return group, steps

    async def arrive(self, update: Update, group: Group) -> tuple[Group, int]:
        """Take a result; return the client's next group and steps, when it may go on: at once if it is late."""
        client = update.client
        if group not in self._open:
            self._late.append(update)
            return self.assign(client)
        group.arrived.append(update)
        await self.leave(client, group)
        await group.over.wait()
        return self._next.pop(client.id)

    async def leave(self, client: Client, group: Group | None) -> None:
        """Stop waiting for a client that has arrived or failed."""
        if group is None:
            return
        group.training.discard(client.id)
        if not group.training and group in self._open:
            await self._close(group)

    async def _time_out(self, group: Group) -> None:
        await self._fed.sleep_until(group.latest_s)
        await self._fed.sleep_until(self._fed.now)  # results of this instant are on time
        if group in self._open:
            await self._close(group)

    async def _close(self, group: Group) -> None:
        self._open.remove(group)
        if group.arrived:
            updates, self._late = [*self._late, *group.arrived], []
            await self._commit(updates)
            for update in sorted(group.arrived, key=lambda update: self._step_s[update.client.id]):
                self._next[update.client.id] = self.assign(update.client)
        group.over.set()
