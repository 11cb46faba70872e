from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from fedtempo.data.dataset import Dataset, from_arrays
from fedtempo.errors import ConfigError


def parts(**changes: Any) -> dict[str, Any]:
    fitting: dict[str, Any] = {
        "name": "small",
        "train_x": np.zeros((4, 1, 2, 2), dtype=np.float32),
        "train_y": np.array([0, 1, 2, 1]),
        "test_x": np.ones((2, 1, 2, 2), dtype=np.float32),
        "test_y": np.array([2, 0]),
        "n_classes": 3,
    }
    return {**fitting, **changes}


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"train_y": np.array([0, 1, 2])}, "train_y is int64 of shape"),
        ({"train_y": np.array([0, 1, 2, 3])}, "train_y holds 0 to 3; must be classes 0 to 2"),
        ({"test_y": np.array([-1, 0])}, "test_y holds -1 to 0"),
        ({"train_y": np.zeros(4, dtype=np.int32)}, "train_y is int32"),
        (
            {"test_x": np.full((2, 1, 2, 2), np.nan, dtype=np.float32)},
            "test_x: example 0 holds a value that is not finite",
        ),
        (
            {"train_x": np.full((4, 1, 2, 2), np.inf, dtype=np.float32)},
            "train_x: example 0 holds a value that is not finite",
        ),
        ({"test_x": np.ones((2, 1, 3, 2), dtype=np.float32)}, "must agree"),
        ({"test_x": np.ones((2, 1, 2, 2), dtype=np.int64)}, "must agree"),
        ({"train_x": np.zeros((4, 1, 2, 2))}, "train_x is float64"),
        ({"train_x": np.zeros(4, dtype=np.float32)}, "with at least one example"),
        ({"validation_x": np.zeros((0, 1, 2, 2), dtype=np.float32), "validation_y": []}, "with at least one example"),
        ({"train_owners": np.array([0, 1])}, "train_owners"),
    ],
)
def test_inconsistent_arrays_are_rejected(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Dataset(**parts(**changes))


def test_the_hash_changes_with_every_part_and_nothing_else() -> None:
    plain = Dataset(**parts())
    assert plain.sha256 == Dataset(**parts(name="other")).sha256
    hashes = {plain.sha256}
    for name in ("train_x", "train_y", "test_x", "test_y"):
        changed = parts()[name].copy()
        changed.flat[0] = 1 if changed.flat[0] != 1 else 0
        hashes.add(Dataset(**parts(**{name: changed})).sha256)
    hashes.add(Dataset(**parts(train_owners=np.array([0, 0, 1, 1]))).sha256)
    assert len(hashes) == 6


def test_the_hash_does_not_depend_on_memory_layout() -> None:
    x = np.arange(16, dtype=np.float32).reshape(4, 1, 2, 2) / 16
    assert Dataset(**parts(train_x=x)).sha256 == Dataset(**parts(train_x=np.asfortranarray(x))).sha256


def test_the_hash_of_a_known_data_set_is_stable() -> None:
    # Recorded runs contain this hash, so changing how it is computed changes their format.
    assert Dataset(**parts()).sha256 == "7845c950f8cae77072b7f72db25cc94440be0388a2c420ff12423e265cd6afd6"


def test_bytes_become_pixels_with_a_channel() -> None:
    data = from_arrays("bytes", np.full((3, 2, 2), 255, dtype=np.uint8), [0, 1, 1], np.zeros((1, 2, 2), np.uint8), [0])
    assert data.train_x.shape == (3, 1, 2, 2)
    assert data.train_x.dtype == np.float32
    assert data.train_x.max() == 1.0
    assert data.n_classes == 2


def test_sequences_remain_integers() -> None:
    data = from_arrays("text", np.ones((3, 5), dtype=np.int32), [0, 1, 4], np.ones((2, 5), dtype=np.int32), [0, 1])
    assert data.train_x.dtype == np.int64
    assert data.n_classes == 5


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"train_y": [[0, 1]]}, "training labels are int64"),
        ({"train_y": [0.5, 1, 2, 1]}, "training labels are float32"),
        ({"train_y": ["a"] * 4}, "train_y is <U1 of shape .4,., test_y int64"),
        ({"train_x": np.array([["a"]] * 4)}, "train_x is <U1"),
        ({"train_x": np.zeros((4, 2)), "test_x": np.zeros((2, 3))}, "must agree"),
        ({"train_y": np.array([], dtype=int), "n_classes": None}, "train_y is int64 of shape"),
    ],
)
def test_arrays_that_do_not_form_a_data_set_are_rejected(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says) as error:
        from_arrays(**parts(**changes))
    assert str(error.value).startswith("small: ")


def test_data_sets_are_immutable() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Dataset(**parts()).name = "other"  # type: ignore[misc]


def test_a_single_class_is_warned_of() -> None:
    x, y = np.zeros((4, 2), np.float32), np.zeros(4, np.int64)
    assert from_arrays("a", x, y, x, y).warnings == ("all labels are the same class; there is nothing to learn",)
    assert from_arrays("a", x, y.astype(np.float32) + 0.5, x, y.astype(np.float32) + 0.5).warnings == ()
