"""Values of further metrics (`run.metrics`), computed from a model's outputs for all test examples at once.

scikit-learn computes them. Macro averages are over the classes that occur among the test examples, so that they do not
depend on what a model predicts. A metric that is undefined for the test examples (the AUC of a single class, R² of
equal numbers), or whose outputs are not finite, is NaN.
"""

from __future__ import annotations

import math
import numbers as number_types
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from fedtempo.errors import ConfigError
from fedtempo.learning import pixel_metrics
from fedtempo.learning.metrics import BY_CLASS, CONFUSION, METRICS, Asked, Gathers, OwnMetric, function_of, name_of
from fedtempo.parts.user_code import user_code

Array = npt.NDArray[Any]


class Metrics:
    """Computes the metrics asked for. n_outputs: number of the network's outputs (classes, for a confusion matrix)."""

    def __init__(self, asked: Sequence[Asked], n_outputs: int) -> None:
        self._asked, self._n_outputs = tuple(asked), n_outputs
        self._functions = {entry: function_of(entry) for entry in asked if isinstance(entry, OwnMetric)}
        needed = {METRICS[entry].gathers if isinstance(entry, str) else "outputs" for entry in asked}
        self.gathers: Gathers = "outputs" if "outputs" in needed else "predictions" if needed else ""

    def of(self, targets: Array, gathered: Array, is_finite: bool = True) -> dict[str, Any]:
        """Return the metrics by name: numbers, an array (classes,) for "by-class", and (classes, classes) for
        "confusion", which counts examples by class and predicted class.

        targets: labels as in `Dataset`. gathered: predictions or outputs, as `gathers` says. is_finite: False if
        outputs are not finite; then all numbers are NaN, and there is no confusion matrix. Raises UserCodeError if a
        user's function fails.
        """
        if targets.ndim == 3:
            return self._of_masks(targets, gathered, is_finite)
        several = targets.dtype == np.bool_
        predicted = predictions(gathered, targets) if self.gathers == "outputs" else gathered
        return self._values(
            targets,
            gathered,
            is_finite,
            confusion=lambda: _confusion(targets, predicted, self._n_outputs),
            by_class=lambda: (
                _by_label(targets, predicted) if several else _by_class(targets, predicted, self._n_outputs)
            ),
            named=lambda metric: _COMPUTE[metric](
                targets, gathered if METRICS[metric].gathers == "outputs" else predicted
            ),
        )

    def _of_masks(self, targets: Array, gathered: Array, is_finite: bool) -> dict[str, Any]:
        """Return `of` for masks, whose predictions are gathered as counts."""
        if self.gathers == "outputs":
            counts = pixel_metrics.counted(targets, gathered.argmax(axis=1), self._n_outputs)
        else:
            counts = gathered.sum(axis=0)
        return self._values(
            targets,
            gathered,
            is_finite,
            confusion=lambda: counts,
            by_class=lambda: pixel_metrics.recall(counts),
            named=lambda metric: pixel_metrics.mean_of(pixel_metrics.PER_CLASS[metric](counts)),
        )

    def _values(
        self,
        targets: Array,
        gathered: Array,
        is_finite: bool,
        *,
        confusion: Callable[[], Array],
        by_class: Callable[[], Array],
        named: Callable[[str], float],
    ) -> dict[str, Any]:
        """Return what was asked for. confusion, by_class, named: compute it, the last one a metric by its name."""
        values: dict[str, Any] = {}
        for entry in self._asked:
            name = name_of(entry)
            if name == CONFUSION:
                if is_finite:
                    values[name] = confusion()
            elif name == BY_CLASS:
                shares = by_class()
                values[name] = shares if is_finite else np.full_like(shares, math.nan)
            elif not is_finite:
                values[name] = math.nan
            elif isinstance(entry, OwnMetric):
                values[name] = self._own(entry, targets, gathered)
            else:
                values[name] = named(entry)
        return values

    def _own(self, entry: OwnMetric, targets: Array, outputs: Array) -> float:
        where, function = f"run.metrics: {entry.function!r}", self._functions[entry]
        with user_code(where, function):
            value = function(targets.copy(), outputs.copy())
        value = value.item() if isinstance(value, np.ndarray) and value.ndim == 0 else value
        if not isinstance(value, number_types.Real) or isinstance(value, bool):
            raise ConfigError(f"{where} returned {type(value).__name__}; it must return a number")
        return float(value)


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


def _r2(targets: Array, predicted: Array) -> float:
    from sklearn.metrics import r2_score

    varied = np.ptp(targets.reshape(len(targets), -1), axis=0) > 0
    if not varied.all():
        return math.nan
    return float(r2_score(targets.astype(np.float64), predicted.astype(np.float64)))


def _error(name: str, targets: Array, predicted: Array) -> float:
    import sklearn.metrics

    return float(getattr(sklearn.metrics, name)(targets.astype(np.float64), predicted.astype(np.float64)))


_COMPUTE: Mapping[str, Callable[[Array, Array], Any]] = MappingProxyType(
    {
        **{
            f"{name}-{average}": partial(_averaged, f"{name}_score", average)
            for name in ("f1", "precision", "recall")
            for average in ("macro", "micro", "weighted")
        },
        "balanced-accuracy": partial(_averaged, "recall_score", "macro"),
        "auc": _auc,
        "mcc": _mcc,
        "top-5": partial(_top, 5),
        "exact-match": _exact_match,
        "r2": _r2,
        "mae": partial(_error, "mean_absolute_error"),
        "rmse": partial(_error, "root_mean_squared_error"),
        "median-ae": partial(_error, "median_absolute_error"),
    }
)
"""Functions of labels and of predictions or outputs, as a metric gathers them, for metrics with one value."""
