"""Ringleader ASGD: rounds that begin when every client has reported, and give each client one new model."""

from __future__ import annotations

import asyncio

from pydantic.dataclasses import dataclass

from fedtempo.federation import Client, Federation, Model, Update, Vector
from fedtempo.parts.fields import STRICT
from fedtempo.strategies.asynchronous import ClientsAtOnce, Reach, ServerStep, fastest, train_always
from fedtempo.strategies.change_table import ChangeTable


@dataclass(frozen=True, config=STRICT)
class RingleaderASGD:
    """Maranjyan and Richtárik, Ringleader ASGD: The First Asynchronous SGD with Optimal Time Complexity under Data
    Heterogeneity, ICLR 2026 (arXiv 2509.22860).

    Phase 1 of a round: changes are collected in a table until each client has an entry, the mean of its changes.
    Phase 2: the last client, and then each other one at its next result, which enters the table, makes the server step

        w <- w + server_lr * mean over clients of the mean of their changes

    and receives the new w; until then it goes on training its old model. Results of clients that had their step wait
    in a second table, which becomes the first when all had it.
    """

    clients_at_once: ClientsAtOnce = None
    server_lr: ServerStep = None
    reach: Reach = 1.0

    async def run(self, fed: Federation) -> None:
        turn = asyncio.Lock()
        among = fastest(fed, self.reach) or fed.clients
        lr = self.server_lr or 1 / len(among)
        table, next_table = ChangeTable(), ChangeTable()
        model_of: dict[int, Model] = {}
        absent, waiting = set[int](), set[int]()  # clients whose last visit failed; without their step in phase 2

        def served(client: Client) -> None:
            nonlocal table, next_table
            if client.id in waiting:
                waiting.remove(client.id)
                if not waiting:
                    table, next_table = next_table, ChangeTable()

        def lost(client: Client) -> None:
            absent.add(client.id)
            model_of.pop(client.id, None)
            served(client)

        async def arrived(update: Update) -> None:
            client = update.client
            absent.discard(client.id)
            async with turn:  # the global model must not change between reading and committing it
                if waiting and client.id not in waiting:
                    await next_table.add(fed, update)
                    return
                await table.add(fed, update)
                if not waiting:
                    if any(each.id not in table.means and each.id not in absent for each in among):
                        return
                    waiting.update(table.means.keys() - absent)
                clients = len(table.means)
                share = {fed.model: 1 - 1 / clients, update.model: 1 / clients}
                stepped = await fed.on_server(
                    step_along, fed.model, statistics_from=share, total=table.total, weight=lr / clients
                )
                model_of[client.id] = fed.commit(stepped, staleness=fed.model.version - update.base_version)
                served(client)

        def model_for(client: Client) -> Model:
            return model_of.setdefault(client.id, fed.model)

        await train_always(fed, self.clients_at_once, arrived, among=among, lost=lost, model_for=model_for)


def step_along(model: Vector, *, total: Vector, weight: float) -> Vector:
    """Return model + weight * total."""
    return model + weight * total
