"""Validation examples: told apart from the test examples, or used in their place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from fedtempo.errors import ConfigError

NAMES = ("validation", "valid", "val", "dev")
"""What data sets call their validation split."""

TEST_SPLITS = ("test", "validation", "train")
"""Values of the option `test_split`: "train" for a part of the training examples."""


class Split(NamedTuple):
    """Examples of one split: inputs, labels, and owners if they are known."""

    x: Any
    y: Any
    owners: Any = None


def check_test_split(test_split: object) -> None:
    """Raise ConfigError unless `test_split` is None or one of `TEST_SPLITS`."""
    if test_split is not None and test_split not in TEST_SPLITS:
        raise ConfigError(f"test_split = {test_split!r}: must be 'test', 'validation' or 'train'")


def chosen_splits(test: Split, validation: Split | None, test_split: str | None) -> tuple[Split, Split | None]:
    """Return the examples to test on, and those to validate on. Raises ValueError if they are missing."""
    if test_split != "validation":
        return test, validation
    if validation is None:
        raise ValueError("test_split = 'validation': the data have no validation examples")
    return validation, None


def must_be_labelled(train_y: npt.ArrayLike, test_y: npt.ArrayLike, validation: str | None) -> None:
    """Raise ValueError if all test labels are -1, as in data sets that keep them secret, and no training label is.

    validation: name of the validation split, None without one.
    """
    y, z = np.asarray(train_y), np.asarray(test_y)
    if z.ndim != 1 or not len(z) or z.dtype.kind not in "if" or y.dtype.kind not in "if":
        return
    if (z == -1).all() and not (y == -1).any():
        way_out = (
            f"set data.options.test_split = {validation!r} to test on the validation examples"
            if validation is not None
            else "set data.options.test_split = 'train' to test on a part of the training examples"
        )
        raise ValueError(f"all {len(z):,} test labels are -1, so the test examples are unlabelled; {way_out}")


def joined(test: Any, validation: Any, what: str) -> Any:
    """Return test and validation arrays as one, or each of several inputs as one. Raises ValueError if they differ.

    what: "x" or "y", for errors.
    """
    if isinstance(test, Mapping) or isinstance(validation, Mapping):
        if not (isinstance(test, Mapping) and isinstance(validation, Mapping) and test.keys() == validation.keys()):
            raise ValueError("test and validation examples have different inputs")
        return {name: joined(test[name], validation[name], f"{what}[{name!r}]") for name in test}
    if isinstance(test, tuple) or isinstance(validation, tuple):
        if not (isinstance(test, tuple) and isinstance(validation, tuple) and len(test) == len(validation)):
            raise ValueError("test and validation examples have different inputs")
        return tuple(joined(a, b, f"{what}[{i}]") for i, (a, b) in enumerate(zip(test, validation)))
    a, b = np.asarray(test), np.asarray(validation)
    if a.shape[1:] != b.shape[1:] or (a.dtype != b.dtype and not a.dtype.kind == b.dtype.kind == "U"):
        raise ValueError(
            f"test_{what} is {a.dtype} of shape {a.shape}, validation_{what} {b.dtype} of shape {b.shape}; both must "
            "agree"
        )
    return np.concatenate([a, b])
