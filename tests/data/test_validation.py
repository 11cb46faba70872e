"""Validation examples in data sets: told apart, or tested on; and test labels that are kept secret."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fedtempo.data.dataset import Dataset, from_arrays
from fedtempo.data.validation import Split
from fedtempo.errors import ConfigError


def arrays(**changes: Any) -> dict[str, Any]:
    x = np.arange(24, dtype=np.float32).reshape(12, 2)
    y = np.arange(12) % 3
    return {"name": "mine", "train_x": x[:6], "train_y": y[:6], "test_x": x[6:9], "test_y": y[6:9], **changes}


def held(n: int = 3) -> Split:
    x = np.arange(24, dtype=np.float32).reshape(12, 2)[9 : 9 + n]
    return Split(x, np.array([2, 0, 1])[:n])


def test_validation_examples_stand_beside_the_test_examples() -> None:
    data = from_arrays(**arrays(), validation=held())
    assert data.validation_x is not None
    assert data.validation_x.tolist() == [[18.0, 19.0], [20.0, 21.0], [22.0, 23.0]]
    assert data.validation_y is not None
    assert data.validation_y.tolist() == [2, 0, 1]
    assert data.test_x.tolist() == [[12.0, 13.0], [14.0, 15.0], [16.0, 17.0]]
    assert data.about == "3 classes; 3 validation examples"
    plain = from_arrays(**arrays())
    assert plain.validation_x is None
    assert plain.sha256 != data.sha256


def test_labels_and_inputs_are_understood_together() -> None:
    """Pixels are divided by 255 and text is numbered in all three splits alike."""
    x, names = np.full((4, 2), 51, dtype=np.uint8), np.array(["a", "b", "a", "b"])
    data = from_arrays("mine", x, names, x[:2], names[:2], validation=Split(x[:1], np.array(["b"])))
    assert data.validation_x is not None
    assert data.validation_x.tolist() == [[np.float32(0.2)] * 2]
    assert data.validation_y is not None
    assert data.validation_y.tolist() == [1]
    several = {"ids": np.arange(4).reshape(4, 1), "mask": np.ones((4, 1), dtype=bool)}
    part = {name: values[:1] for name, values in several.items()}
    data = from_arrays("mine", several, names, several, names, validation=Split(part, names[:1]))
    assert data.validation_x is not None
    assert data.validation_x["ids"].tolist() == [[0]]


def test_the_validation_examples_can_be_tested_on() -> None:
    data = from_arrays(**arrays(test_y=np.full(3, -1)), validation=held(), test_split="validation")
    assert data.test_y.tolist() == [2, 0, 1]
    assert data.validation_y is None
    with pytest.raises(ConfigError, match=r"mine: test_split = 'validation': the data have no validation examples"):
        from_arrays(**arrays(), test_split="validation")


@pytest.mark.parametrize("kind", [np.int64, np.float32])
def test_secret_test_labels_are_named_with_the_way_out(kind: type) -> None:
    secret = arrays(train_y=np.array([0, 1, 2, 0, 1, 2], dtype=kind), test_y=np.full(3, -1, dtype=kind))
    way_out = r"mine: all 3 test labels are -1, so the test examples are unlabelled; set data\.options\.test_split = "
    with pytest.raises(ConfigError, match=way_out + "'validation' to test on the validation examples"):
        from_arrays(**secret, validation=held(), task="classes")
    with pytest.raises(ConfigError, match=way_out + "'train' to test on a part of the training examples"):
        from_arrays(**secret, task="classes")
    signs = from_arrays(**arrays(train_y=np.array([-1, 1] * 3), test_y=np.full(3, -1)))  # these are labels
    assert signs.test_y.tolist() == [0, 0, 0]


def test_validation_examples_that_do_not_fit_are_rejected() -> None:
    with pytest.raises(
        ConfigError, match=r"test_x is float32 of shape \(3, 2\), validation_x float32 of shape \(3, 3\)"
    ):
        from_arrays(**arrays(), validation=Split(np.zeros((3, 3), np.float32), np.arange(3)))
    with pytest.raises(ConfigError, match=r"test_y is int64 .* validation_y float64"):
        from_arrays(**arrays(), validation=held()._replace(y=np.array([0.5, 1, 2])))
    with pytest.raises(ConfigError, match="test and validation examples have different inputs"):
        from_arrays(**arrays(), validation=held()._replace(x={"a": np.zeros(3)}))
    whole = from_arrays(**arrays())
    parts = {name: getattr(whole, name) for name in ("name", "train_x", "train_y", "test_x", "test_y", "n_classes")}
    with pytest.raises(ValueError, match="validation_x and validation_y: give both, or neither"):
        Dataset(**parts, validation_x=whole.test_x)
    with pytest.raises(ValueError, match=r"validation_y holds 0 to 3; must be classes 0 to 2"):
        Dataset(**parts, validation_x=whole.test_x, validation_y=np.array([0, 1, 3]))
    with pytest.raises(ValueError, match=r"train_groups has shape \(3,\); must be \(6,\)"):
        Dataset(**parts, train_groups=np.arange(3))


def test_a_transformation_changes_all_splits() -> None:
    data = from_arrays(**arrays(), validation=held()).transformed(lambda x: x[:, :1] + 1, "data.transform")
    assert data.validation_x is not None
    assert data.validation_x.tolist() == [[19.0], [21.0], [23.0]]
    assert data.test_x.tolist() == [[13.0], [15.0], [17.0]]


def test_owners_that_are_text_are_numbered_in_natural_order() -> None:
    owners = np.array(["site10", "site2", "site2", "site1", "site10", "site1"])
    data = from_arrays(**arrays(), train_owners=owners, test_owners=np.array(["site2", "elsewhere", "site1"]))
    assert data.owner_names == ("site1", "site2", "site10")
    assert data.train_owners is not None
    assert data.train_owners.tolist() == [2, 1, 1, 0, 2, 0]
    assert data.test_owners is not None
    assert data.test_owners.tolist() == [1, -1, 0]
