"""What evaluations measure, by what the data ask for. It has one name wherever it is shown."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Measure:
    """The measure that the records call accuracy, whatever it is. name: in sentences; key: where names are short.

    as_share: whether it is read as a percentage.
    """

    name: str
    key: str
    as_share: bool

    def beside(self, loss: float, mae: float | None) -> dict[str, float]:
        """What readers of such data are used to as well, by short name: of the loss, and the mean absolute error."""
        if self == NUMBERS:
            rmse = math.sqrt(loss) if loss >= 0 else math.nan
            return {"rmse": rmse} if mae is None else {"rmse": rmse, "mae": mae}
        return {"perplexity": math.exp(min(loss, 700.0))} if self == TOKENS else {}


CLASSES = Measure("accuracy", "accuracy", as_share=True)
TOKENS = Measure("token accuracy", "token_accuracy", as_share=True)
NUMBERS = Measure("R²", "r2", as_share=False)
_BY_TASK = {"classes": CLASSES, "tokens": TOKENS, "numbers": NUMBERS}


def measure_of(data: Mapping[str, Any] | None) -> Measure:
    """The measure of a run, by its fact "data"."""
    return _BY_TASK.get((data or {}).get("task") or "classes", CLASSES)


def measure_of_all(comparison: Mapping[str, Any]) -> Measure:
    """The measure of a comparison (`fedtempo.record.comparison`)."""
    rows: Mapping[str, Any] = next(iter(comparison["strategies"].values()))
    tasks = ((rows.get("data") or {}).get("task") or {}).get("values") or [None]
    return measure_of({"task": tasks[0]})
