"""The mean change of each client, for strategies in which every client counts the same."""

from __future__ import annotations

from collections import Counter

from fedtempo.federation import Federation, Model, Update, Vector


class ChangeTable:
    """The mean of each client's changes, and the sum of these means over clients.

    The server keeps one model-sized vector for each client. total: 0 as long as the table is empty.
    """

    def __init__(self) -> None:
        self.means: dict[int, Model] = {}
        self.total: Model | float = 0.0
        self._counts = Counter[int]()

    async def add(self, fed: Federation, update: Update) -> None:
        client = update.client.id
        self._counts[client] += 1
        mean, self.total = await fed.on_server(
            add_to_mean,
            update.received,
            update.model,
            mean=self.means.get(client, 0.0),
            count=self._counts[client],
            total=self.total,
        )
        self.means[client] = mean


def add_to_mean(
    start: Vector, end: Vector, *, mean: Vector | float, count: int, total: Vector | float
) -> tuple[Vector, Vector]:
    """Return the mean with the `count`-th change, and the sum of all clients' means; both are 0 at first."""
    moved = mean + ((end - start) - mean) / count
    return moved, total + (moved - mean)
