"""Training without rounds: so many clients train at any time, and the server takes each result as it arrives."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Any

from fedtempo.federation import Client, ClientUnavailable, Federation, Update, Work
from fedtempo.parts.fields import Count, Doc

ClientsAtOnce = Annotated[Count | None, Doc("clients that train at any time; all where not given")]


async def train_always(
    fed: Federation,
    clients_at_once: int | None,
    arrived: Callable[[Update], Awaitable[None]],
    work: Work | None = None,
    *,
    among: Sequence[Client] | None = None,
    prefer: Callable[[Client], Any] | None = None,
    begins: Callable[[Client], None] = lambda client: None,
) -> None:
    """Keep clients training for ever, each on the global model of its start; `arrived` takes each result.

    Whenever a client has ended, one of those that do not train is drawn uniformly, of those for which `prefer` is
    smallest. Results of the same instant all arrive before the next client starts. A visit that fails costs its
    expected time. among: the clients that may train, by default all. begins: told of each visit as it begins.
    """
    idle = list(fed.clients if among is None else among)
    rng = fed.rng("next client")

    def draw() -> Client:
        if prefer is None:  # at a cost that does not grow with the number of clients
            position = int(rng.integers(len(idle)))
        else:
            preferences = list(map(prefer, idle))
            least = min(preferences)
            best = [position for position, preference in enumerate(preferences) if preference == least]
            position = best[int(rng.integers(len(best)))]
        idle[position], idle[-1] = idle[-1], idle[position]
        return idle.pop()

    async def keep_one_training() -> None:
        while True:
            client, asked = draw(), fed.now
            begins(client)
            try:
                update = await fed.train(client, fed.model, work)
            except ClientUnavailable:
                await fed.sleep_until(asked + fed.estimate(client).visit_s)
            else:
                await arrived(update)
            idle.append(client)
            await fed.sleep_until(fed.now)

    async with asyncio.TaskGroup() as tasks:
        for _ in range(min(clients_at_once or len(idle), len(idle))):
            tasks.create_task(keep_one_training())
