"""Further metrics of evaluations (`run.metrics`), computed from a model's outputs for all test examples at once.

scikit-learn computes them. Macro averages are over the classes that occur among the test examples, so that they do not
depend on what a model predicts. A metric that is undefined for the test examples (the AUC of a single class, R² of
equal numbers), or whose outputs are not finite, is NaN.
"""

from __future__ import annotations

import math
import numbers as number_types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt
from pydantic.dataclasses import dataclass as checked_dataclass

from fedtempo.errors import ConfigError, duplicate, nearest
from fedtempo.parts.component import made
from fedtempo.parts.fields import STRICT, Doc
from fedtempo.parts.plugins import imported
from fedtempo.parts.user_code import positional_arguments, user_code

Array = npt.NDArray[Any]
Better = Literal["higher", "lower"]
Gathers = Literal["", "predictions", "outputs", "scores"]
"""What the batches of an evaluation return besides their sums: nothing, the predicted classes, labels or numbers, the
network's outputs, or each example's credit, loss and absolute error."""

CONFUSION, BY_CLASS = "confusion", "by-class"
"""Metrics with more than one value: a matrix, and one value per class."""

_MOST_CLASSES = 1_000
"""Classes up to which a confusion matrix is recorded."""


@dataclass(frozen=True)
class Metric:
    """A metric by name. tasks: those that it is defined for. gathers: what it is computed from.

    compute: returns it from labels and predictions or outputs, as arrays. better: which values are better. as_share:
    whether it is shown as a percentage.
    """

    tasks: tuple[str, ...]
    compute: Callable[[Array, Array], Any]
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
        raise ValueError(f"duplicate name {duplicate(names)!r}; give one of the functions another name")
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


def check_metrics(asked: Sequence[Asked], task: str, n_outputs: int, source: str) -> None:
    """Raise ConfigError for a metric that is not defined for the data's task, or that cannot be imported.

    source: name of the data in the error.
    """
    for entry in asked:
        if isinstance(entry, OwnMetric):
            _function(entry)
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


class Metrics:
    """Computes the metrics asked for. n_outputs: number of the network's outputs (classes, for a confusion matrix)."""

    def __init__(self, asked: Sequence[Asked], n_outputs: int) -> None:
        self._asked, self._n_outputs = tuple(asked), n_outputs
        self._functions = {entry: _function(entry) for entry in asked if isinstance(entry, OwnMetric)}
        needed = {METRICS[entry].gathers if isinstance(entry, str) else "outputs" for entry in asked}
        self.gathers: Gathers = "outputs" if "outputs" in needed else "predictions" if needed else ""

    def of(self, targets: Array, gathered: Array, is_finite: bool = True) -> dict[str, Any]:
        """Return the metrics by name: numbers, an array (classes,) for "by-class", and (classes, classes) for
        "confusion", which counts examples by class and predicted class.

        targets: labels as in `Dataset`. gathered: predictions or outputs, as `gathers` says. is_finite: False if
        outputs are not finite; then all numbers are NaN, and there is no confusion matrix. Raises UserCodeError if a
        user's function fails.
        """
        values: dict[str, Any] = {}
        several = targets.dtype == np.bool_
        predicted = predictions(gathered, targets) if self.gathers == "outputs" else gathered
        for entry in self._asked:
            name = name_of(entry)
            if name == CONFUSION:
                if is_finite:
                    values[name] = _confusion(targets, predicted, self._n_outputs)
            elif name == BY_CLASS:
                shares = _by_label(targets, predicted) if several else _by_class(targets, predicted, self._n_outputs)
                values[name] = shares if is_finite else np.full_like(shares, math.nan)
            elif not is_finite:
                values[name] = math.nan
            elif isinstance(entry, OwnMetric):
                values[name] = self._own(entry, targets, gathered)
            else:
                metric = METRICS[entry]
                values[name] = metric.compute(targets, gathered if metric.gathers == "outputs" else predicted)
        return values

    def _own(self, entry: OwnMetric, targets: Array, outputs: Array) -> float:
        where, function = f"run.metrics: {entry.function!r}", self._functions[entry]
        with user_code(where, function):
            value = function(targets.copy(), outputs.copy())
        value = value.item() if isinstance(value, np.ndarray) and value.ndim == 0 else value
        if not isinstance(value, number_types.Real) or isinstance(value, bool):
            raise ConfigError(f"{where} returned {type(value).__name__}; it must return a number")
        return float(value)


def _function(entry: OwnMetric) -> Callable[[Array, Array], Any]:
    """Return an own metric's function. Raises ConfigError if there is none or it takes other arguments."""
    function: Callable[[Array, Array], Any] = imported(entry.function, "run.metrics")
    if not callable(function) or positional_arguments(function) not in (None, 2):
        raise ConfigError(f"run.metrics: {entry.function!r} must be a function of (targets, outputs)")
    return function


def predictions(outputs: Array, targets: Array) -> Array:
    """Return what outputs predict: the class or token with the largest, labels above 0, or the numbers themselves."""
    if targets.dtype == np.bool_:
        return np.asarray(outputs > 0)
    return outputs if targets.dtype.kind == "f" else outputs.argmax(axis=-1)


