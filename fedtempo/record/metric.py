"""The metric of evaluations, by learning task, and its name wherever it is shown."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


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


def measure_of_all(comparison: Mapping[str, Any]) -> Measure:
    """Return the metric of a comparison (`fedtempo.record.comparison`)."""
    rows: Mapping[str, Any] = next(iter(comparison["strategies"].values()))
    tasks = ((rows.get("data") or {}).get("task") or {}).get("values") or [None]
    return measure_of({"task": tasks[0]})
