"""A strategy's arithmetic on small vectors of float64, with results that arrive in the order that a test gives."""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from fedtempo.federation import Client, ClientUnavailable, Durations, Model, Update
from fedtempo.runtime.handles import ServerCall

Arrival = tuple[int, Sequence[float] | None]
"""A client and the change that its training makes; None: its visit fails."""


def in_rounds(*rounds: Sequence[float | None]) -> list[Arrival]:
    """Return the arrivals of rounds, given by each client's change in the first coordinate (None: its visit fails).

    The second coordinate is the double of the first.
    """
    return [(i, None if c is None else [c, 2 * c]) for changes in rounds for i, c in enumerate(changes)]


class Arrivals:
    """A federation whose visits end in a given order, one per second; models are vectors of float64.

    A client's visits take turns. draws: what its generators draw, whatever their keys (default: random numbers).
    received: the version of the model that each result's visit started from. versions: the global models, in order.
    statistics: for each server call that names them, the weights of running statistics.
    """

    horizon = 1e9
    lr = 0.1

    def __init__(
        self,
        clients: int,
        *,
        visit_s: Sequence[float] | None = None,
        size: int = 2,
        draws: Sequence[int] | None = None,
        examples: Sequence[int] | None = None,
        histograms: Sequence[tuple[int, ...]] | None = None,
    ) -> None:
        self.clients = [
            Client(i, examples[i] if examples else 10, histograms[i] if histograms else None) for i in range(clients)
        ]
        self.model = Model(0, np.zeros(size))
        self.now = 0.0
        self.versions = [self.model.location]
        self.staleness: list[int] = []
        self.received: list[int] = []
        self.statistics: list[list[float]] = []
        self._visit_s = visit_s or [1.0] * clients
        self._visits = defaultdict[int, deque[tuple[Model, asyncio.Future[Any]]]](deque)
        self._draws = None if draws is None else iter(draws)

    def play(self, strategy: Any, *arrivals: Arrival) -> list[list[float]]:
        """Run a strategy until all these have arrived; return the global models after the initial one."""
        asyncio.run(self._play(strategy, arrivals))
        return [vector.tolist() for vector in self.versions[1:]]

    async def _play(self, strategy: Any, arrivals: Sequence[Arrival]) -> None:
        running = asyncio.create_task(strategy.run(self))
        for client, change in arrivals:
            await self._settled()
            if running.done():
                break
            self.now += 1.0
            model, visit = self._visits[client].popleft()
            if change is None:
                visit.set_exception(ClientUnavailable(self.clients[client], "left"))
                continue
            self.received.append(model.version)
            trained = Model(model.version, model.location + np.array(change, dtype=np.float64))
            examples = self.clients[client].num_examples
            visit.set_result(Update(self.clients[client], model, trained, examples, {}, 0.0, 0.0, self.now))
        await self._settled()
        assert running.cancel(), running.exception()

    @staticmethod
    async def _settled() -> None:
        for _ in range(50):
            await asyncio.sleep(0)

    async def train(self, client: Client, model: Model, work: Any = None, **_: Any) -> Update:
        visit: asyncio.Future[Update] = asyncio.get_running_loop().create_future()
        self._visits[client.id].append((model, visit))
        return await visit

    async def train_all(self, clients: Iterable[Client], model: Model, work: Any = None, **_: Any) -> list[Update]:
        visits = [self.train(client, model, work) for client in clients]
        results = await asyncio.gather(*visits, return_exceptions=True)
        return [result for result in results if isinstance(result, Update)]

    async def sleep_until(self, time: float) -> None:
        await asyncio.sleep(0)

    async def on_server(
        self,
        function: Callable[..., Any],
        *models: Model,
        statistics_from: Mapping[Model, float] | None = None,
        **arguments: Any,
    ) -> Any:
        call = ServerCall(function, models, arguments)
        if statistics_from is not None:
            self.statistics.append(list(statistics_from.values()))
        result = call(*(model.location for model in call.models))
        version = models[0].version if models else self.model.version
        if isinstance(result, tuple):
            return tuple(Model(version, vector) for vector in result)
        return Model(version, result) if isinstance(result, np.ndarray) else result

    async def server_step(self, model: Model) -> Model:
        return model

    def commit(self, model: Model, *, staleness: int = 0) -> Model:
        self.model = Model(self.model.version + 1, model.location)
        self.versions.append(model.location)
        self.staleness.append(staleness)
        return self.model

    def note(self, name: str, value: Any) -> None:
        pass

    def estimate(self, client: Client) -> Durations:
        return Durations(0.0, self._visit_s[client.id], 0.0)

    def forecast(self, client: Client, begin: float, end: float) -> float:
        return 1.0

    def rng(self, purpose: str, *keys: int) -> Any:
        return np.random.default_rng(0) if self._draws is None else self

    def integers(self, high: int) -> int:
        """Return the next of the given draws, as a generator would."""
        assert self._draws is not None
        drawn = next(self._draws)
        assert drawn < high
        return drawn
