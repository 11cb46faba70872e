"""Data sets: training and test examples as arrays."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from fedtempo.data.labels import Task, check_task, understood
from fedtempo.data.masks import IGNORED, are_masks, main_classes, understood_masks
from fedtempo.data.owners import numbered_by_name, ordered_names
from fedtempo.data.validation import Split, chosen_splits, joined, must_be_labelled
from fedtempo.errors import ConfigError
from fedtempo.parts.inputs import each_input, is_several, join, separate
from fedtempo.parts.user_code import described, user_code

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]
Given = npt.ArrayLike | Mapping[str, npt.ArrayLike] | tuple[npt.ArrayLike, ...]
"""Inputs as sources give them."""

_PARTS_OF_NUMBERS = 10


@dataclass(frozen=True, eq=False)
class Dataset:
    """Labelled examples.

    train_x, test_x: images, float32 (n, channels, height, width), in [0, 1] if they come from fedtempo's sources; other
    features, float32 (n, ...); sequences of symbols, int64 (n, length); or several of these for each example, in a
    structured array (`fedtempo.parts.inputs`). train_y, test_y: the label of each example: a class from 0, int64 (n,);
    one token per position of a sequence, int64 (n, length); one class per pixel, int64 (n, height, width), `IGNORED`
    for none; which of several labels apply, bool (n, labels); or numbers, float32 (n,) or (n, k). n_classes: number of
    a network's outputs (of a pixel, if there are pixels): classes, different tokens, labels, or numbers. train_owners,
    test_owners: the owner of each training and of each test example, int64 (n,), if known, with the same numbers;
    owner_names and class_names: names by number, if there are any. feature_names: names of features, by position in the
    last axis of the inputs, if there are any. about: a description of the data for people.
    warnings: what may mislead about the data, one line each.

    validation_x, validation_y: validation examples, like the test examples, if the data have any. train_groups: the
    group of each training example, such as its patient, int64 (n,); no split separates a group. train_times: the time
    of each training example, float64 (n,); splits take the latest examples of each client. train_starts: the time at
    which what it predicts begins, if that is earlier, float64 (n,). train_missing: the number of values that each
    training example lacked in its file, int64 (n,). All are None if unknown.

    refit: returns this data set with all that is computed from training examples, such as means that scale features,
    computed from some of them, given by a mask (n,) of the training examples; None if nothing is.

    Raises ValueError for arrays that do not fit together.
    """

    name: str
    train_x: npt.NDArray[Any]
    train_y: npt.NDArray[Any]
    test_x: npt.NDArray[Any]
    test_y: npt.NDArray[Any]
    n_classes: int
    train_owners: IntArray | None = None
    owner_names: tuple[str, ...] = ()
    class_names: tuple[str, ...] = ()
    about: str = ""
    warnings: tuple[str, ...] = ()
    test_owners: IntArray | None = None
    validation_x: npt.NDArray[Any] | None = None
    validation_y: npt.NDArray[Any] | None = None
    train_groups: IntArray | None = None
    train_times: FloatArray | None = None
    train_starts: FloatArray | None = None
    train_missing: IntArray | None = None
    refit: Callable[[BoolArray], Dataset] | None = None
    feature_names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for split, x, y in self._splits:
            self._check(split, x, y)
        for split, x, y in self._splits[1:]:
            self._must_be_like_training(split, x, y)
        for split, _, y in self._splits:
            used = y[y != IGNORED] if y.ndim == 3 else y
            if y.dtype == np.int64 and used.size and (used.min() < 0 or used.max() >= self.n_classes):
                raise ValueError(f"{split}_y holds {y.min()} to {y.max()}; must be classes 0 to {self.n_classes - 1}")
        for name in ("train_owners", "train_groups", "train_times", "train_starts", "train_missing"):
            if (values := getattr(self, name)) is not None and values.shape != self.train_y.shape[:1]:
                raise ValueError(f"{name} has shape {values.shape}; must be {self.train_y.shape[:1]}")
        if self.test_owners is not None and self.test_owners.shape != self.test_y.shape[:1]:
            raise ValueError(f"test_owners has shape {self.test_owners.shape}; must be {self.test_y.shape[:1]}")

    @property
    def _splits(self) -> list[tuple[str, npt.NDArray[Any], npt.NDArray[Any]]]:
        """Name, inputs and labels of each split: train, test and, if there is one, validation."""
        splits = [("train", self.train_x, self.train_y), ("test", self.test_x, self.test_y)]
        if self.validation_x is None and self.validation_y is None:
            return splits
        if self.validation_x is None or self.validation_y is None:
            raise ValueError("validation_x and validation_y: give both, or neither")
        return [*splits, ("validation", self.validation_x, self.validation_y)]

    def _must_be_like_training(self, split: str, x: npt.NDArray[Any], y: npt.NDArray[Any]) -> None:
        """Raise ValueError unless a split has the inputs, types and classes of the training examples."""
        if self.train_x.dtype.names != x.dtype.names:
            raise ValueError(
                f"training examples have the inputs {_names(self.train_x)}, {split} examples {_names(x)}; both must "
                "agree"
            )
        inputs = [
            ("examples" + name, train, other)
            for (name, train), (_, other) in zip(each_input(self.train_x, ""), each_input(x, ""))
        ]
        for what, train, other in (*inputs, ("labels", self.train_y, y)):
            if train.shape[1:] != other.shape[1:] or train.dtype != other.dtype:
                raise ValueError(
                    f"training {what} are {train.dtype} of shape {train.shape[1:]}, "
                    f"{split} {what} {other.dtype} of shape {other.shape[1:]}; both must agree"
                )

    def _check(self, split: str, x: npt.NDArray[Any], y: npt.NDArray[Any]) -> None:
        inputs = each_input(x, f"{split}_x")
        for name, values in inputs:
            if values.ndim < (1 if is_several(x) else 2) or (len(x) == 0 and split != "test"):
                raise ValueError(f"{name} has shape {values.shape}; must be (examples, ...) with at least one example")
            if values.dtype not in (np.float32, np.int64):
                raise ValueError(f"{name} is {values.dtype}; must be float32 or int64")
        is_kind = y.dtype in (np.float32, np.int64) or (y.dtype == np.bool_ and y.ndim == 2)
        dimensions = (1, 2, 3) if y.dtype == np.int64 else (1, 2)
        if not is_kind or y.ndim not in dimensions or len(y) != len(x):
            raise ValueError(
                f"{split}_y is {y.dtype} of shape {y.shape}; must be int64 or float32 of shape ({len(x)},) or "
                f"({len(x)}, ...), or bool of shape ({len(x)}, labels)"
            )
        for name, values in (*inputs, (f"{split}_y", y)):
            if values.dtype == np.float32 and not np.isfinite([values.min(initial=0), values.max(initial=0)]).all():
                row = int(np.argmin(np.isfinite(values).reshape(len(values), -1).all(axis=1)))
                raise ValueError(f"{name}: example {row} holds a value that is not finite")
        for name, values in inputs:
            if values.dtype == np.int64 and values.min(initial=0) < 0:
                raise ValueError(f"{name} holds the symbol {values.min()}; symbols must be 0 or more")

    @property
    def task(self) -> Task:
        """The learning task, which follows from type and shape of the labels."""
        if self.train_y.dtype == np.float32:
            return "numbers"
        if self.train_y.dtype == np.bool_:
            return "multilabel"
        kinds: tuple[Task, ...] = ("classes", "tokens", "segmentation")
        return kinds[self.train_y.ndim - 1]

    @cached_property
    def strata(self) -> tuple[IntArray, int]:
        """The stratum of each training example, int64 (n,), and the number of strata, for partitions and histograms.

        Strata are classes; for several labels, the first that applies, or a further stratum if none does; for numbers,
        ten quantile ranges of the first number; for tokens, one stratum for all; for masks, the class other than 0 with
        the most pixels.
        """
        if self.task == "classes":
            return self.train_y, self.n_classes
        if self.task == "multilabel":
            count = self.train_y.shape[1]
            first = np.where(self.train_y.any(axis=1), self.train_y.argmax(axis=1), count)
            return first.astype(np.int64), count + 1
        if self.task == "tokens":
            return np.zeros(len(self.train_y), dtype=np.int64), 1
        if self.task == "segmentation":
            return main_classes(self.train_y, self.n_classes), self.n_classes
        values = self.train_y.reshape(len(self.train_y), -1)[:, 0]
        bounds = np.quantile(values, np.linspace(0, 1, _PARTS_OF_NUMBERS + 1)[1:-1])
        return np.searchsorted(bounds, values, side="right").astype(np.int64), _PARTS_OF_NUMBERS

    @property
    def strata_names(self) -> tuple[str, ...]:
        """The names of `strata`; empty if they have none."""
        if self.task == "multilabel":
            return (*self.class_names, "none") if self.class_names else ()
        if self.task != "numbers":
            return self.class_names
        values, (parts, count) = self.train_y.reshape(len(self.train_y), -1)[:, 0], self.strata
        strata = [values[parts == part] for part in range(count)]
        return tuple(f"{part.min():.3g} to {part.max():.3g}" if len(part) else "none" for part in strata)

    @cached_property
    def sha256(self) -> str:
        """SHA-256 over type, shape and bytes (little-endian) of all examples and of `train_owners`.

        What else results depend on is which rows a run uses (`runs.world.World.data_sha256`).
        """
        digest = hashlib.sha256()
        owners = [] if self.train_owners is None else [self.train_owners]
        for array in (*(part for _, x, y in self._splits for part in (x, y)), *owners):
            little = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
            kind = little.dtype.descr if is_several(little) else little.dtype.str
            digest.update(f"{kind} {little.shape}\n".encode())
            digest.update(little.view(np.uint8).data if is_several(little) else little.data)
        return digest.hexdigest()

    def transformed(self, function: Callable[[Any], Any], where: str) -> Dataset:
        """Return the data set with `function` applied to training, test and validation inputs, one call for each.

        It gets and returns an array, or a dict or tuple of arrays if an example has several inputs, and is never called
        without examples. where: beginning of error messages. Raises ConfigError if the function's results are not
        usable inputs.
        """
        tested = self.test_x if len(self.test_y) else self.train_x[:1]
        with user_code(where, function):
            train, test = function(separate(self.train_x)), function(separate(tested))
            held = None if self.validation_x is None else function(separate(self.validation_x))
        refit = self.refit
        try:
            train_x, both_x, _ = _inputs(train, test if held is None else joined(test, held, "x"), None)
            return replace(
                self,
                train_x=train_x,
                test_x=both_x[: len(self.test_y)],
                validation_x=None if held is None else both_x[len(tested) :],
                feature_names=(),
                refit=None if refit is None else lambda mask: refit(mask).transformed(function, where),
            )
        except Exception as error:  # the function returned something else
            raise ConfigError(f"{where}: {described(error)}") from error


def from_arrays(
    name: str,
    train_x: Given,
    train_y: npt.ArrayLike,
    test_x: Given,
    test_y: npt.ArrayLike,
    n_classes: int | None = None,
    train_owners: npt.ArrayLike | None = None,
    test_owners: npt.ArrayLike | None = None,
    *,
    task: str | None = None,
    inputs: str | None = None,
    ignore: int | None = None,
    class_names: tuple[str, ...] = (),
    owner_names: tuple[str, ...] = (),
    about: str = "",
    validation: Split | None = None,
    test_split: str | None = None,
    **named: Any,
) -> Dataset:
    """Return a data set made from arrays of common types.

    Inputs: bytes (uint8) are pixels and are divided by 255; an array (n, height, width) of pixels gets one channel.
    Other numbers become float32 unchanged, except int32 and int64 without negative values, which are symbols and become
    int64. inputs: "numbers" or "symbols", to say which they are. A dict of arrays, or a tuple of arrays that are each
    as long as the labels, holds several inputs of each example: keyword or positional arguments of the network. Labels:
    see `fedtempo.data.labels.understood`, and for masks `fedtempo.data.masks.understood_masks`. task: "classes",
    "multilabel", "tokens", "numbers" or "segmentation". ignore: value of the pixels of masks that have no label.
    n_classes: one more than the largest label if None. Owners: integers, or text, which is numbered in natural order.
    class_names, owner_names, about, named: fields of `Dataset`; how labels were understood is appended to about, and
    how inputs were understood if about is empty. validation: validation examples. test_split: "validation" to test on
    these instead of the test examples.

    Raises ConfigError for arrays that make no data set, or whose labels are ambiguous or missing.
    """
    try:
        test, validation = chosen_splits(Split(test_x, test_y, test_owners), validation, test_split)
        must_be_labelled(train_y, test.y, None if validation is None else "validation")
        n_test, test_x, test_y = len(np.asarray(test.y)), _several(test.x, test.y), test.y
        if validation is not None:
            test_x = joined(test_x, _several(validation.x, validation.y), "x")
            test_y = joined(test_y, validation.y, "y")
        x_train, x_test, scaling = _inputs(_several(train_x, train_y), test_x, inputs)
        parts = [part for x in (x_train, x_test) for _, part in each_input(x, "")]
        wanted = check_task(task)
        if are_masks(train_y, wanted):
            labels = understood_masks(train_y, test_y, wanted, n_classes, parts, ignore)
        elif ignore is not None:
            raise ValueError(f"ignore = {ignore!r}: is for masks, one class for each pixel; remove it")
        else:
            labels = understood(train_y, test_y, wanted, n_classes, parts)
        owners, whose_tests, names = _owners(train_owners, test.owners, owner_names)
        held_out = f"{len(x_test) - n_test:,} validation examples" if validation is not None else ""
        outputs = labels.n_outputs if n_classes is None else n_classes
        if outputs == 1 and labels.train.dtype == np.int64:
            named["warnings"] = (*named.get("warnings", ()), "all labels are the same class; there is nothing to learn")
        return Dataset(
            name,
            x_train,
            labels.train,
            x_test[:n_test],
            labels.test[:n_test],
            outputs,
            owners,
            test_owners=whose_tests,
            owner_names=names,
            class_names=class_names or labels.class_names,
            about="; ".join(filter(None, (about, labels.about, "" if about else scaling, held_out))),
            validation_x=None if validation is None else x_test[n_test:],
            validation_y=None if validation is None else labels.test[n_test:],
            **named,
        )
    except ValueError as error:
        raise ConfigError(f"{name}: {error}") from error


def stacked(name: str, rows: Iterable[Any]) -> npt.NDArray[Any]:
    """Return examples as one array; images (height, width, channels) become (channels, height, width).

    Raises ConfigError, in a line that begins with `name`, if examples have different shapes.
    """
    arrays = [np.asarray(row) for row in rows]
    shapes = {array.shape for array in arrays}
    if len(shapes) != 1:
        odd = next((i for i, array in enumerate(arrays) if array.shape != arrays[0].shape), 0)
        if not arrays:
            raise ConfigError(f"{name}: no examples")
        raise ConfigError(
            f"{name}: examples have {len(shapes)} different shapes, such as {arrays[0].shape} (example 0) and "
            f"{arrays[odd].shape} (example {odd}); all must have the same shape"
        )
    values = np.stack(arrays)
    is_colour = values.dtype == np.uint8 and values.ndim == 4
    return np.ascontiguousarray(values.transpose(0, 3, 1, 2)) if is_colour else values


def _inputs(train: Given, test: Given, kind: str | None) -> tuple[npt.NDArray[Any], npt.NDArray[Any], str]:
    """Return training and test inputs as a `Dataset` holds them, and how they were understood.

    train, test: an array, or a dict or tuple of arrays. kind: as inputs of `from_arrays`. Raises ValueError for arrays
    that are no inputs.
    """
    if isinstance(train, Mapping | tuple) or isinstance(test, Mapping | tuple):
        return _joined(train, test, kind)
    if kind not in (None, "numbers", "symbols"):
        raise ValueError(f"inputs = {kind!r}: must be 'numbers' or 'symbols'")
    x, z = np.asarray(train), np.asarray(test)
    for name, values in (("train_x", x), ("test_x", z)):
        if values.dtype.kind not in "biuf":
            raise ValueError(f"{name} is {values.dtype}; must hold numbers")
        if kind == "symbols" and values.dtype.kind not in "iu":
            raise ValueError(f"inputs = 'symbols': {name} is {values.dtype}; symbols must be integers")
    if kind is None and x.dtype == z.dtype == np.uint8:
        return _pixels(x), _pixels(z), "inputs are bytes, divided by 255"
    if kind is None and _may_be_symbols(x) and _may_be_symbols(z):
        kind = "symbols"
    if kind == "symbols":
        return _as(np.int64, x), _as(np.int64, z), f"inputs are {x.dtype}, taken as symbols"
    whole = x.dtype.kind in "biu"
    return _as(np.float32, x), _as(np.float32, z), f"inputs are {x.dtype}, taken as numbers and not scaled" * whole


def _several(x: Given, y: npt.ArrayLike) -> Given:
    """Return inputs; a tuple that does not hold several inputs of each example becomes one array."""
    if isinstance(x, np.ndarray) and is_several(x):
        return separate(x)
    if not isinstance(x, tuple):
        return x
    n = len(np.asarray(y))
    are_inputs = len(x) != n and all(hasattr(part, "shape") and part.shape[:1] == (n,) for part in x)
    return x if are_inputs else np.asarray(x)


def _joined(train: Given, test: Given, kind: str | None) -> tuple[npt.NDArray[Any], npt.NDArray[Any], str]:
    """Return `_inputs` of examples with several inputs, each understood separately."""
    given: Any = (train, test)
    x, z = (dict(part) if isinstance(part, Mapping) else {f"f{i}": part[i] for i in range(len(part))} for part in given)
    if x.keys() != z.keys() or isinstance(train, Mapping) != isinstance(test, Mapping):
        raise ValueError(f"training examples have the inputs {', '.join(x)}, test examples {', '.join(z)}")
    understood_as = {}
    for name in x:
        try:
            flags = [np.asarray(part) for part in (x[name], z[name])]
            both = [part.astype(np.int64) if part.dtype.kind == "b" else part for part in flags]
            understood_as[name] = _inputs(both[0], both[1], kind)
        except ValueError as error:
            raise ValueError(f"input {name!r}: {error}") from error
    train_x = join({name: parts[0] for name, parts in understood_as.items()})
    test_x = join({name: parts[1] for name, parts in understood_as.items()})
    return train_x, test_x, f"inputs {', '.join(x)}" if isinstance(train, Mapping) else f"{len(x)} inputs"


def _names(x: npt.NDArray[Any]) -> str:
    return ", ".join(x.dtype.names) if x.dtype.names else "of one array"


def _may_be_symbols(x: npt.NDArray[Any]) -> bool:
    return x.dtype in (np.int32, np.int64) and x.min(initial=0) >= 0


def _pixels(x: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    pixels = x.astype(np.float32) / np.float32(255)
    return pixels[:, np.newaxis] if pixels.ndim == 3 else pixels


def _as(dtype: type[np.generic], x: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return np.ascontiguousarray(x, dtype=dtype)


def _owners(
    train: npt.ArrayLike | None, test: npt.ArrayLike | None, names: tuple[str, ...]
) -> tuple[IntArray | None, IntArray | None, tuple[str, ...]]:
    """Return the owners of training and of test examples by number, and their names, in natural order if they are text.

    An owner of test examples alone has the number -1.
    """
    if train is None:
        return None, None if test is None else _whole("test_owners", test), names
    y = np.asarray(train)
    if y.ndim != 1 or y.dtype.kind not in "UO" or not all(isinstance(owner, str) for owner in y.tolist()):
        return _whole("train_owners", y), None if test is None else _whole("test_owners", test), names
    ordered = ordered_names(y.tolist())
    whose_tests = None if test is None else numbered_by_name(map(str, np.asarray(test).tolist()), ordered)
    return numbered_by_name(y.tolist(), ordered), whose_tests, ordered


def _whole(name: str, values: npt.ArrayLike) -> IntArray:
    y = np.asarray(values)
    if y.ndim != 1 or not np.issubdtype(y.dtype, np.integer):
        raise ValueError(f"{name} is {y.dtype} of shape {y.shape}; must be integers or text of shape (examples,)")
    return y.astype(np.int64, copy=False)
