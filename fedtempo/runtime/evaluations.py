"""Schedule and results of the global model's evaluations.

An evaluation belongs to a virtual instant, but its real work may finish later: results are collected in order, at the
latest when several are outstanding or when the run's end depends on them.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedtempo.data.phases import Phases
from fedtempo.federation import Model
from fedtempo.learning.metrics import CONFUSION
from fedtempo.record import Recorder, sustained
from fedtempo.record.metric import Measure, Values
from fedtempo.record.validation import deciding, named
from fedtempo.runtime.client_evaluations import ClientEvaluations, PendingClients, measures_of
from fedtempo.runtime.client_state import ClientState
from fedtempo.runtime.executors import Evaluation, Evaluator, On, Pending
from fedtempo.runtime.patience import Patience, Plateau
from fedtempo.runtime.run_settings import Goal

_OUTSTANDING = 8
"""Largest number of outstanding evaluations: each keeps a model in memory."""


@dataclass(frozen=True)
class Best:
    """The evaluated model with the best measure so far; the first of equal ones. time: of its evaluation, seconds.

    accuracy, loss: on the test set. validation: accuracy on the validation set, by which it is the best; None if there
    is none.
    """

    model: Model
    time: float
    accuracy: float
    loss: float
    validation: float | None = None


@dataclass(frozen=True)
class _Due:
    """An evaluation in progress. test, validation: on these sets; None if there is none. clients: on the clients' own
    test sets; None if not now. model: the one evaluated, if it may be kept.
    """

    time: float
    version: int
    test: Pending[Evaluation] | None
    clients: PendingClients | None
    model: Model | None
    validation: Pending[Evaluation] | None = None

    def done(self) -> bool:
        return all(each is None or each.done() for each in (self.test, self.validation, self.clients))


class MeanEvaluation:
    """The weighted mean of evaluations in progress."""

    def __init__(self, pending: Sequence[Pending[Evaluation]], weights: Sequence[float]) -> None:
        self._pending, self._weights = pending, weights

    def result(self) -> Evaluation:
        results = [pending.result() for pending in self._pending]
        if len(results) == 1:
            return results[0]
        errors = [result.mae for result in results if result.mae is not None]
        names = [name for name in results[0].metrics if all(name in result.metrics for result in results)]
        return Evaluation(
            self._mean([result.accuracy for result in results]),
            self._mean([result.loss for result in results]),
            self._mean(errors) if errors else None,
            metrics={name: self._mean_of(name, [result.metrics[name] for result in results]) for name in names},
        )

    def done(self) -> bool:
        return all(pending.done() for pending in self._pending)

    def _mean_of(self, name: str, values: Sequence[Any]) -> Any:
        """Return the mean of a further metric; the matrices of "confusion" are added up, without weights."""
        if name == CONFUSION:
            return sum(values)
        if isinstance(values[0], np.ndarray):
            return np.average(values, axis=0, weights=self._weights)
        return self._mean(values)

    def _mean(self, values: Sequence[float]) -> float:
        total = math.fsum(weight * value for weight, value in zip(self._weights, values, strict=True))
        return total / math.fsum(self._weights)


class Evaluations:
    """Evaluates the global model periodically or at each commit, and detects when the target is reached.

    every: seconds between evaluations; None for one at each commit. This needs no timer: the model does not change
    between two commits, so the evaluations due in between are made at the second commit.

    target: value to reach, of whichever measure. If `stop` is set, `reached` is called once the mean of three
    consecutive evaluations reaches it (curves of asynchronous training oscillate, so a single evaluation may be luck).
    Each evaluation is then waited for immediately. So it is with `patience`; `exhausted` is called with the reason once
    evaluations no longer improve.

    keep_best: whether `best` holds the best model. Models whose evaluations are outstanding then stay in memory, too.

    validates: whether there is a validation set. Each version is evaluated on it, too, and `target`, `patience` and
    `best` go by the validation set alone, except for statistics over clients.
    """

    def __init__(
        self,
        executor: Evaluator,
        recorder: Recorder,
        *,
        every: float | None,
        target: Goal | None = None,
        stop: bool = False,
        reached: Callable[[], None] = lambda: None,
        patience: Patience | None = None,
        exhausted: Callable[[str], None] = lambda reason: None,
        wait: bool = True,
        keep_best: bool = False,
        validates: bool = False,
    ) -> None:
        """wait: False if the run never waits for results; then `collect` must be called whenever results arrive.

        Raises ConfigError for a patience with a measure that the run does not have.
        """
        self._executor, self._recorder, self._every = executor, recorder, every
        self._target, self._stop, self._reached = target, stop, reached
        self._validates = validates
        where = " on the validation set" if validates else ""
        self._plateau = None if patience is None else Plateau(patience, recorder.measure, recorder.further, where)
        self._exhausted = exhausted
        self._leave = math.inf if not wait else 0 if stop or patience else _OUTSTANDING
        self._outstanding: deque[_Due] = deque()
        self._latest: tuple[tuple[int, On], Pending[Evaluation], Pending[Evaluation] | None] | None = None
        """The latest evaluation that was begun: version and test set, and the results on test and validation set."""
        self._phases: Phases | None = None
        self._keep_best = keep_best
        self.best: Best | None = None
        self._parts_of: Sequence[ClientState] = ()
        self._clients: ClientEvaluations | None = None
        self._count = 0
        self._tested: int | None = None
        """The latest version that was evaluated on the clients' own test sets."""
        self._parts: Sequence[tuple[Any, int]] = ()
        """The local parts that the latest version is evaluated with, and the number of examples of their clients."""
        self._tick = 1
        self._recent: deque[float] = deque(maxlen=3)
        self.accuracy: float | None = None
        """Latest collected value of `measure`; None before the first."""

    @property
    def measure(self) -> Measure:
        """The measure of evaluations: accuracy, or R^2 for numbers."""
        return self._recorder.measure

    def use_parts_of(self, clients: Sequence[ClientState]) -> None:
        """Evaluate each version with the local parts that these clients have when it is committed.

        The result is the mean over the clients, weighted by their numbers of examples.
        """
        self._parts_of = clients

    def use_tests_of(self, clients: ClientEvaluations) -> None:
        """Also evaluate versions on the clients' own test sets."""
        self._clients = clients

    def use_phases(self, phases: Phases) -> None:
        """Evaluate on the test sets that there are at the time of each evaluation."""
        self._phases = phases

    def begin(self, model: Model) -> None:
        """Evaluate the initial model at time 0."""
        self._take_parts()
        self._evaluate(0.0, model)

    def _take_parts(self) -> None:
        if self._parts_of:
            self._parts = [(owner.kept, owner.client.num_examples) for owner in self._parts_of]
        if self._clients is not None:
            self._clients.take_parts()

    def committed(self, now: float, before: Model, model: Model) -> None:
        """Make the evaluations due at a commit that replaced `before` by `model`."""
        if self._every is None:
            self._take_parts()
            self._evaluate(now, model)
        else:
            self._catch_up(now, before, at_now=False)
            self._take_parts()

    def finish(self, now: float, model: Model) -> None:
        """Make the evaluations due up to the run's end, and collect all results."""
        if self._every is not None:
            self._catch_up(now, model, at_now=True)
            if (self._tick - 1) * self._every < now:
                self._evaluate(now, model)
        if self._clients is not None and self._executor.trains and self._tested != model.version:
            self._outstanding.append(_Due(now, model.version, None, self._started_clients(model, now), None))
        self.collect()

    def _catch_up(self, now: float, model: Model, *, at_now: bool) -> None:
        """Evaluate `model` at the instants due before now; at_now: also at one due exactly now."""
        assert self._every is not None
        while (instant := self._tick * self._every) < now or (at_now and instant == now):
            self._tick += 1
            self._evaluate(instant, model)

    def _evaluate(self, time: float, model: Model) -> None:
        if not self._executor.trains:
            return
        on = self._at("test", time)
        if self._latest is None or self._latest[0] != (model.version, on):
            held = self._started(model, self._at("validation", time)) if self._validates else None
            self._latest = (model.version, on), self._started(model, on), held
        clients = self._started_clients(model, time) if self._clients_are_due(model) else None
        kept = model if self._keep_best else None
        self._outstanding.append(_Due(time, model.version, self._latest[1], clients, kept, self._latest[2]))
        self.collect(leave=self._leave)

    def _clients_are_due(self, model: Model) -> bool:
        """Whether this evaluation is also one on the clients' own test sets; of each version there is at most one."""
        if self._clients is None:
            return False
        self._count += 1
        is_turn = self._clients.every > 0 and (self._count - 1) % self._clients.every == 0
        return is_turn and self._tested != model.version

    def _started_clients(self, model: Model, time: float) -> PendingClients:
        assert self._clients is not None
        self._tested = model.version
        return self._clients.start(model.location, 0 if self._phases is None else self._phases.at(time))

    def _at(self, name: str, time: float) -> On:
        """Return a test set as it is at a time."""
        return name if self._phases is None else self._phases.test_set(name, time)

    def _started(self, model: Model, on: On) -> Pending[Evaluation]:
        if not self._parts:
            return self._executor.evaluate(model.location, on=on)
        weights: dict[Any, int] = {}  # clients that have not trained yet share their parts
        for kept, examples in self._parts:
            weights[kept] = weights.get(kept, 0) + examples
        evaluations = [self._executor.evaluate(model.location, kept, on) for kept in weights]
        return MeanEvaluation(evaluations, [*weights.values()])

    def collect(self, leave: float = 0) -> None:
        """Record results in order: those available, and more until at most `leave` are outstanding."""
        while self._outstanding and (len(self._outstanding) > leave or self._outstanding[0].done()):
            due = self._outstanding.popleft()
            measures: dict[str, Any] = {}
            further: dict[str, Any] = {}
            over_clients: Mapping[str, float] = {}
            if due.test is not None:
                result = due.test.result()
                further = dict(result.metrics)
                self._recorder.evaluation(due.time, due.version, result.accuracy, result.loss, result.mae)
                self.accuracy = result.accuracy
                judged = result if due.validation is None else due.validation.result()
                if due.model is not None and self._is_best(judged):
                    held = None if due.validation is None else judged.accuracy
                    self.best = Best(due.model, due.time, result.accuracy, result.loss, held)
                measures |= _values_of(result)
                if due.validation is not None:
                    further |= named({**_values_of(judged), **judged.metrics}, self.measure)
            if due.clients is not None:
                scores = due.clients.result()
                self._recorder.client_evaluations(due.time, due.version, scores)
                over_clients = measures_of(scores)
                further |= over_clients
            if further:
                self._recorder.measured(due.time, due.version, further)
            values = measures | further
            self._take(due, deciding(values, self.measure, over_clients) if self._validates else values)

    def _take(self, due: _Due, values: Values) -> None:
        """Take note of an evaluation's values, by name; end the run if they reach the target or exhaust patience."""
        if self._stop and self._target is not None and self._target.name in values:
            self._recent.append(values[self._target.name])
            if sustained(list(self._recent), self._target.value, self._target.better):
                self._reached()
        if self._plateau is not None and self._plateau.add(due.time, due.version, values):
            self._exhausted(self._plateau.reason)

    def _is_best(self, result: Evaluation) -> bool:
        if not (math.isfinite(result.accuracy) and math.isfinite(result.loss)):
            return False
        if self.best is None:
            return True
        return result.accuracy > (self.best.accuracy if self.best.validation is None else self.best.validation)


def _values_of(result: Evaluation) -> dict[str, Any]:
    return {"accuracy": result.accuracy, "loss": result.loss, "mae": result.mae}
