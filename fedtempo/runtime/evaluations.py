"""When the global model is evaluated, and what came out.

An evaluation belongs to a virtual instant, but its real work may finish later: results are collected in order, at the
latest when a few are outstanding or where the run's end depends on them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from fedtempo.federation import Model
from fedtempo.record.recorder import Recorder
from fedtempo.runtime.executors import Evaluation, Executor, Pending

_OUTSTANDING = 8
"""Evaluations that may wait at once: each keeps a model alive."""


class Evaluations:
    """Evaluates the global model every so often, or at each commit, and notices when the target is reached.

    target: accuracy; `reached` is called once the mean of three consecutive evaluations is at or above it (curves of
    asynchronous training oscillate: one lucky evaluation is no result). It is called only where `stop` is set, since
    every evaluation is then waited for at its instant.
    """

    def __init__(
        self,
        executor: Executor,
        recorder: Recorder,
        *,
        on_commit: bool = False,
        target: float | None = None,
        stop: bool = False,
        reached: Callable[[], None] = lambda: None,
    ) -> None:
        self._executor, self._recorder = executor, recorder
        self._on_commit, self._target, self._stop, self._reached = on_commit, target, stop, reached
        self._outstanding: deque[tuple[float, int, Pending[Evaluation]]] = deque()
        self._latest: tuple[int, Pending[Evaluation]] | None = None
        self._last_time: float | None = None
        self._recent: deque[float] = deque(maxlen=3)
        self.accuracy: float | None = None
        """The latest collected accuracy."""

    def committed(self, now: float, model: Model) -> None:
        """A commit happened: evaluate it where each commit is to be evaluated."""
        if self._on_commit:
            self.due(now, model)

    def due(self, now: float, model: Model) -> None:
        """Evaluate `model` as the global model at `now`; a model that was just evaluated is not evaluated again."""
        if not self._executor.trains:
            return
        if self._latest is None or self._latest[0] != model.version:
            self._latest = model.version, self._executor.evaluate(model.location)
        elif self._last_time == now:
            return
        self._last_time = now
        self._outstanding.append((now, model.version, self._latest[1]))
        self.collect(leave=0 if self._stop else _OUTSTANDING)

    def collect(self, leave: int = 0) -> None:
        """Record results in order: those that are there, and more until at most `leave` are outstanding."""
        while self._outstanding and (len(self._outstanding) > leave or self._outstanding[0][2].done()):
            time, version, pending = self._outstanding.popleft()
            result = pending.result()
            self._recorder.evaluation(time, version, result.accuracy, result.loss)
            self.accuracy = result.accuracy
            self._recent.append(result.accuracy)
            sustained = self._target is not None and len(self._recent) == 3 and sum(self._recent) / 3 >= self._target
            if self._stop and sustained:
                self._reached()
