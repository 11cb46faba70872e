"""Metrics of masks, from the numbers of all test pixels by class and predicted class.

Means are over the classes that occur among the test pixels, the background included, if there is one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def counted(targets: Array, predicted: Array, n_classes: int) -> Array:
    """Return the pixels by class and predicted class, (classes, classes), without those of a negative class."""
    known = targets >= 0
    cells = targets[known] * n_classes + predicted[known]
    return np.bincount(cells, minlength=n_classes**2).reshape(n_classes, n_classes)


def iou(counts: Array) -> Array:
    """Return TP / (TP + FP + FN) of each class, (classes,), the intersection over union; NaN without test pixels."""
    right, actual, predicted = _of_classes(counts)
    return _share(right, actual + predicted - right, actual)


def dice(counts: Array) -> Array:
    """Return 2 TP / (2 TP + FP + FN) of each class, (classes,), which is its F1 score; NaN without test pixels."""
    right, actual, predicted = _of_classes(counts)
    return _share(2 * right, actual + predicted, actual)


def recall(counts: Array) -> Array:
    """Return the share of each class's pixels that are right, (classes,); NaN without test pixels."""
    right, actual, _ = _of_classes(counts)
    return _share(right, actual, actual)


def mean_of(values: Array) -> float:
    """Return the mean over the classes that have a value."""
    return float(np.nanmean(values))


def _of_classes(counts: Array) -> tuple[Array, Array, Array]:
    """Return the pixels of each class that are right, that there are, and that are predicted."""
    return np.diag(counts), counts.sum(axis=1), counts.sum(axis=0)


def _share(part: Array, whole: Array, actual: Array) -> Array:
    return np.where(actual > 0, part / np.maximum(whole, 1), np.nan)


PER_CLASS: Mapping[str, Callable[[Array], Array]] = MappingProxyType(
    {"mean-iou": iou, "dice": dice, "balanced-accuracy": recall}
)
"""Metrics by name that are means over classes, as values of each class."""
