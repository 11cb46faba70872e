"""Detect failures that do not end a run: training that diverges, a model that stands still, no training at all.

Each kind is reported once, when it is first seen. Definitions:

- An evaluation is *not finite* if its loss is not. Its accuracy is then meaningless: it is recorded as
  missing, reaches no target and is never the best.
- A run *diverged* if at its end the last evaluation is not finite ("evaluation"); or the final model has a parameter
  that is not finite ("model"); or the last `REFUSED_IN_A_ROW` or more updates since the last commit were all rejected
  as not finite ("updates"); or the last loss is more than `LOSS_FACTOR` times that of the initial model ("loss").
- The model *stands still* if at least `STILL_EVALUATIONS` evaluated versions, the last among them, have exactly the
  same loss and accuracy, and at least `STILL_VERSIONS` commits lie between the first and the last of these.
- Clients are *absent* if from some time before the run's end on none is available again.
- A run is *untrained* if it reached its end without a completed visit, or without a commit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

LOSS_FACTOR = 20.0
REFUSED_IN_A_ROW = 10
STILL_EVALUATIONS = 3
STILL_VERSIONS = 10

_REASONS = {
    "evaluation": "the last loss is not finite",
    "model": "the final model is not finite",
    "updates": "the last updates were all rejected: not finite",
    "loss": f"the last loss is more than {LOSS_FACTOR:g} times the first",
}


def reason(diverged: str) -> str:
    """Return the meaning of a summary's "diverged", in words."""
    return _REASONS.get(diverged, diverged)


