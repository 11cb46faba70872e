"""Examples to learn from and examples to test on, as arrays."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from fedtempo.errors import ConfigError

IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Dataset:
    """Labelled examples.

    train_x, test_x: images, float32 (n, channels, height, width), in [0, 1] from the sources here; other features,
    float32 (n, ...); or sequences of symbols, int64 (n, length). train_y, test_y: classes, int64 (n,), from 0.
    train_owners: who wrote each training example, int64 (n,), where that is known.

    Raises ValueError for arrays that do not fit together.
    """

    name: str
    train_x: npt.NDArray[Any]
    train_y: IntArray
    test_x: npt.NDArray[Any]
    test_y: IntArray
    n_classes: int
    train_owners: IntArray | None = None

    def __post_init__(self) -> None:
        for split, x, y in (("train", self.train_x, self.train_y), ("test", self.test_x, self.test_y)):
            self._check(split, x, y)
        if self.train_x.shape[1:] != self.test_x.shape[1:] or self.train_x.dtype != self.test_x.dtype:
            raise ValueError(
                f"examples to train on are {self.train_x.dtype} of shape {self.train_x.shape[1:]}, "
                f"those to test on {self.test_x.dtype} of shape {self.test_x.shape[1:]}; they must agree"
            )
        if self.train_owners is not None and self.train_owners.shape != self.train_y.shape:
            raise ValueError(f"train_owners has shape {self.train_owners.shape}, not {self.train_y.shape}")

    def _check(self, split: str, x: npt.NDArray[Any], y: IntArray) -> None:
        if x.ndim < 2 or len(x) == 0:
            raise ValueError(f"{split}_x has shape {x.shape}; it must be (examples, ...), and not empty")
        if x.dtype not in (np.float32, np.int64):
            raise ValueError(f"{split}_x is {x.dtype}; it must be float32 or int64")
        if y.dtype != np.int64 or y.shape != x.shape[:1]:
            raise ValueError(f"{split}_y is {y.dtype} of shape {y.shape}; it must be int64 of shape {x.shape[:1]}")
        if y.min() < 0 or y.max() >= self.n_classes:
            raise ValueError(f"{split}_y runs from {y.min()} to {y.max()}; classes are 0 to {self.n_classes - 1}")
        if x.dtype == np.float32 and not np.isfinite(x).all():
            raise ValueError(f"{split}_x holds a value that is not finite")
        if x.dtype == np.int64 and x.min() < 0:
            raise ValueError(f"{split}_x holds the symbol {x.min()}; symbols are 0 or more")

    @cached_property
    def sha256(self) -> str:
        """Hash of every array's type, shape and bytes (little-endian)."""
        digest = hashlib.sha256()
        owners = [] if self.train_owners is None else [self.train_owners]
        for array in (self.train_x, self.train_y, self.test_x, self.test_y, *owners):
            little = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
            digest.update(f"{little.dtype.str} {little.shape}\n".encode())
            digest.update(little.data)
        return digest.hexdigest()


def from_arrays(
    name: str,
    train_x: npt.ArrayLike,
    train_y: npt.ArrayLike,
    test_x: npt.ArrayLike,
    test_y: npt.ArrayLike,
    n_classes: int | None = None,
    train_owners: npt.ArrayLike | None = None,
) -> Dataset:
    """A data set from arrays as people have them.

    Bytes (uint8) are pixels and are divided by 255; an array (n, height, width) of pixels gets one channel. Other
    floating-point arrays become float32, other integers int64. n_classes: one more than the largest label without it.

    Raises ConfigError for arrays that are no such data set.
    """
    try:
        y_train, y_test = _labels("train_y", train_y), _labels("test_y", test_y)
        if n_classes is None:
            n_classes = int(max(y_train.max(initial=-1), y_test.max(initial=-1))) + 1
        owners = None if train_owners is None else _labels("train_owners", train_owners)
        x_train, x_test = _examples("train_x", train_x), _examples("test_x", test_x)
        return Dataset(name, x_train, y_train, x_test, y_test, n_classes, owners)
    except ValueError as error:
        raise ConfigError(f"{name}: {error}") from error


def _examples(name: str, values: npt.ArrayLike) -> npt.NDArray[Any]:
    x = np.asarray(values)
    if x.dtype == np.uint8:
        pixels = x.astype(np.float32) / np.float32(255)
        return pixels[:, np.newaxis] if pixels.ndim == 3 else pixels
    if np.issubdtype(x.dtype, np.floating):
        return np.ascontiguousarray(x, dtype=np.float32)
    if np.issubdtype(x.dtype, np.integer):
        return np.ascontiguousarray(x, dtype=np.int64)
    raise ValueError(f"{name} is {x.dtype}; it must hold bytes, floating-point numbers or integers")


def _labels(name: str, values: npt.ArrayLike) -> IntArray:
    y = np.asarray(values)
    if y.ndim != 1 or not np.issubdtype(y.dtype, np.integer):
        raise ValueError(f"{name} is {y.dtype} of shape {y.shape}; it must be integers of shape (examples,)")
    return y.astype(np.int64, copy=False)
