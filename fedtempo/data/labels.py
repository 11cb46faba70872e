"""Decide what labels are: classes, several of 0 or 1, tokens or numbers.

Ambiguous labels are an error that asks for the task.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast, get_args

import numpy as np
import numpy.typing as npt

from fedtempo.errors import ConfigError
from fedtempo.parts.natural_order import listed, natural

Task = Literal["classes", "multilabel", "tokens", "numbers", "segmentation"]
Array = npt.NDArray[Any]

MOST_CLASSES = 50
"""Largest number of distinct whole numbers that are taken for classes if no task is given."""

LABELS = ("label", "target", "class", "y")
"""Column names that mark the labels if no column is given, in upper or lower case."""

_MOST_EMPTY = 20
_DTYPES = {"b": np.int64, "f": np.float32}


@dataclass(frozen=True, eq=False)
class Labels:
    """Labels as a `Dataset` holds them. class_names: empty if there are none; about: how labels were understood."""

    train: Array
    test: Array
    n_outputs: int
    class_names: tuple[str, ...] = ()
    about: str = ""


def check_task(task: object) -> Task | None:
    """Return `task`, which may be None. Raises ConfigError if it is no task."""
    if task is not None and task not in get_args(Task):
        raise ConfigError(f"task = {task!r}: must be 'classes', 'multilabel', 'numbers', 'segmentation' or 'tokens'")
    return cast("Task | None", task)


def ask(what: str, *tasks: Task) -> str:
    """Return an error text that asks what labels mean: the finding `what`, then the settings that answer it."""
    return f"{what}; set data.options.task = {' or '.join(repr(task) for task in tasks)}"


def understood(
    train: npt.ArrayLike,
    test: npt.ArrayLike,
    task: Task | None,
    n_classes: int | None,
    inputs: Sequence[Array] = (),
) -> Labels:
    """Return training and test labels in the form that their task needs.

    task: None to derive it from type and values of the labels. n_classes: the number of classes, if known. inputs:
    training and test inputs; int64 inputs share their alphabet with labels that are tokens.

    Classes are whole numbers (n,), -1 and 1, text, booleans or one-hot rows. With task "multilabel", rows of 0 and 1
    say which of several labels apply; they become booleans. Tokens are rows of whole numbers, as long as the inputs.
    Other numbers, (n,) or (n, k), are predicted as numbers. Raises ValueError, in one line, for labels that are none of
    these or are ambiguous.
    """
    y, z = _array("train_y", train), _array("test_y", test)
    if not y.size:
        return Labels(y, z, n_classes or 1)  # `Dataset` rejects it
    if y.dtype.kind in "US" or z.dtype.kind in "US":
        return _text(y, z, task)
    if y.dtype.kind == "b" and z.dtype.kind == "b" and y.ndim == 1:
        if task == "numbers":
            return _numbers(y, z)
        if task == "multilabel":
            raise _needs_rows(y)
        return Labels(y.astype(np.int64), z.astype(np.int64), 2, ("False", "True"), "labels False and True as classes")
    y, z = (labels.astype(_DTYPES.get(labels.dtype.kind, labels.dtype), copy=False) for labels in (y, z))
    if (y.dtype.kind == "f") != (z.dtype.kind == "f") or y.shape[1:] != z.shape[1:]:
        raise ValueError(
            f"training labels are {y.dtype} of shape {y.shape[1:]}, test labels {z.dtype} of shape {z.shape[1:]}; both "
            "must agree"
        )
    for name, values in (("train_y", y), ("test_y", z)):
        if values.dtype.kind == "f" and not np.isfinite(values).all():
            row = int(np.argmin(np.isfinite(values).reshape(len(values), -1).all(axis=1)))
            raise ValueError(f"{name}: example {row} holds a value that is not finite")
    if task == "numbers":
        return _numbers(y, z)
    if (
        y.ndim == 2
        and y.shape[1] == 1
        and task not in ("tokens", "multilabel")
        and (y.dtype.kind != "f" or is_few_whole(np.concatenate([y, z])))
    ):
        y, z = y[:, 0], z[:, 0]
    return _rows(y, z, task, n_classes, inputs) if y.ndim == 2 else _single(y, z, task, n_classes)


def must_be_trained(train: Array, test: Array, names: Sequence[str] = (), hint: str = "") -> None:
    """Raise ValueError if test examples have labels that no training example has.

    names: of the labels, by number; hint: appended to the error.
    """
    kinds, counts = np.unique(test[~np.isin(test, train)], return_counts=True)
    if len(kinds):

        def shown(kind: Any) -> str:
            return repr(names[kind] if names else kind)

        unknown = [f"{shown(kind)} ({count:,})" for kind, count in zip(kinds.tolist(), counts.tolist())]
        trained_labels = listed(map(shown, np.unique(train).tolist()))
        raise ValueError(
            f"test labels not among the training labels: {listed(unknown)}; known labels: {trained_labels}{hint}"
        )


def is_identifier(values: Array, examples: int | None = None) -> bool:
    """Return whether labels may be identifiers: more than 20 are distinct, with fewer than two examples each."""
    distinct, examples = len(np.unique(values)), len(values) if examples is None else examples
    return distinct > 20 and 2 * distinct > examples


def looks_like_ids(what: str, values: Array, examples: int | None = None) -> str:
    """Return the finding that labels look like identifiers. examples: their number, if `values` are distinct ones."""
    examples = len(values) if examples is None else examples
    return f"{what} has {len(np.unique(values)):,} distinct values in {examples:,} rows, like an identifier"


def negative(what: str, values: Array) -> str:
    """Return the finding that there are negative labels, with the most frequent one."""
    kinds, counts = np.unique(values[values < 0], return_counts=True)
    most = int(np.argmax(counts))
    return f"{what}: label {kinds[most]} in {counts[most]:,} of {len(values):,} rows (remove them if unlabelled)"


def is_few_whole(values: Array) -> bool:
    """Return whether all labels are whole, at most `MOST_CLASSES`, and occur at least twice on average."""
    if not (values == np.floor(values)).all():
        return False
    distinct = len(np.unique(values))
    return distinct <= MOST_CLASSES and 2 * distinct <= len(values)


def signs(values: Array) -> bool:
    """Return whether all labels are -1 or 1, and -1 occurs."""
    return bool(np.isin(values, (-1, 1)).all() and (values == -1).any())


def _array(name: str, values: npt.ArrayLike) -> Array:
    y = np.asarray(values)
    if y.dtype.kind == "O":
        kinds = sorted({type(value).__name__ for value in y.ravel().tolist()})
        if kinds != ["str"]:
            raise ValueError(f"{name} holds Python objects ({listed(kinds)}); must hold numbers or text")
        y = y.astype(np.str_)
    if y.dtype.kind == "S":
        raise ValueError(f"{name} holds bytes ({y.dtype}); convert them to text: {name}.astype('U')")
    if y.dtype.kind not in "biufU" or y.ndim not in (1, 2):
        raise ValueError(
            f"{name} is {y.dtype} of shape {y.shape}; must be numbers or text, one value or one row per example"
        )
    return y


def _text(y: Array, z: Array, task: Task | None) -> Labels:
    if y.dtype.kind != "U" or z.dtype.kind != "U" or y.ndim != 1 or z.ndim != 1:
        raise ValueError(
            f"train_y is {y.dtype} of shape {y.shape}, test_y {z.dtype} of shape {z.shape}; both must hold "
            "one text per example"
        )
    if task in ("multilabel", "numbers", "tokens"):
        raise ValueError(f"task = {task!r}: labels are text, such as {y[0]!r}; text can only be classes")
    must_be_trained(y, z)
    if task is None and is_identifier(y):
        raise ValueError(ask(looks_like_ids("train_y", y), "classes"))
    names = np.unique(y)
    class_names = tuple(sorted(map(str, names.tolist()), key=natural))
    rank = {name: i for i, name in enumerate(class_names)}
    number = np.array([rank[str(name)] for name in names.tolist()], dtype=np.int64)
    train, test = number[np.searchsorted(names, y)], number[np.searchsorted(names, z)]
    return Labels(train, test, len(names), class_names, f"classes: {listed(class_names)}")


def _numbers(y: Array, z: Array) -> Labels:
    train, test = (np.ascontiguousarray(labels, dtype=np.float32) for labels in (y, z))
    return Labels(train, test, 1 if y.ndim == 1 else y.shape[1])


def _single(y: Array, z: Array, task: Task | None, n_classes: int | None) -> Labels:
    """Return labels of one number per example."""
    if task == "multilabel":
        raise _needs_rows(y)
    if task == "tokens":
        raise ValueError(
            f"task = 'tokens': train_y has shape {y.shape}; must be (examples, length), a row of tokens each"
        )
    if y.dtype.kind == "f":
        if task is None:
            if not is_few_whole(np.concatenate([y, z])):
                return _numbers(y, z)
            low, high, count = y.min(), y.max(), len(np.unique(y))
            what = f"train_y holds floats with only {count} values, all whole, {low:g} to {high:g}"
            raise ValueError(ask(what, "classes", "numbers"))
        if not ((y == np.floor(y)).all() and (z == np.floor(z)).all()):
            raise ValueError("task = 'classes': train_y and test_y must be whole numbers or text")
    y, z = (labels.astype(np.int64, copy=False) for labels in (y, z))
    both = np.concatenate([y, z])
    if both.min() < 0 and n_classes is not None:
        raise ValueError(f"{negative('train_y and test_y', both)}; classes must be 0 to {n_classes - 1}")
    if both.min() < 0:
        if task is None and not signs(both):
            raise ValueError(ask(negative("train_y and test_y", both), "classes", "numbers"))
        kinds = np.array([-1, 1]) if signs(both) else np.unique(y)
        must_be_trained(kinds, z)
        names = tuple(map(str, kinds.tolist()))
        about = f"labels {listed(names)} as {len(kinds)} classes"
        return Labels(np.searchsorted(kinds, y), np.searchsorted(kinds, z), len(kinds), names, about)
    if n_classes is not None:
        return Labels(y, z, n_classes)
    n_classes = int(both.max()) + 1
    if task is None:
        must_be_trained(y, z, hint="; set data.options.task = 'classes' if this is meant")
        used = len(np.unique(y))
        if is_identifier(y):
            raise ValueError(ask(looks_like_ids("train_y", y), "classes", "numbers"))
        if n_classes > max(_MOST_EMPTY, 2 * used):
            what = f"train_y holds {used} distinct integers up to {n_classes - 1}, but classes are numbered from 0"
            raise ValueError(ask(what, "classes", "numbers"))
    empty = np.setdiff1d(np.arange(n_classes), y)
    gaps = f", no training example of {listed(empty.tolist())}" if len(empty) else ""
    return Labels(y, z, n_classes, about=f"{n_classes} classes{gaps}")


def _rows(y: Array, z: Array, task: Task | None, n_classes: int | None, inputs: Sequence[Array]) -> Labels:
    """Return labels of one row of numbers per example."""
    integers = y.dtype.kind != "f"
    if task == "tokens" and not integers:
        raise ValueError(f"task = 'tokens': train_y is {y.dtype}; tokens must be whole numbers")
    if task == "tokens" or (task is None and integers and inputs and all(_like(x, y) for x in inputs)):
        return _tokens(y, z, n_classes, inputs, inferred=task is None)
    flags = all(np.isin(labels, (0, 1)).all() for labels in (y, z))
    if task == "multilabel":
        if not flags:
            raise ValueError("task = 'multilabel': train_y and test_y must hold zeros and ones only")
        about = f"{y.shape[1]} labels, each 0 or 1"
        return Labels(y.astype(np.bool_), z.astype(np.bool_), y.shape[1], about=about)
    if flags and all((labels.sum(axis=1) == 1).all() for labels in (y, z)):
        train, test = (labels.argmax(axis=1).astype(np.int64) for labels in (y, z))
        return Labels(train, test, y.shape[1], about=f"one-hot labels as {y.shape[1]} classes")
    if task == "classes":
        raise ValueError(f"task = 'classes': train_y has shape {y.shape}; rows must be one-hot")
    if flags:
        what = f"train_y has rows of {y.shape[1]} zeros and ones that are not one-hot"
        raise ValueError(ask(what, "multilabel", *(("tokens", "numbers") if integers else ("numbers",))))
    if integers:
        raise ValueError(ask(f"train_y has rows of {y.shape[1]} whole numbers", "tokens", "numbers"))
    return _numbers(y, z)


def _needs_rows(y: Array) -> ValueError:
    return ValueError(f"task = 'multilabel': train_y has shape {y.shape}; must be rows of zeros and ones")


def _like(x: Array, y: Array) -> bool:
    """Return whether each input is a sequence, of symbols or of vectors, as long as the labels of an example."""
    return x.shape[1:2] == y.shape[1:] and (x.ndim == 3 or (x.ndim == 2 and x.dtype == np.int64))


def _tokens(y: Array, z: Array, n_classes: int | None, inputs: Sequence[Array], inferred: bool) -> Labels:
    both = np.concatenate([y, z])
    if both.min() < 0:
        raise ValueError(f"train_y and test_y hold the token {both.min()}; tokens must be 0 or more")
    train, test = (np.ascontiguousarray(labels, dtype=np.int64) for labels in (y, z))
    if n_classes is None:
        symbols = [x for x in inputs if x.dtype == np.int64 and x.size]
        n_classes = 1 + max(int(values.max()) for values in (both, *symbols))
    about = f"tokens of {n_classes} kinds, {y.shape[1]} for each example" if inferred else ""
    return Labels(train, test, n_classes, about=about)
