"""What a federation does alike on every clock: arithmetic at the server, commits, estimates, and how a run ends."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from fedtempo.errors import RunError
from fedtempo.federation import Client, Durations, Model, Update, Work
from fedtempo.fleet.estimates import Estimator
from fedtempo.learning.aggregation import mix
from fedtempo.record.recorder import Recorder
from fedtempo.runtime.averaging import Averaging
from fedtempo.runtime.client_state import ClientState
from fedtempo.runtime.evaluations import Evaluations
from fedtempo.runtime.handles import located, models_in
from fedtempo.runtime.keyed import keyed_generator
from fedtempo.runtime.together import came_back


class Arithmetic(Protocol):
    """Where models lie, and what computes with them; see `fedtempo.runtime.executors.Executor`."""

    def apply(self, function: Callable[..., Any], locations: Sequence[Any], arguments: Mapping[str, Any]) -> Any: ...
    def is_location(self, value: object) -> bool: ...


class Central(ABC):
    """The half of a `fedtempo.federation.Federation` that visits nobody. The other half fills its fields."""

    _clients: tuple[Client, ...]
    _states: Sequence[ClientState]
    _estimator: Estimator
    _arithmetic: Arithmetic
    _averaging: Averaging
    _recorder: Recorder
    _evaluations: Evaluations
    _model: Model
    _seed: int
    _horizon: float
    _max_commits: int | None
    _server_s: float = 0.0
    """Seconds that each operation at the server takes, where time does not pass by itself."""
    _ended: asyncio.Future[str]

    @property
    def clients(self) -> Sequence[Client]:
        return self._clients

    @property
    @abstractmethod
    def now(self) -> float: ...

    @property
    def horizon(self) -> float:
        return self._horizon

    @property
    def model(self) -> Model:
        return self._model

    @abstractmethod
    def train(
        self,
        client: Client,
        model: Model,
        work: Work | None = None,
        *,
        group: int | None = None,
        to: Client | None = None,
    ) -> Coroutine[Any, Any, Update]: ...

    @abstractmethod
    async def sleep_until(self, time: float) -> None: ...

    async def train_all(
        self, clients: Iterable[Client], model: Model, work: Work | None = None, *, group: int | None = None
    ) -> list[Update]:
        return await came_back(lambda client: self.train(client, model, work, group=group), clients)

    async def average(self, updates: Sequence[Update | Model], weights: Sequence[float] | None = None) -> Model:
        if not updates:
            raise RunError("an average needs at least one update")
        if weights is None:
            weights = [update.num_examples if isinstance(update, Update) else 1 for update in updates]
        models = [update.model if isinstance(update, Update) else update for update in updates]
        function, arguments = self._averaging.of(models, list(weights), self._model)
        result: Model = await self.on_server(function, **arguments)
        return result

    async def mix(self, a: Model, b: Model, beta: float) -> Model:
        result: Model = await self.on_server(mix, a, b, beta=beta)
        return result

    async def on_server(self, function: Callable[..., Any], *models: Model, **arguments: Any) -> Any:
        given = [*models, *models_in(arguments.values())]
        self._averaging.may_compute(function, given)
        if self._server_s:
            await self.sleep_until(self.now + self._server_s)
        version = given[0].version if given else self._model.version
        result = self._arithmetic.apply(
            function, [model.location for model in models], {name: located(value) for name, value in arguments.items()}
        )
        answer = self._as_model(result, version)
        self._averaging.derived(function, given, answer)
        return answer

    def commit(self, model: Model, *, staleness: int = 0) -> Model:
        self._averaging.may_commit(model)
        before, self._model = self._model, Model(self._model.version + 1, model.location)
        self._recorder.commit(self._model.version, self.now, staleness)
        self._evaluations.committed(self.now, before, self._model)
        if self._max_commits is not None and self._model.version >= self._max_commits:
            self.end("budget")
        return self._model

    def estimate(self, client: Client) -> Durations:
        state = self._states[client.id]
        return Durations(*self._estimator.estimate(client.id, state.download_s, state.mean_compute_s(), state.upload_s))

    def rng(self, purpose: str, *keys: int) -> np.random.Generator:
        return keyed_generator(self._seed, purpose, *keys)

    def note(self, name: str, value: Any) -> None:
        self._recorder.note(name, value)

    def end(self, why: str) -> None:
        """End the run at this instant: `why` is "target", "budget" or "horizon"."""
        if not self._ended.done():
            self._ended.set_result(why)

    @property
    def ended(self) -> asyncio.Future[str]:
        return self._ended

    def _as_model(self, result: Any, version: int) -> Any:
        if self._arithmetic.is_location(result):
            return Model(version, result)
        if isinstance(result, tuple):
            return tuple(self._as_model(item, version) for item in result)
        return result