def _present(targets: Array) -> Array:
    """Return the classes that occur among labels; of several labels, the columns of those that apply to an example."""
    return np.flatnonzero(targets.any(axis=0)) if targets.dtype == np.bool_ else np.unique(targets)


def _averaged(name: str, average: str, targets: Array, predicted: Array) -> float:
    import sklearn.metrics

    if targets.dtype != np.bool_:
        targets, predicted = targets.ravel(), predicted.ravel()  # tokens are classes of their positions
    labels = _present(targets)
    if not len(labels):
        return math.nan
    function = getattr(sklearn.metrics, name)
    return float(function(targets, predicted, labels=labels, average=average, zero_division=0.0))


def _mcc(targets: Array, predicted: Array) -> float:
    from sklearn.metrics import matthews_corrcoef

    return float(matthews_corrcoef(targets.ravel(), predicted.ravel()))


def _auc(targets: Array, outputs: Array) -> float:
    """Return the macro average over classes of the area under the ROC curve of each class against all others."""
    from scipy.special import softmax
    from sklearn.metrics import roc_auc_score

    several = targets.dtype == np.bool_
    classes = np.unique(targets) if not several else np.arange(targets.shape[1])
    hits = targets if several else targets[:, None] == classes
    decided = hits.any(axis=0) & ~hits.all(axis=0)
    if not decided.any():
        return math.nan
    scores = outputs if several else softmax(outputs.astype(np.float64), axis=1)
    return float(roc_auc_score(hits[:, decided], scores[:, classes[decided]], average="macro"))


def _top(count: int, targets: Array, outputs: Array) -> float:
    """Return the share of examples for which fewer than `count` classes have a larger output than the right one."""
    right = np.take_along_axis(outputs, targets[..., None], axis=-1)
    return float(((outputs > right).sum(axis=-1) < count).mean())


def _exact_match(targets: Array, predicted: Array) -> float:
    from sklearn.metrics import accuracy_score

    return float(accuracy_score(targets, predicted))


def _confusion(targets: Array, predicted: Array, n_classes: int) -> Array:
    from sklearn.metrics import confusion_matrix

    return np.asarray(confusion_matrix(targets.ravel(), predicted.ravel(), labels=np.arange(n_classes)))


def _by_class(targets: Array, predicted: Array, n_classes: int) -> Array:
    """Return the share of each class's examples that are right; NaN without any."""
    labels, right = targets.ravel(), (targets == predicted).ravel()
    counts = np.bincount(labels, minlength=n_classes)
    return np.where(counts, np.bincount(labels, weights=right, minlength=n_classes) / np.maximum(counts, 1), math.nan)


def _by_label(targets: Array, predicted: Array) -> Array:
    """Return the share of all examples for which each of several labels is right."""
    return np.asarray((targets == predicted).mean(axis=0))


def _several_values(targets: Array, predicted: Array) -> float:
    raise TypeError("it has more than one value: Metrics.of computes it")


def _r2(targets: Array, predicted: Array) -> float:
    from sklearn.metrics import r2_score

    varied = np.ptp(targets.reshape(len(targets), -1), axis=0) > 0
    if not varied.all():
        return math.nan
    return float(r2_score(targets.astype(np.float64), predicted.astype(np.float64)))


def _error(name: str, targets: Array, predicted: Array) -> float:
    import sklearn.metrics

    return float(getattr(sklearn.metrics, name)(targets.astype(np.float64), predicted.astype(np.float64)))


_DISCRETE = ("classes", "tokens")
_ANY_LABELS = (*_DISCRETE, "multilabel")

METRICS: Mapping[str, Metric] = MappingProxyType(
    {
        **{
            f"{name}-{average}": Metric(_ANY_LABELS, partial(_averaged, f"{function}_score", average))
            for name, function in (("f1", "f1"), ("precision", "precision"), ("recall", "recall"))
            for average in ("macro", "micro", "weighted")
        },
        "balanced-accuracy": Metric(_DISCRETE, partial(_averaged, "recall_score", "macro")),
        "auc": Metric(("classes", "multilabel"), _auc, "outputs"),
        "mcc": Metric(_DISCRETE, _mcc, as_share=False),
        "top-5": Metric(_DISCRETE, partial(_top, 5), "outputs"),
        "exact-match": Metric(("multilabel",), _exact_match),
        BY_CLASS: Metric(_ANY_LABELS, _several_values),
        CONFUSION: Metric(_DISCRETE, _several_values),
        "r2": Metric(("numbers",), _r2, as_share=False),
        "mae": Metric(("numbers",), partial(_error, "mean_absolute_error"), better="lower", as_share=False),
        "rmse": Metric(("numbers",), partial(_error, "root_mean_squared_error"), better="lower", as_share=False),
        "median-ae": Metric(("numbers",), partial(_error, "median_absolute_error"), better="lower", as_share=False),
    }
)
"""Metrics by name."""

MAIN: Mapping[str, Better] = MappingProxyType({"accuracy": "higher", "loss": "lower"})
"""What every evaluation measures; accuracy: or the measure used instead, such as R² for numbers."""
