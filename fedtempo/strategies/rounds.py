"""Training in rounds: clients train the global model in parallel, and the server waits for all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from fedtempo.federation import Client, Federation, Model, Update, Work
from fedtempo.strategies.planning.workload import steps_for

if TYPE_CHECKING:
    import numpy as np


async def train_round(
    fed: Federation,
    clients: Sequence[Client],
    work: Work | Callable[[Client], Work] | None = None,
    *,
    model: Model | None = None,
    enough: int | None = None,
    limit_s: float | None = None,
) -> list[Update]:
    """Train a model at the given clients and return the updates of those that reported, in the given order.

    work: the same for all clients, or a function of the client. model: the one to train (default: the global one).
    enough: the round ends as soon as this many have reported (default: when all have, or have failed). limit_s: the
    round ends after this time, seconds. Visits that are in progress then are cancelled. If no client reports and there
    is no limit, the round takes its expected time, since the server cannot know earlier.
    """
    if callable(work) or limit_s is not None or (enough is not None and enough < len(clients)):
        from fedtempo.strategies.first_reports import first_reports  # it needs an event loop's parts

        return await first_reports(fed, clients, model or fed.model, work, enough or len(clients), limit_s)
    updates = await fed.train_all(clients, model or fed.model, work)
    if not updates:
        await fed.sleep_until(fed.now + max(fed.estimate(client).visit_s for client in clients))
    return updates


def steps_in_time(fed: Federation, client: Client, deadline_s: float) -> int:
    """Return the local steps for which a client has time by its estimates, at least one, at most all of a visit."""
    times, steps = fed.estimate(client), fed.steps(client)
    left_s = deadline_s - times.download_s - times.upload_s
    return min(steps, steps_for(left_s, times.compute_s, steps))


def uniform_sample(clients: Sequence[Client], count: int | None, rng: np.random.Generator) -> list[Client]:
    """Draw `count` different clients uniformly, in ascending order; return all if `count` is None or too large."""
    if count is None or count >= len(clients):
        return list(clients)
    return [clients[i] for i in sorted(rng.choice(len(clients), size=count, replace=False))]


def share_sample(clients: Sequence[Client], count: int, rng: np.random.Generator) -> list[Client]:
    """Draw `count` different clients by their shares of all examples, in ascending order; return all if too few."""
    if count >= len(clients):
        return list(clients)
    total = sum(client.num_examples for client in clients)
    shares = [client.num_examples / total for client in clients]
    return [clients[i] for i in sorted(rng.choice(len(clients), size=count, replace=False, p=shares))]
