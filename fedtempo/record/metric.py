"""The metric of evaluations, by learning task, and its name wherever it is shown."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from fedtempo.errors import ConfigError, nearest


@dataclass(frozen=True)
class Measure:
    """The metric that records store as "accuracy". name: for sentences; key: for fields and columns.

    as_share: whether it is shown as a percentage.
    """

    name: str
    key: str
    as_share: bool

    def beside(self, loss: float, mae: float | None) -> dict[str, float]:
        """Return further metrics that are customary for the task, by short name."""
        if self == NUMBERS:
            rmse = math.sqrt(loss) if loss >= 0 else math.nan
            return {"rmse": rmse} if mae is None else {"rmse": rmse, "mae": mae}
        return {"perplexity": math.exp(min(loss, 700.0))} if self == TOKENS else {}


CLASSES = Measure("accuracy", "accuracy", as_share=True)
TOKENS = Measure("token accuracy", "token_accuracy", as_share=True)
LABELS = Measure("label accuracy", "label_accuracy", as_share=True)
NUMBERS = Measure("R²", "r2", as_share=False)
_BY_TASK = {"classes": CLASSES, "multilabel": LABELS, "tokens": TOKENS, "numbers": NUMBERS}


def measure_of(data: Mapping[str, Any] | None) -> Measure:
    """Return the metric of a run, given its fact "data"."""
    return _BY_TASK.get((data or {}).get("task") or "classes", CLASSES)


class Evaluated(Protocol):
    """The results of an evaluation, as executors return them and records hold them."""

    @property
    def accuracy(self) -> float: ...
    @property
    def loss(self) -> float: ...
    @property
    def mae(self) -> float | None: ...


@dataclass(frozen=True)
class Score:
    """One number of an evaluation. name: for sentences. of: returns it; NaN if the evaluation has none."""

    name: str
    higher_is_better: bool
    of: Callable[[Evaluated], float]


def score_named(name: str, measure: Measure, where: str) -> Score:
    """Return the number of evaluations that `name` denotes for a task.

    Names are "accuracy" or `measure.key` for the task's own metric, "loss", and those of `Measure.beside`. where: the
    key that holds the name. Raises ConfigError for a name that the task does not have.
    """
    if name in ("accuracy", measure.key):
        return Score(measure.name, True, lambda evaluation: evaluation.accuracy)
    if name == "loss":
        return Score("loss", False, lambda evaluation: evaluation.loss)
    beside = measure.beside(0.0, 0.0)
    if name in beside:
        return Score(name, False, partial(_beside, name, measure))
    known = [measure.key, "loss", *beside]
    raise ConfigError(f"{where} = {name!r}: these data have no such measure{nearest(name, known)}")


def _beside(name: str, measure: Measure, evaluation: Evaluated) -> float:
    return measure.beside(evaluation.loss, evaluation.mae).get(name, math.nan)


def measure_of_all(comparison: Mapping[str, Any]) -> Measure:
    """Return the metric of a comparison (`fedtempo.record.comparison`)."""
    rows: Mapping[str, Any] = next(iter(comparison["strategies"].values()))
    tasks = ((rows.get("data") or {}).get("task") or {}).get("values") or [None]
    return measure_of({"task": tasks[0]})