class Health:
    """Watches one run. say: called with each warning when it arises.

    alert: whether the next completed visit must be reported by `served`. warnings: all so far, in order.
    """

    def __init__(self, say: Callable[[str], None] = lambda line: None) -> None:
        self._say = say
        self._said: set[str] = set()
        self.warnings: list[str] = []
        self.alert = True
        self._served = False
        self._evaluations = self._updates = self._refused_in_a_row = 0
        self._first_s: float | None = None
        self._initial_loss: float | None = None
        self._loss: float | None = None
        self._model_finite = True
        self._expected = ""
        self._still = _Still()

    @classmethod
    def of(cls, evaluations: Mapping[str, npt.NDArray[Any]]) -> Health:
        """Return the health that follows from evaluations alone, for runs recorded without the fact "health"."""
        health = cls()
        if not np.isfinite(evaluations["loss"]).any():
            return health  # nothing was trained
        columns = (evaluations[name].tolist() for name in ("time", "version", "accuracy", "loss"))
        for time, version, accuracy, loss in zip(*columns):
            health.evaluation(time, version, accuracy, loss)
        return health

    def evaluation(self, time: float, version: int, accuracy: float, loss: float) -> None:
        """Take note that a version of the global model was evaluated at `time`, seconds."""
        self._loss = loss
        if not math.isfinite(loss):
            self._evaluations += 1
            self._not_finite(time)
            self.warn("evaluation", f"training diverged: the loss of version {version} is not finite (t = {time:g} s)")
            return
        if self._initial_loss is None:
            self._initial_loss = loss
        if self._rose(loss):
            self.warn(
                "loss",
                f"training diverged: the loss of version {version} is {loss:.3g}, more than {LOSS_FACTOR:g} times that "
                f"of the initial model, {self._initial_loss:.3g} (t = {time:g} s)",
            )
        if self._still.add(time, version, (accuracy, loss)) and self._still.stands:
            since_s, first, last = self._still.first_s, self._still.first, self._still.last
            same = f"versions {first} to {last} have exactly the same loss"
            self.warn("still", f"the model stands still since t = {since_s:g} s: {same}")

    def refused(self, time: float, client: int, flaw: str) -> None:
        """Take note that an update was rejected as not finite, unless a simulated fault caused it."""
        self._updates += 1
        self._refused_in_a_row += 1
        self.alert = True
        self._not_finite(time)
        self.warn(
            "updates",
            f"an update of client {client} was rejected at t = {time:g} s: {flaw}; "
            "later ones are counted, not reported",
        )
        if self._refused_in_a_row == REFUSED_IN_A_ROW:
            self.warn(
                "refused in a row",
                f"{REFUSED_IN_A_ROW} updates in a row were rejected as not finite (t = {time:g} s)",
            )

    def committed(self) -> None:
        """Take note of a commit."""
        self._refused_in_a_row = 0

    def served(self) -> None:
        """Take note of a completed visit."""
        self.alert, self._served, self._refused_in_a_row = False, True, 0

    def expect(self, shortest_s: float, longest_s: float) -> None:
        """Set the expected mean duration of visits to the fastest and to the slowest client, seconds."""
        takes = f"{shortest_s:.4g} s"
        if longest_s > shortest_s:
            takes += f" (fastest client) to {longest_s:.4g} s (slowest)"
        self._expected = f"; a visit takes {takes} on average"

    def same_times(self, work: str) -> None:
        """Warn that visits take the seconds that the fleet states, whatever work they do. work: setting and value."""
        self.warn(
            "same times",
            f"visits take the seconds of fleet.compute (unit = 's/visit'), whatever {work} is; set unit = 's/example' "
            "for times that grow with the work, or ignore_work = true if this is meant",
        )

    def absent_from(self, time: float) -> None:
        """Warn that every client is away from `time` on, which is before the end of the run."""
        self.warn("absent", f"every client is away from t = {time:g} s on: windows without period_s are used once")

    def unserved(self, time: float) -> None:
        """Warn if no visit is complete by `time`, by which one should be."""
        if not self._served and not self._updates:
            self.warn("untrained", f"nobody trains: no client has finished a visit by t = {time:g} s{self._expected}")

    def finish(self, end_s: float, *, visits: int, commits: int, model: npt.NDArray[np.float32] | None) -> None:
        """Check the run at its end. visits: number completed. model: the final one; None without training."""
        if model is not None and not np.isfinite(model).all():
            self._model_finite = False
            self.warn("model", "training diverged: the final model has parameters that are not finite")
        if not visits and not self._updates:
            self.warn("untrained", f"nobody trained: no client finished a visit in {end_s:g} s{self._expected}")
        elif visits and not commits:
            self.warn("untrained", f"nothing was learned: {visits:,} visits were completed, but none led to a commit")

    def warn(self, kind: str, line: str) -> None:
        """Report a line, once for each kind."""
        if kind not in self._said:
            self._said.add(kind)
            self.warnings.append(line)
            self._say(line)

    @property
    def diverged(self) -> str | None:
        """Why the run would count as diverged if it ended now (an argument of `reason`); None if it would not."""
        if self._loss is not None and not math.isfinite(self._loss):
            return "evaluation"
        if not self._model_finite:
            return "model"
        if self._refused_in_a_row >= REFUSED_IN_A_ROW:
            return "updates"
        return "loss" if self._loss is not None and self._rose(self._loss) else None

    def as_fact(self) -> dict[str, Any]:
        """Return the fact "health", whose fields `fedtempo.record.summary.summarise` describes."""
        return {
            "diverged": self.diverged,
            "not_finite": {"evaluations": self._evaluations, "updates": self._updates, "first_s": self._first_s},
            "still_since_s": self._still.first_s if self._still.stands else None,
            "warnings": list(self.warnings),
        }

    def _not_finite(self, time: float) -> None:
        # Evaluations are collected late, so times are not in order.
        self._first_s = time if self._first_s is None else min(self._first_s, time)

    def _rose(self, loss: float) -> bool:
        initial = self._initial_loss
        return initial is not None and initial > 0 and loss > LOSS_FACTOR * initial


class _Still:
    """Tracks whether the latest versions measure exactly the same. first, last: versions; first_s: since when."""

    def __init__(self) -> None:
        self._measured: tuple[float, float] | None = None
        self.first = self.last = self._versions = 0
        self.first_s: float | None = None

    def add(self, time: float, version: int, measured: tuple[float, float]) -> bool:
        """Add an evaluation; return whether it is of another version and measures the same."""
        if measured != self._measured:
            self._measured, self._versions = measured, 1
            self.first, self.last, self.first_s = version, version, time
            return False
        if version == self.last:
            return False
        self.last = version
        self._versions += 1
        return True

    @property
    def stands(self) -> bool:
        return self._versions >= STILL_EVALUATIONS and self.last - self.first >= STILL_VERSIONS
