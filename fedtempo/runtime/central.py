"""The part of a federation that simulated and real runs share: server arithmetic, commits, estimates, multicasts."""

from __future__ import annotations

import asyncio
import contextlib
import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

import numpy as np

from fedtempo.errors import FedtempoError, RunError, StrategyError
from fedtempo.federation import (
    Client,
    ClientUnavailable,
    ConsentError,
    Durations,
    Examples,
    Model,
    Update,
    Visit,
    Work,
)
from fedtempo.fleet.estimates import Estimator
from fedtempo.fleet.fleet import Fleet
from fedtempo.learning.aggregation import average, mix
from fedtempo.learning.schedules import Schedule
from fedtempo.learning.sections import Sections
from fedtempo.learning.training import Training
from fedtempo.record.recorder import Recorder
from fedtempo.runtime.averaging import Averaging
from fedtempo.runtime.budget import Budget
from fedtempo.runtime.client_state import ClientState
from fedtempo.runtime.evaluations import Evaluations
from fedtempo.runtime.executors.arithmetic import Statistics
from fedtempo.runtime.gather import at_once, came_back
from fedtempo.runtime.handles import ServerCall
from fedtempo.runtime.keyed import keyed_generator
from fedtempo.runtime.open_visits import OpenVisits
from fedtempo.runtime.spending import Spending
from fedtempo.runtime.weights import problem_with
from fedtempo.runtime.work import resolve

Combine = Callable[[Sequence[Any]], Any]
"""Averages vectors."""


class Arithmetic(Protocol):
    """The part of `fedtempo.runtime.executors.Executor` that computes with models."""

    @property
    def sections(self) -> Sections: ...
    def apply(
        self,
        function: Callable[..., Any],
        locations: Sequence[Any],
        statistics: Statistics | None = None,
    ) -> Any: ...
    def is_location(self, value: object) -> bool: ...


