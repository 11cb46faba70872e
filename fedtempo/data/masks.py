"""Understand masks: labels for segmentation, one class for each pixel of an image."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from fedtempo.data.labels import Labels, Task, ask, must_be_trained
from fedtempo.parts.natural_order import listed

Array = npt.NDArray[Any]

IGNORED = -100
"""Label of pixels that are neither trained on nor evaluated; PyTorch's default."""

_MOST_EMPTY = 20


def are_masks(labels: npt.ArrayLike, task: str | None) -> bool:
    """Return whether labels are masks: the task says so, or they are numbers of shape (n, height, width) or more."""
    values = np.asarray(labels)
    return task == "segmentation" or (task is None and values.ndim > 2 and values.dtype.kind in "biuf")


def understood_masks(
    train: npt.ArrayLike,
    test: npt.ArrayLike,
    task: Task | None,
    n_classes: int | None,
    inputs: Sequence[Array],
    ignore: int | None,
) -> Labels:
    """Return training and test masks, int64 (n, height, width), with `IGNORED` where they hold `ignore`.

    Classes are whole numbers from 0, booleans, or 0 and 255; (n, 1, height, width) and (n, height, width, 1) lose the
    axis of length 1. task: None to derive it. n_classes: the number of classes, if known. inputs: training and test
    inputs. Raises ValueError, in one line, for masks that are ambiguous or no masks.
    """
    if ignore is not None and (not isinstance(ignore, int) or isinstance(ignore, bool)):
        raise ValueError(f"ignore = {ignore!r}: must be a whole number, the value of pixels that have no label")
    y, z = (_plain(name, np.asarray(labels)) for name, labels in (("train_y", train), ("test_y", test)))
    if y.shape[1:] != z.shape[1:]:
        raise ValueError(f"training masks have shape {y.shape[1:]}, test masks {z.shape[1:]}; both must agree")
    _check_fits(y, task, inputs)
    is_void = [labels == (IGNORED if ignore is None else ignore) for labels in (y, z)]
    for name, void in zip(("train_y", "test_y"), is_void):
        if len(empty := np.flatnonzero(void.all(axis=(1, 2)))):
            raise ValueError(f"{name}: no pixel of example {empty[0]} has a label; remove it ({len(empty)} examples)")
    known = [labels[~void] for labels, void in zip((y, z), is_void)]
    kinds = [np.unique(values) for values in known]
    if sorted({*kinds[0].tolist(), *kinds[1].tolist()}) == [0, 255] and n_classes is None:
        y, z = ((labels == 255).astype(np.int64) for labels in (y, z))
        known, kinds, names = [values // 255 for values in known], [kind // 255 for kind in kinds], ", 0 and 255"
    else:
        names = ""
    n_classes = _checked_number(known, kinds, n_classes, task)
    y, z = (np.where(void, IGNORED, labels) for labels, void in zip((y, z), is_void))
    return Labels(y, z, n_classes, about=_about(known[0], is_void[0], n_classes, y.shape[1:], names))


def _plain(name: str, values: Array) -> Array:
    """Return masks as int64 (n, height, width)."""
    if values.dtype.kind not in "biuf":
        raise ValueError(f"{name} is {values.dtype}; a mask must hold the number of each pixel's class")
    if values.ndim == 4 and 1 in (values.shape[1], values.shape[3]):
        values = values[:, 0] if values.shape[1] == 1 else values[..., 0]
    if values.ndim != 3:
        one_hot = f"; if its axis of length {min(values.shape[1:])} is one-hot, take argmax" if values.ndim > 3 else ""
        raise ValueError(
            f"{name} has shape {values.shape}; must be (examples, height, width), the number of each pixel's class"
            f"{one_hot}"
        )
    if values.dtype.kind == "f" and not (np.isfinite(values).all() and (values == np.floor(values)).all()):
        raise ValueError(
            f"{name} holds numbers that are not whole, one for each pixel; a mask must hold whole numbers, its classes"
        )
    return values.astype(np.int64)


def _check_fits(y: Array, task: Task | None, inputs: Sequence[Array]) -> None:
    """Raise ValueError unless each mask is as large as its image, or the task is given."""
    shape = inputs[0].shape[1:] if inputs else ()
    if task is not None or shape[1:] == y.shape[1:]:
        return
    if len(shape) == 3 and shape[:2] == y.shape[1:]:
        hint = f"; store images as (channels, height, width): train_x.transpose(0, 3, 1, 2) instead of {shape}"
        raise ValueError(f"train_y holds masks of shape {y.shape[1:]}, train_x images with channels last{hint}")
    raise ValueError(
        ask(f"train_y has shape {y.shape}, train_x {('n', *shape)}: no mask of the size of each image", "segmentation")
    )


def _checked_number(known: Sequence[Array], kinds: Sequence[Array], n_classes: int | None, task: Task | None) -> int:
    """Return the number of classes. Raises ValueError for numbers that are no classes, or that training lacks."""
    values_used = np.concatenate(kinds)
    lowest, highest = values_used.min(), values_used.max()
    count = sum(int(np.count_nonzero(values == (lowest if lowest < 0 else highest))) for values in known)
    share = f"{count / sum(map(len, known)):.1%} of the pixels"
    if lowest < 0:
        raise ValueError(
            f"train_y and test_y hold {lowest} in {share}; classes must be 0 or more; set data.options.ignore = "
            f"{lowest} if these pixels have no label"
        )
    if n_classes is not None:
        if highest >= n_classes:
            raise ValueError(f"train_y and test_y hold {highest} in {share}; classes must be 0 to {n_classes - 1}")
        return n_classes
    used = len(kinds[0])
    if highest + 1 > max(_MOST_EMPTY, 2 * used):
        raise ValueError(
            f"train_y and test_y hold {highest} in {share}, but only {used} different classes; set "
            f"data.options.ignore = {highest} if these pixels have no label, or number the classes from 0"
        )
    if task is None:
        hint = "; set data.options.task = 'segmentation' if this is meant"
        must_be_trained(kinds[0], kinds[1], hint=hint)
    return int(highest) + 1


def _about(known: Array, void: Array, n_classes: int, shape: Sequence[int], names: str) -> str:
    counts = np.bincount(known.ravel(), minlength=n_classes)
    most, empty = int(counts.argmax()), np.flatnonzero(counts == 0)
    text = f"segmentation of {shape[0]} x {shape[1]} pixels into {n_classes} classes{names}; class {most} is "
    text += f"{counts[most] / counts.sum():.1%} of the training pixels"
    if len(empty):
        text += f", no training pixel of {listed(empty.tolist())}"
    return text + (f"; {void.mean():.1%} are ignored" if void.any() else "")


def main_classes(masks: npt.NDArray[np.int64], n_classes: int) -> npt.NDArray[np.int64]:
    """Return the class other than 0 with the most pixels of each mask, (n,); 0 where there is none."""
    counts = np.zeros((len(masks), n_classes), dtype=np.int64)
    for label in range(1, n_classes):
        counts[:, label] = (masks == label).sum(axis=(1, 2))
    largest: npt.NDArray[np.int64] = counts.argmax(axis=1)
    return largest
