"""What evaluations measure, by learning task and by `run.metrics`, and its name wherever it is shown."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from fedtempo.errors import ConfigError, nearest

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]
    Columns = Mapping[str, npt.NDArray[Any]]


@dataclass(frozen=True)
class Measure:
    """A measure of evaluations. name: for sentences; key: for fields and columns.

    as_share: whether it is shown as a percentage. better: which values are better; None if that is not known.
    """

    name: str
    key: str
    as_share: bool
    better: Literal["higher", "lower"] | None = "higher"

    @property
    def is_usual(self) -> bool:
        """Whether it is the measure of a learning task, which needs no name beside a percentage."""
        return self in _BY_TASK.values()

    @property
    def choose(self) -> Callable[..., Any] | None:
        """The function that returns the best of several values; None if which are better is not known."""
        return {"higher": max, "lower": min, None: None}[self.better]

    def beside(self, loss: float, mae: float | None) -> dict[str, float]:
        """Return further metrics that are customary for the task, by short name."""
        if self.key == NUMBERS.key:
            rmse = math.sqrt(loss) if loss >= 0 else math.nan
            return {"rmse": rmse} if mae is None else {"rmse": rmse, "mae": mae}
        return {"perplexity": math.exp(min(loss, 700.0))} if self.key == TOKENS.key else {}


CLASSES = Measure("accuracy", "accuracy", as_share=True)
TOKENS = Measure("token accuracy", "token_accuracy", as_share=True)
LABELS = Measure("label accuracy", "label_accuracy", as_share=True)
PIXELS = Measure("pixel accuracy", "pixel_accuracy", as_share=True)
NUMBERS = Measure("R²", "r2", as_share=False)
BETTER_UNKNOWN = (
    "it is not known which values are better; write it in run.metrics as { function = ..., "
    'better = "higher" } or "lower"'
)
LOSS = Measure("loss", "loss", as_share=False, better="lower")
_BY_TASK = {"classes": CLASSES, "multilabel": LABELS, "tokens": TOKENS, "numbers": NUMBERS, "segmentation": PIXELS}


def measure_of(data: Mapping[str, Any] | None) -> Measure:
    """Return the metric that records store as "accuracy", given a run's fact "data"."""
    measure = _BY_TASK.get((data or {}).get("task") or "classes", CLASSES)
    return replace(measure, name=f"validation {measure.name}") if (data or {}).get("evaluated_on") else measure


Values = Mapping[str, Any]
"""The measures of an evaluation by name: accuracy, loss and mae of one on the test set, and further ones."""


@dataclass(frozen=True)
class Score:
    """One number of an evaluation. name: for sentences. of: returns it; None if the evaluation did not measure it."""

    name: str
    higher_is_better: bool
    of: Callable[[Values], float | None]


def score_named(name: str, measure: Measure, further: Mapping[str, Measure], where: str) -> Score:
    """Return the number of evaluations that `name` denotes for a run.

    Names are "accuracy" or `measure.key` for the task's own metric, "loss", those of `Measure.beside`, and `further`.
    where: the key that holds the name. Raises ConfigError for a name that the run does not measure, or if it is not
    known which of its values are better.
    """
    if name in ("accuracy", measure.key):
        return Score(measure.name, True, _number("accuracy"))
    if name == "loss":
        return Score("loss", False, _number("loss"))
    beside = measure.beside(0.0, 0.0)
    if name in beside:
        return Score(name, False, partial(_beside, name, measure))
    if name not in further:
        known = [measure.key, "loss", *beside, *further]
        raise ConfigError(f"{where} = {name!r}: these data have no such measure{nearest(name, known)}")
    if (better := further[name].better) is None:
        raise ConfigError(f"{where} = {name!r}: {BETTER_UNKNOWN}")
    return Score(further[name].name, better == "higher", _number(name))


def _number(name: str) -> Callable[[Values], float | None]:
    return lambda values: values.get(name)


def _beside(name: str, measure: Measure, values: Values) -> float | None:
    if "loss" not in values:
        return None
    return measure.beside(values["loss"], values["mae"]).get(name, math.nan)


def measure_of_all(comparison: Mapping[str, Any]) -> Measure:
    """Return the metric of a comparison (`fedtempo.record.comparison`)."""
    rows: Mapping[str, Any] = next(iter(comparison["strategies"].values()))
    tasks = ((rows.get("data") or {}).get("task") or {}).get("values") or [None]
    return measure_of({"task": tasks[0]})


def metrics_of(facts: Mapping[str, Any]) -> dict[str, Measure]:
    """Return the further measures of a run by name, given its facts."""
    return {
        each["name"]: Measure(each["name"], each["name"], each.get("as_share", False), each.get("better"))
        for each in facts.get("metrics") or ()
    }


def further_of(facts: Mapping[str, Any]) -> dict[str, Measure]:
    """Return all measures of a run besides those of its task by name: of `run.metrics`, and over clients."""
    return {**metrics_of(facts), **metrics_of({"metrics": facts.get("client_measures")})}


@dataclass(frozen=True)
class Target:
    """A value to reach. measure: of which measure. column: of evaluations that holds it, or "" for a further metric."""

    measure: Measure
    value: float
    column: str = "accuracy"

    def values(self, evaluations: Columns, metrics: Columns) -> tuple[Floats, Floats]:
        """Return times and values of the measure in a run's tables; NaN where the loss was not finite."""
        import numpy as np

        if self.column:
            values = np.where(np.isfinite(evaluations["loss"]), evaluations[self.column], np.nan)
            return evaluations["time"], values
        return metric_series(metrics, self.measure.key)


def metric_series(metrics: Columns, name: str) -> tuple[Floats, Floats]:
    """Return times and values of a measure with one value, from the table of metrics."""
    rows = (metrics["name"] == name) & (metrics["class"] < 0)
    return metrics["time"][rows], metrics["value"][rows]


def last_by_class(metrics: Columns) -> Floats:
    """Return the accuracy of each class, (classes,), at its last evaluation; empty if there is none."""
    import numpy as np

    rows = np.flatnonzero(metrics["class"] >= 0)
    values: Floats = metrics["value"][rows[-(int(metrics["class"][rows].max()) + 1) :]] if rows.size else np.empty(0)
    return values


def target_of(facts: Mapping[str, Any]) -> Target | None:
    """Return the target of a run, given its facts or its summary."""
    if facts.get("target_accuracy") is not None:
        return Target(measure_of(facts.get("data")), facts["target_accuracy"])
    if (target := facts.get("target")) is None:
        return None
    if target["name"] == "loss":
        return Target(LOSS, target["value"], "loss")
    return Target(Measure(target["name"], target["name"], target["as_share"], target["better"]), target["value"], "")


def aim(target: Target | None, name: str) -> float | None:
    """Return the target's value if it is one of this measure: "accuracy", "loss", or a further one by name."""
    return target.value if target is not None and (target.column or target.measure.key) == name else None


def target_of_all(comparison: Mapping[str, Any]) -> Target | None:
    """Return the target of a comparison."""
    if comparison["target_accuracy"] is not None:
        return Target(measure_of_all(comparison), comparison["target_accuracy"])
    return target_of(comparison)


def metrics_of_all(comparison: Mapping[str, Any]) -> dict[str, Measure]:
    """Return the further measures in a comparison by name."""
    return metrics_of({"metrics": comparison.get("measures")})