class Central(ABC):
    """Base of both implementations of `fedtempo.federation.Federation`; subclasses set its fields and add visits."""

    _clients: tuple[Client, ...]
    _states: Sequence[ClientState]
    _estimator: Estimator
    _arithmetic: Arithmetic
    _averaging: Averaging
    _training: Training
    """Without its schedule, whose rates `_resolved` computes."""
    _schedule: Schedule | None
    _recorder: Recorder
    _evaluations: Evaluations
    _model: Model
    _seed: int
    _horizon: float
    _max_commits: int | None
    _server_s: float = 0.0
    """Seconds that each operation at the server takes in a simulation."""
    _ended: asyncio.Future[str]
    reads_horizon = False
    """Whether the strategy has asked for `horizon`."""
    at_end: Callable[[], None] | None = None
    """Called at the moment when the run ends."""
    end_reason = ""
    """Why the run has ended, in words; empty before."""

    @property
    def clients(self) -> Sequence[Client]:
        return self._clients

    @property
    @abstractmethod
    def now(self) -> float: ...

    @property
    def horizon(self) -> float:
        self.reads_horizon = True
        return self._horizon

    @property
    def model(self) -> Model:
        return self._model

    @property
    def lr(self) -> float:
        return self._training.lr

    def steps(self, client: Client) -> int:
        return self._training.steps_per_visit(client.num_examples)

    def _resolved(self, model: Model, work: Work | None) -> Training:
        """Return the training of a visit that starts now at `model`: as configured, scheduled and requested."""
        if self._schedule is None:
            return resolve(self._training, work)
        position: float = {"round": model.version, "commit": self._model.version, "time": self.now}[self._schedule.by]
        return resolve(self._training, work, self._schedule.factor(position, self._training.lr))

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
    def forecast(self, client: Client, begin: float, end: float) -> float: ...

    @abstractmethod
    async def sleep_until(self, time: float) -> None: ...

    @abstractmethod
    async def _begin(self, client: Client, model: Model, group: int | None) -> Visit:
        """Wait for a client's turn and hold it for a visit. Raises ClientUnavailable."""

    @abstractmethod
    async def _send_to_all(self, visits: Sequence[Visit]) -> list[Visit | None]:
        """Send a model to the clients of these visits in one transmission; return None for each visit that is lost."""

    async def multicast(self, clients: Iterable[Client], model: Model, *, group: int | None = None) -> list[Visit]:
        self._averaging.may_send(model)
        receivers = list(clients)
        for client, times in Counter(receivers).items():
            if times > 1:
                raise RunError(f"multicast: duplicate client {client.id}")
        begun: dict[Client, Visit] = {}

        async def begin(client: Client) -> None:
            with contextlib.suppress(ClientUnavailable):
                begun[client] = await self._begin(client, model, group)

        try:
            await at_once(map(begin, receivers))
            received = await self._send_to_all([begun[client] for client in receivers if client in begun])
        except BaseException:
            for visit in begun.values():
                visit.release()
            raise
        return [visit for visit in received if visit is not None]

    def _must_consent(self, client: Client) -> None:
        """Raise ConsentError or ConfigError unless the client may upload raw examples."""
        if not client.shares_examples:
            raise ConsentError(f"client {client.id} did not agree to share examples")
        self._averaging.may_gather()

    def _must_have_examples(self, examples: Iterable[Examples]) -> None:
        """Raise RunError unless there are examples for the server to train on."""
        if not any(uploaded.size_bytes for uploaded in examples):
            raise RunError("training at the server needs at least one example")

    async def train_all(
        self, clients: Iterable[Client], model: Model, work: Work | None = None, *, group: int | None = None
    ) -> list[Update]:
        return await came_back(lambda client: self.train(client, model, work, group=group), clients)

    async def average(self, updates: Sequence[Update | Model], weights: Sequence[float] | None = None) -> Model:
        if weights is None:
            weights = [update.num_examples if isinstance(update, Update) else 1 for update in updates]
        weights = list(weights)
        self._must_be_weights("average", weights, len(updates))
        models = [update.model if isinstance(update, Update) else update for update in updates]
        if (excess := self._averaging.excess(models)) is not None:
            self.end("epsilon", excess)
            await asyncio.get_running_loop().create_future()  # until the run has ended
        current = self._model
        function, arguments, combine = self._averaging.of(models, weights, current)
        mean: Model = await self._computed(function, ServerCall(function, [], arguments), (models, combine))
        return await self._stepped(current, mean)

    async def server_step(self, model: Model) -> Model:
        return await self._stepped(self._model, model)

    async def _stepped(self, start: Model, towards: Model) -> Model:
        if (steps := self._averaging.steps) is None:
            return towards
        call = steps.begin(start, towards)
        return steps.take(await self._computed(steps.function, call, ([towards], average)))

    async def mix(self, a: Model, b: Model, beta: float) -> Model:
        if not math.isfinite(beta):
            raise StrategyError(f"mix {self._moment()}: beta = {beta!r}; it must be finite")
        combine = partial(_mixed, beta=min(1.0, max(0.0, beta)))
        result: Model = await self._computed(mix, ServerCall(mix, [a, b], {"beta": beta}), ([a, b], combine))
        return result

    async def on_server(
        self,
        function: Callable[..., Any],
        *models: Model,
        statistics_from: Mapping[Model, float] | None = None,
        **arguments: Any,
    ) -> Any:
        call = ServerCall(function, models, arguments)
        carried: tuple[Sequence[Model], Combine] = (call.models or [self._model], average)
        if statistics_from is not None:
            weights = list(statistics_from.values())
            self._must_be_weights("on_server(statistics_from=...)", weights, len(weights))
            carried = (list(statistics_from), partial(average, weights=weights))
        return await self._computed(function, call, carried, statistics_from or ())

    async def _computed(
        self,
        function: Callable[..., Any],
        call: ServerCall,
        carried: tuple[Sequence[Model], Combine],
        also_read: Iterable[Model] = (),
    ) -> Any:
        """Make a call of `function` at the server, see `on_server`.

        carried: the models whose running statistics the results take over, and how these are averaged. also_read:
        models that are read besides those among the call's arguments.
        """
        models = [*call.models, *also_read]
        self._averaging.may_compute(function, models)
        if self._server_s:
            await self.sleep_until(self.now + self._server_s)
        version = models[0].version if models else self._model.version
        statistics = None
        if self._arithmetic.sections.statistics:
            statistics = Statistics([model.location for model in carried[0]], carried[1])
        result = self._arithmetic.apply(call, [model.location for model in call.models], statistics)
        answer = self._as_model(result, version)
        self._averaging.derived(function, models, answer)
        return answer

    def commit(self, model: Model, *, staleness: int = 0) -> Model:
        self._averaging.may_commit(model, self._model)
        before, self._model = self._model, Model(self._model.version + 1, model.location)
        self._recorder.commit(self._model.version, self.now, staleness)
        self._evaluations.committed(self.now, before, self._model)
        if self._max_commits is not None and self._model.version >= self._max_commits:
            self.end("budget", f"{self._max_commits:,} commits made")
        return self._model

    def estimate(self, client: Client) -> Durations:
        state = self._states[client.id]
        return Durations(*self._estimator.estimate(client.id, state.download_s, state.mean_compute_s(), state.upload_s))

    def rng(self, purpose: str, *keys: int) -> np.random.Generator:
        return keyed_generator(self._seed, purpose, *keys)

    def note(self, name: str, value: Any) -> None:
        self._recorder.note(name, value)

    def end(self, why: str, reason: str = "") -> None:
        """End the run now, see `runner.Outcome`. Does nothing if it has ended."""
        if self._ended.done():
            return
        self.end_reason = reason
        try:
            if self.at_end is not None:
                self.at_end()
        except FedtempoError as error:
            self._ended.set_exception(error)
        else:
            self._ended.set_result(why)

    @property
    def ended(self) -> asyncio.Future[str]:
        return self._ended

    def _limit_use(self, budget: Budget, fleet: Fleet, visits: OpenVisits[Any]) -> None:
        """End the run when its visits have used up the budget."""
        visits.spending = Spending(
            budget,
            n_clients=len(self._clients),
            compute_watts=fleet.compute_watts,
            link_watts=fleet.link_watts,
            moved_bytes=lambda: self._recorder.moved_bytes,
            in_progress=visits.in_progress,
            end=self.end,
        )

    def _must_be_weights(self, what: str, weights: Sequence[float], count: int) -> None:
        """Raise StrategyError unless `count` models can be averaged with these weights."""
        if (problem := problem_with(weights, count)) is not None:
            raise StrategyError(f"{what} {self._moment()}: {problem}")

    def _moment(self) -> str:
        return f"after commit {self._model.version} (t = {self.now:g} s)"

    def _as_model(self, result: Any, version: int) -> Any:
        if self._arithmetic.is_location(result):
            return Model(version, result)
        if isinstance(result, tuple):
            return tuple(self._as_model(item, version) for item in result)
        return result


def _mixed(models: Sequence[Any], beta: float) -> Any:
    a, b = models
    return mix(a, b, beta)
