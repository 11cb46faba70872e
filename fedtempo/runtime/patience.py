"""Patience: end a run when a measure no longer improves."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated

from pydantic.dataclasses import dataclass

from fedtempo.parts.fields import STRICT, Count, Doc, NonNegative
from fedtempo.record.metric import Measure, Values, score_named


@dataclass(frozen=True, config=STRICT)
class Patience:
    """The table `run.patience`."""

    evaluations: Annotated[
        Count, Doc("number of evaluated versions in a row without an improvement after which the run ends")
    ]
    measure: Annotated[
        str,
        Doc(
            "what must improve: loss, a measure of the task, such as accuracy, r2, mae, rmse or perplexity, one of "
            "metrics, or a statistic over clients, such as clients-worst-tenth"
        ),
    ] = "accuracy"
    min_delta: Annotated[NonNegative, Doc("an improvement must be larger than this")] = 0.0


class Plateau:
    """Detects that a measure no longer improves. Raises ConfigError if the run has no measure of that name.

    An evaluation improves if it is better than the best so far by more than `min_delta`. Values that are not finite do
    not improve. Evaluations that do not measure it do not count, and a version that is evaluated again counts once, so
    that a run with few commits is not ended early.
    """

    def __init__(self, patience: Patience, measure: Measure, further: Mapping[str, Measure], where: str = "") -> None:
        """measure: that of the run's task. further: its other measures by name (`record.metric.further_of`).

        where: what they are measured on, for `reason`.
        """
        self._where = where
        self._patience = patience
        self._score = score_named(patience.measure, measure, further, "run.patience.measure")
        self._best: float | None = None
        self._best_s = 0.0
        self._version = -1
        self._without = 0

    def add(self, time: float, version: int, values: Values) -> bool:
        """Add the next evaluation, made at `time` (s), by its values; return whether patience has run out."""
        value = self._score.of(values)
        if value is None or version == self._version:
            return False
        self._version = version
        if self._improves(value):
            self._best, self._best_s, self._without = value, time, 0
        else:
            self._without += 1
        return self._without >= self._patience.evaluations

    def _improves(self, value: float) -> bool:
        if not math.isfinite(value):
            return False
        if self._best is None:
            return True
        gain = value - self._best if self._score.higher_is_better else self._best - value
        return gain > self._patience.min_delta

    @property
    def reason(self) -> str:
        """Why a run ends now, in words."""
        count, least = self._patience.evaluations, self._patience.min_delta
        by = f" by more than {least:g}" if least else ""
        best = "" if self._best is None else f" (best: {self._best:.4g} at {self._best_s:g} s)"
        what = "the last evaluated version" if count == 1 else f"the last {count} evaluated versions"
        return f"{self._score.name}{self._where} did not improve{by} in {what}{best}"
