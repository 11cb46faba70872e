"""When groups are formed: whenever a client is released, or at a steady pace."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from fedtempo.federation import Federation
from fedtempo.strategies.planning.hopping import Group, HoppingSchedule

Life = Callable[[Group, Callable[[], None]], Coroutine[Any, Any, None]]
"""A group's life; its second argument must be called whenever one of the group's clients is released."""


async def keep_forming(fed: Federation, schedule: HoppingSchedule, life: Life) -> None:
    """Form groups until the horizon and run each group's `life`.

    With the exact planner, each client starts a group at the beginning if it can (FedHusky, step 2), and every release
    is an attempt to form another (step 4). A paced schedule makes one attempt per interval.
    """
    async with asyncio.TaskGroup() as tasks:

        def attempt(head: int | None = None) -> None:
            group = schedule.form(fed.now, head)
            if group is not None:
                tasks.create_task(life(group, released), name=f"group {group.number}")

        async def attempt_later() -> None:
            while not schedule.alive and (moment := schedule.next_chance(fed.now)) < fed.horizon:
                await fed.sleep_until(moment)
                attempt()

        def released() -> None:
            if not schedule.paced:
                attempt()
                if not schedule.alive:  # no client will be released any more
                    tasks.create_task(attempt_later(), name="next attempt")

        if schedule.paced:
            while fed.now < fed.horizon:
                attempt()
                await fed.sleep_until(fed.now + schedule.interval_s)
        else:
            for client in schedule.clients:
                attempt(head=client)
