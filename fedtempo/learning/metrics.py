"""Further metrics of evaluations (`run.metrics`): which there are, and what configurations may ask for.

`metric_values` computes them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, Any, Literal

from pydantic.dataclasses import dataclass as checked_dataclass

from fedtempo.errors import ConfigError, duplicate, nearest
from fedtempo.parts.component import made
from fedtempo.parts.fields import STRICT, Doc
from fedtempo.parts.plugins import imported
from fedtempo.parts.user_code import positional_arguments

Better = Literal["higher", "lower"]
Gathers = Literal["", "predictions", "outputs", "scores"]
"""What the batches of an evaluation return besides their sums: nothing, the predicted classes, labels or numbers (of
masks: the pixels of each image by class and predicted class), the network's outputs, or each example's credit, loss and
absolute error."""

CONFUSION, BY_CLASS = "confusion", "by-class"
"""Metrics with more than one value: a matrix, and one value per class."""

_MOST_CLASSES = 1_000
"""Classes up to which a confusion matrix is recorded."""


@dataclass(frozen=True)
class Metric:
    """A metric by name. tasks: those that it is defined for. gathers: what it is computed from.

    better: which values are better. as_share: whether it is shown as a percentage.
    """

    tasks: tuple[str, ...]
    gathers: Gathers = "predictions"
    better: Better = "higher"
    as_share: bool = True


@checked_dataclass(frozen=True, config=STRICT)
class OwnMetric:
    """A metric of your own: {function, name, better}."""

    function: Annotated[
        str,
        Doc(
            "module:function of (targets, outputs), NumPy arrays of all test examples, that returns a number; outputs: "
            "logits (..., classes or labels), or numbers in the shape of the targets"
        ),
    ]
    name: Annotated[str, Doc("name in records and tables (default: the function's)")] = ""
    better: Annotated[
        Better | None, Doc("which values are better, for targets and for the best in tables (default: not known)")
    ] = None

    def __post_init__(self) -> None:
        if ":" not in self.function:
            raise ValueError(f"function = {self.function!r}: must be module:function")

    @property
    def shown_name(self) -> str:
        return self.name or self.function.partition(":")[2]


Asked = str | OwnMetric
"""An entry of `run.metrics`: a name of METRICS, module:function, or a table."""


def asked_from(value: Any) -> Any:
    """Return the entries of `run.metrics`, as a configuration writes them, as names and OwnMetrics.

    Raises ValueError, in one line, for an unknown name or one that is given twice.
    """
    if not isinstance(value, list | tuple):
        raise ValueError(f"{value!r}: give a list of names, module:function, or {{function, name, better}}")
    asked = tuple(_asked(entry) for entry in value)
    names = [name_of(entry) for entry in asked]
    if len(set(names)) < len(names):
        name = duplicate(names)
        hint = "name it once" if name in METRICS else "give one of the functions another name"
        raise ValueError(f"duplicate {name!r}; {hint}")
    return asked


def _asked(entry: Any) -> Asked:
    if isinstance(entry, Mapping):
        entry = made(OwnMetric, dict(entry), "an own metric")
    elif isinstance(entry, str) and ":" in entry:
        entry = OwnMetric(entry)
    if not isinstance(entry, str | OwnMetric):
        raise ValueError(f"{entry!r}: give a name, module:function, or {{function, name, better}}")
    if isinstance(entry, str) and entry not in METRICS:
        raise ValueError(f"no such metric: {entry!r}{nearest(entry, METRICS)}, or module:function")
    if isinstance(entry, OwnMetric) and (entry.shown_name in METRICS or entry.shown_name in MAIN):
        raise ValueError(f"{entry.function!r}: {entry.shown_name!r} is another metric; give it another name")
    asked: Asked = entry
    return asked


def name_of(asked: Asked) -> str:
    """Return the name of a metric in records and tables."""
    return asked if isinstance(asked, str) else asked.shown_name


def better_of(asked: Asked) -> Better | None:
    """Return which values of a metric are better; None if its function's author has not said."""
    return METRICS[asked].better if isinstance(asked, str) else asked.better


def facts_of(asked: Sequence[Asked]) -> list[dict[str, Any]]:
    """Return what records say about metrics with one value.

    Their names, which values are better, and whether they are shown as percentages.
    """
    return [
        {
            "name": name_of(entry),
            "better": better_of(entry),
            "as_share": isinstance(entry, str) and METRICS[entry].as_share,
        }
        for entry in asked
        if entry not in (BY_CLASS, CONFUSION)
    ]


def function_of(entry: OwnMetric) -> Callable[[Any, Any], Any]:
    """Return an own metric's function. Raises ConfigError if there is none or it takes other arguments."""
    function: Callable[[Any, Any], Any] = imported(entry.function, "run.metrics")
    if not callable(function) or positional_arguments(function) not in (None, 2):
        raise ConfigError(f"run.metrics: {entry.function!r} must be a function of (targets, outputs)")
    return function


def check_metrics(asked: Sequence[Asked], task: str, n_outputs: int, source: str) -> None:
    """Raise ConfigError for a metric that is not defined for the data's task, or that cannot be imported.

    source: name of the data in the error.
    """
    for entry in asked:
        if isinstance(entry, OwnMetric):
            function_of(entry)
        elif task not in METRICS[entry].tasks:
            fitting = [name for name, metric in METRICS.items() if task in metric.tasks]
            raise ConfigError(
                f"run.metrics: {entry!r} is not defined for {source}, which has {task}; choose from "
                f"{', '.join(fitting)}, or module:function"
            )
        elif entry == CONFUSION and n_outputs > _MOST_CLASSES:
            raise ConfigError(
                f"run.metrics: 'confusion' records up to {_MOST_CLASSES:,} classes, and {source} has {n_outputs:,}; "
                "remove it"
            )


_DISCRETE = ("classes", "tokens")
_ANY_LABELS = (*_DISCRETE, "multilabel")

METRICS: Mapping[str, Metric] = MappingProxyType(
    {
        **{
            f"{name}-{average}": Metric(_ANY_LABELS)
            for name in ("f1", "precision", "recall")
            for average in ("macro", "micro", "weighted")
        },
        "balanced-accuracy": Metric((*_DISCRETE, "segmentation")),
        "mean-iou": Metric(("segmentation",)),
        "dice": Metric(("segmentation",)),
        "auc": Metric(("classes", "multilabel"), "outputs"),
        "mcc": Metric(_DISCRETE, as_share=False),
        "top-5": Metric(_DISCRETE, "outputs"),
        "exact-match": Metric(("multilabel",)),
        BY_CLASS: Metric((*_ANY_LABELS, "segmentation")),
        CONFUSION: Metric((*_DISCRETE, "segmentation")),
        "r2": Metric(("numbers",), as_share=False),
        "mae": Metric(("numbers",), better="lower", as_share=False),
        "rmse": Metric(("numbers",), better="lower", as_share=False),
        "median-ae": Metric(("numbers",), better="lower", as_share=False),
    }
)
"""Metrics by name."""

MAIN: Mapping[str, Better] = MappingProxyType({"accuracy": "higher", "loss": "lower"})
"""What every evaluation measures; accuracy: or the measure used instead, such as R² for numbers."""
