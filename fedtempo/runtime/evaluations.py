"""Schedule and results of the global model's evaluations.

An evaluation belongs to a virtual instant, but its real work may finish later: results are collected in order, at the
latest when several are outstanding or when the run's end depends on them.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from fedtempo.federation import Model
from fedtempo.record import Recorder, sustained
from fedtempo.record.metric import Measure
from fedtempo.runtime.client_state import ClientState
from fedtempo.runtime.executors import Evaluation, Evaluator, Pending
from fedtempo.runtime.patience import Patience, Plateau

_OUTSTANDING = 8
"""Largest number of outstanding evaluations: each keeps a model in memory."""


@dataclass(frozen=True)
class Best:
    """The evaluated model with the best measure so far; the first of equal ones. time: of its evaluation, seconds."""

    model: Model
    time: float
    accuracy: float
    loss: float


class MeanEvaluation:
    """The weighted mean of evaluations in progress."""

    def __init__(self, pending: Sequence[Pending[Evaluation]], weights: Sequence[float]) -> None:
        self._pending, self._weights = pending, weights

    def result(self) -> Evaluation:
        results = [pending.result() for pending in self._pending]
        if len(results) == 1:
            return results[0]
        errors = [result.mae for result in results if result.mae is not None]
        return Evaluation(
            self._mean([result.accuracy for result in results]),
            self._mean([result.loss for result in results]),
            self._mean(errors) if errors else None,
        )

    def done(self) -> bool:
        return all(pending.done() for pending in self._pending)

    def _mean(self, values: Sequence[float]) -> float:
        total = math.fsum(weight * value for weight, value in zip(self._weights, values, strict=True))
        return total / math.fsum(self._weights)


class Evaluations:
    """Evaluates the global model periodically or at each commit, and detects when the target is reached.

    every: seconds between evaluations; None for one at each commit. This needs no timer: the model does not change
    between two commits, so the evaluations due in between are made at the second commit.

    target: value of `measure` to reach. If `stop` is set, `reached` is called once the mean of three consecutive
    evaluations is at or above it (curves of asynchronous training oscillate, so a single evaluation may be luck). Each
    evaluation is then waited for immediately. So it is with `patience`; `exhausted` is called with the reason once
    evaluations no longer improve.

    keep_best: whether `best` holds the best model. Models whose evaluations are outstanding then stay in memory, too.
    """

    def __init__(
        self,
        executor: Evaluator,
        recorder: Recorder,
        *,
        every: float | None,
        target: float | None = None,
        stop: bool = False,
        reached: Callable[[], None] = lambda: None,
        patience: Patience | None = None,
        exhausted: Callable[[str], None] = lambda reason: None,
        wait: bool = True,
        keep_best: bool = False,
    ) -> None:
        """wait: False if the run never waits for results; then `collect` must be called whenever results arrive.

        Raises ConfigError for a patience with a measure that the data do not have.
        """
        self._executor, self._recorder, self._every = executor, recorder, every
        self._target, self._stop, self._reached = target, stop, reached
        self._plateau = None if patience is None else Plateau(patience, recorder.measure)
        self._exhausted = exhausted
        self._leave = math.inf if not wait else 0 if stop or patience else _OUTSTANDING
        self._outstanding: deque[tuple[float, int, Pending[Evaluation], Model | None]] = deque()
        self._latest: tuple[int, Pending[Evaluation]] | None = None
        self._keep_best = keep_best
        self.best: Best | None = None
        self._parts_of: Sequence[ClientState] = ()
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

    def begin(self, model: Model) -> None:
        """Evaluate the initial model at time 0."""
        self._take_parts()
        self._evaluate(0.0, model)

    def _take_parts(self) -> None:
        if self._parts_of:
            self._parts = [(owner.kept, owner.client.num_examples) for owner in self._parts_of]

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
        if self._latest is None or self._latest[0] != model.version:
            self._latest = model.version, self._started(model)
        self._outstanding.append((time, model.version, self._latest[1], model if self._keep_best else None))
        self.collect(leave=self._leave)

    def _started(self, model: Model) -> Pending[Evaluation]:
        if not self._parts:
            return self._executor.evaluate(model.location)
        weights: dict[Any, int] = {}  # clients that have not trained yet share their parts
        for kept, examples in self._parts:
            weights[kept] = weights.get(kept, 0) + examples
        return MeanEvaluation([self._executor.evaluate(model.location, kept) for kept in weights], [*weights.values()])

    def collect(self, leave: float = 0) -> None:
        """Record results in order: those available, and more until at most `leave` are outstanding."""
        while self._outstanding and (len(self._outstanding) > leave or self._outstanding[0][2].done()):
            time, version, pending, model = self._outstanding.popleft()
            result = pending.result()
            self._recorder.evaluation(time, version, result.accuracy, result.loss, result.mae)
            self.accuracy = result.accuracy
            if model is not None and self._is_best(result):
                self.best = Best(model, time, result.accuracy, result.loss)
            self._recent.append(result.accuracy)
            if self._stop and self._target is not None and sustained(list(self._recent), self._target):
                self._reached()
            if self._plateau is not None and self._plateau.add(time, version, result):
                self._exhausted(self._plateau.reason)

    def _is_best(self, result: Evaluation) -> bool:
        if not (math.isfinite(result.accuracy) and math.isfinite(result.loss)):
            return False
        return self.best is None or result.accuracy > self.best.accuracy
