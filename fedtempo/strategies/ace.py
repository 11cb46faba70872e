"""ACE: with each result the model moves by the mean of the latest changes of all clients."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Annotated, NamedTuple

from pydantic.dataclasses import dataclass

from fedtempo.federation import Federation, Model, Update, Vector
from fedtempo.parts.fields import STRICT, Count, Doc
from fedtempo.strategies.asynchronous import ClientsAtOnce, Reach, ServerStep, fastest, train_always


class Latest(NamedTuple):
    """The last change of a client, and the version of the global model that it started from."""

    change: Model
    version: int


@dataclass(frozen=True, config=STRICT)
class ACE:
    """Chang et al., Mitigating Participation Imbalance Bias in Asynchronous Federated Learning, arXiv 2511.19066, 2025.

    All-Client Engagement: the server keeps the latest change d_i of each client. Whenever one arrives, it replaces the
    client's previous one and

        w <- w + server_lr * mean of d_i over all clients heard so far.

    With `max_staleness` the method is the paper's ACED, which leaves out changes that started too many commits ago. Our
    reading: steps begin before all clients were heard, and a new result is always part of the mean.

    The same rule for single gradients is DuDe-ASGD (Wang, Sun, Wai and Zhang, Dual-Delayed Asynchronous SGD for
    Arbitrarily Heterogeneous Data, 2024; published as DuDe-SGD in INFORMS Journal on Computing, 2025, and also known
    as IA2SGD); ACE is its form for federated learning. The server keeps one model-sized vector for each client.
    """

    clients_at_once: ClientsAtOnce = None
    server_lr: ServerStep = None
    max_staleness: Annotated[
        Count | None, Doc("leave out changes that started more than so many commits ago, as ACED does (default: none)")
    ] = None
    reach: Reach = 1.0

    async def run(self, fed: Federation) -> None:
        turn = asyncio.Lock()
        among = fastest(fed, self.reach)
        lr = self.server_lr or 1 / len(among or fed.clients)
        latest: dict[int, Latest] = {}
        total: Model | float = 0.0

        async def engage(update: Update) -> None:
            nonlocal total
            async with turn:  # the global model must not change between reading and committing it
                version, own = fed.model.version, update.client.id
                replaced = [latest.pop(own).change] if own in latest else []
                if self.max_staleness is not None:
                    stale = [i for i, each in latest.items() if version - each.version > self.max_staleness]
                    replaced += [latest.pop(i).change for i in stale]
                clients = len(latest) + 1
                stepped, change, total = await fed.on_server(
                    all_client_step,
                    fed.model,
                    update.received,
                    update.model,
                    statistics_from={fed.model: 1 - 1 / clients, update.model: 1 / clients},
                    total=total,
                    replaced=replaced,
                    clients=clients,
                    lr=lr,
                )
                latest[own] = Latest(change, update.base_version)
                fed.commit(stepped, staleness=version - update.base_version)

        await train_always(fed, self.clients_at_once, engage, among=among)


def all_client_step(
    model: Vector,
    start: Vector,
    end: Vector,
    *,
    total: Vector | float,
    replaced: Sequence[Vector],
    clients: int,
    lr: float,
) -> tuple[Vector, Vector, Vector]:
    """Return the next model, the new change, and the sum of all latest changes, 0 at first.

    replaced: changes that leave the sum. clients: the number of changes in the new sum.
    """
    change = end - start
    for old in replaced:
        total = total - old
    total = total + change
    return model + lr / clients * total, change, total
