"""Training without rounds: a fixed number of clients train at any time, and each result is used as it arrives."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Any

from annotated_types import Gt, Le

from fedtempo.federation import Client, ClientUnavailable, Federation, Model, Update, Work
from fedtempo.parts.fields import Count, Doc, Positive

ClientsAtOnce = Annotated[Count | None, Doc("clients that train at the same time (default: all)")]
ServerStep = Annotated[
    Positive | None, Doc("step size at the server for each result (default: 1 / number of clients that train)")
]
Reach = Annotated[float, Gt(0), Le(1), Doc("share of the clients that train, those with the shortest expected visits")]


def fastest(fed: Federation, share: float) -> list[Client] | None:
    """Return the clients with the shortest expected visits, a share of all, rounded up; None if that is all."""
    if share == 1.0:
        return None
    return [fed.clients[i] for i in fastest_clients(fed, [0] * len(fed.clients), share)]


def fastest_clients(fed: Federation, cluster: Sequence[int], share: float) -> list[int]:
    """Return the ascending ids of the clients with the shortest expected visits, a share per cluster, rounded up."""
    members: dict[int, list[int]] = {}
    for client in sorted(range(len(cluster)), key=lambda i: (fed.estimate(fed.clients[i]).visit_s, i)):
        members.setdefault(cluster[client], []).append(client)
    return sorted(client for ids in members.values() for client in ids[: math.ceil(share * len(ids) - 1e-9)])


async def train_always(
    fed: Federation,
    clients_at_once: int | None,
    arrived: Callable[[Update], Awaitable[None]],
    work: Work | None = None,
    *,
    among: Sequence[Client] | None = None,
    also_busy: bool = False,
    prefer: Callable[[Client], Any] | None = None,
    begins: Callable[[Client], None] = lambda client: None,
    lost: Callable[[Client], None] = lambda client: None,
    model_for: Callable[[Client], Model] | None = None,
) -> None:
    """Keep clients training for ever, each on the global model at its start; pass each result to `arrived`.

    Whenever a visit ends, the next client is drawn uniformly from the idle clients, with `prefer` from those for which
    it is smallest. All results of an instant arrive before the next client starts. A failed visit costs its expected
    time. among: the clients that may train (default: all). also_busy: draw the next client from all of them, so that
    visits of a busy client wait for their turn. begins: called with each client as its visit begins. lost: called with
    each client whose visit failed. model_for: the model that a client trains (default: the global one).
    """
    everyone = fed.clients if among is None else among
    idle = list(everyone)
    rng = fed.rng("next client")

    def draw() -> Client:
        if prefer is None:  # in constant time
            position = int(rng.integers(len(idle)))
        else:
            preferences = list(map(prefer, idle))
            least = min(preferences)
            best = [position for position, preference in enumerate(preferences) if preference == least]
            position = best[int(rng.integers(len(best)))]
        idle[position], idle[-1] = idle[-1], idle[position]
        return idle.pop()

    async def keep_one_training() -> None:
        client = draw()
        while True:
            start_s = fed.now
            begins(client)
            try:
                update = await fed.train(client, fed.model if model_for is None else model_for(client), work)
            except ClientUnavailable:
                lost(client)
                await fed.sleep_until(start_s + fed.estimate(client).visit_s)
            else:
                await arrived(update)
            if not also_busy:
                idle.append(client)
            await fed.sleep_until(fed.now)
            client = everyone[int(rng.integers(len(everyone)))] if also_busy else draw()

    async with asyncio.TaskGroup() as tasks:
        for _ in range(min(clients_at_once or len(idle), len(idle))):
            tasks.create_task(keep_one_training())
