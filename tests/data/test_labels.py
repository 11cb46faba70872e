"""Labels are recognised and described, or an error in one line asks for the task."""

from __future__ import annotations

import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedtempo.data.dataset import Dataset, from_arrays
from fedtempo.data.sources import load
from fedtempo.errors import ConfigError

CLASSES = np.arange(60) % 10


def data_with(y: Any, test_y: Any = None, *, x: Any = None, **options: Any) -> Dataset:
    """Return a data set with these labels; without test labels the first third of them is used for testing."""
    labels = np.asarray(y)
    test = labels[: len(labels) // 3] if test_y is None else np.asarray(test_y)
    inputs = np.random.default_rng(1).normal(size=(len(labels), 4)) if x is None else x
    return from_arrays("mine", inputs, labels, np.resize(inputs, (len(test), *inputs.shape[1:])), test, **options)


def test_floats_with_few_whole_values_need_an_explicit_task() -> None:
    floats = CLASSES.astype(np.float64)
    with pytest.raises(ConfigError) as error:
        data_with(floats)
    assert str(error.value) == (
        "mine: train_y holds floats with only 10 values, all whole, 0 to 9; "
        "set data.options.task = 'classes' or 'numbers'"
    )
    classes = data_with(floats, task="classes")
    assert (classes.task, classes.n_classes, classes.train_y.tolist()) == ("classes", 10, CLASSES.tolist())
    assert (data_with(floats, task="numbers").task, data_with(floats + 0.5).task) == ("numbers", "numbers")
    assert data_with(np.arange(60.0)).task == "numbers"  # no value occurs twice
    with pytest.raises(ConfigError, match=r"floats with only 10 values"):
        data_with(floats[:, np.newaxis])
    with pytest.raises(ConfigError, match=r"must be whole numbers or text"):
        data_with(floats + 0.5, task="classes")


@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.int64, np.bool_])
def test_one_hot_rows_are_read_as_classes(dtype: Any) -> None:
    data = data_with(np.eye(10)[CLASSES].astype(dtype))
    assert (data.task, data.n_classes, data.train_y.tolist()) == ("classes", 10, CLASSES.tolist())
    assert data.about == "one-hot labels as 10 classes"


@pytest.mark.parametrize(
    ("dtype", "tasks"),
    [(np.float32, "'multilabel' or 'numbers'"), (np.int8, "'multilabel' or 'tokens' or 'numbers'")],
)
def test_several_labels_for_one_example_need_a_task(dtype: Any, tasks: str) -> None:
    flags = (np.random.default_rng(2).random((60, 14)) > 0.6).astype(dtype)
    with pytest.raises(ConfigError, match=rf"that are not one-hot; set data.options.task = {tasks}$"):
        data_with(flags)
    several = data_with(flags, task="multilabel")
    assert (several.task, several.n_classes, several.train_y.dtype) == ("multilabel", 14, np.bool_)
    assert np.array_equal(several.train_y, flags)
    assert several.about == "14 labels, each 0 or 1"
    with pytest.raises(ConfigError, match="task = 'multilabel': train_y and test_y must hold zeros and ones only"):
        data_with(flags * 2, task="multilabel")
    with pytest.raises(ConfigError, match=r"task = 'multilabel': train_y has shape \(60,\); must be rows of zeros"):
        data_with(flags[:, 0], task="multilabel")
    numbers = data_with(flags, task="numbers")
    assert (numbers.task, numbers.n_classes, numbers.train_y.shape) == ("numbers", 14, (60, 14))
    with pytest.raises(ConfigError, match=r"rows must be one-hot"):
        data_with(flags, task="classes")


def test_rows_of_integers_are_tokens_only_with_symbol_inputs_of_the_same_length() -> None:
    rows = np.random.default_rng(3).integers(0, 5, (60, 4))
    with pytest.raises(ConfigError, match=r"rows of 4 whole numbers; set data.options.task = 'tokens' or 'numbers'"):
        data_with(rows)
    tokens = data_with(rows, x=rows + 2)
    assert (tokens.task, tokens.n_classes) == ("tokens", 7)
    assert tokens.about == "tokens of 7 kinds, 4 for each example; inputs are int64, taken as symbols"
    assert data_with(rows % 2, x=rows).task == "tokens"
    assert data_with(rows, task="tokens").task == "tokens"
    assert data_with(rows, task="numbers").train_y.dtype == np.float32
    with pytest.raises(ConfigError, match=r"hold the token -100; tokens must be 0 or more"):
        data_with(np.where(rows == 0, -100, rows), x=rows)


def test_a_column_of_classes_is_flattened() -> None:
    data = data_with(CLASSES[:, np.newaxis])
    assert (data.task, data.train_y.shape) == ("classes", (60,))


@pytest.mark.parametrize("dtype", [np.str_, object])
def test_text_labels_are_classes_in_alphabetical_order(dtype: Any) -> None:
    data = data_with(np.array(["cat", "ant", "bee"] * 20, dtype=dtype))
    assert (data.class_names, data.train_y[:3].tolist()) == (("ant", "bee", "cat"), [2, 0, 1])
    assert data.about == "classes: ant, bee, cat"
    with pytest.raises(ConfigError, match=r"text can only be classes"):
        data_with(["a", "b"] * 10, task="numbers")


def test_text_labels_are_read_from_an_npz_file(tmp_path: Path) -> None:
    x, y = np.zeros((6, 2)), np.array(["no", "yes"] * 3)
    np.savez(tmp_path / "a.npz", train_x=x, train_y=y, test_x=x, test_y=y)
    assert load(f"npz:{tmp_path / 'a.npz'}").class_names == ("no", "yes")
    np.savez(tmp_path / "b.npz", train_x=x, train_y=y.astype("S"), test_x=x, test_y=y.astype("S"))
    with pytest.raises(ConfigError, match=r"train_y holds bytes .*astype.'U'"):
        load(f"npz:{tmp_path / 'b.npz'}")


def test_object_labels_are_rejected_with_their_types() -> None:
    with pytest.raises(ConfigError, match=r"train_y holds Python objects \(int, str\)"):
        data_with(np.array(["a", 1] * 10, dtype=object))


def test_booleans_are_read_as_two_classes() -> None:
    data = data_with(CLASSES > 4)
    assert (data.n_classes, data.class_names) == (2, ("False", "True"))
    assert data_with(CLASSES > 4, task="numbers").train_y.dtype == np.float32


@pytest.mark.parametrize("dtype", [np.int64, np.int8])
def test_minus_one_and_one_are_read_as_two_classes(dtype: Any) -> None:
    data = data_with(np.where(CLASSES > 4, 1, -1).astype(dtype))
    assert (data.task, data.n_classes, data.class_names) == ("classes", 2, ("-1", "1"))
    assert data.train_y.tolist() == (CLASSES > 4).astype(int).tolist()
    assert data.about == "labels -1, 1 as 2 classes"


def test_other_negative_labels_need_an_explicit_task_and_are_counted() -> None:
    marked = np.where(CLASSES == 3, -1, CLASSES)
    says = (
        "train_y and test_y: label -1 in 8 of 80 rows .remove them if unlabelled.; "
        "set data.options.task = 'classes' or 'numbers'"
    )
    with pytest.raises(ConfigError, match=says):
        data_with(marked)
    assert data_with(marked, task="classes").class_names == ("-1", "0", "1", "2", "4", "5", "6", "7", "8", "9")
    with pytest.raises(ConfigError, match=r"label -1 in 8 of 80 rows .*classes must be 0 to 9"):
        data_with(marked, n_classes=10)


def test_labels_found_only_in_the_test_set_are_named() -> None:
    with pytest.raises(ConfigError) as error:
        data_with(["<=50K", ">50K"] * 20, ["<=50K.", ">50K.", ">50K"])
    assert str(error.value) == (
        "mine: test labels not among the training labels: '<=50K.' (1), '>50K.' (1); known labels: '<=50K', '>50K'"
    )
    with pytest.raises(
        ConfigError, match=r"not among the training labels: 10 .2.; .*task = 'classes' if this is meant"
    ):
        data_with(CLASSES, [1, 10, 10])
    assert data_with(CLASSES, [1, 10], task="classes").n_classes == 11
    assert data_with(CLASSES, [1, 10], n_classes=12).n_classes == 12


def test_missing_classes_are_reported_and_identifiers_need_an_explicit_task() -> None:
    data = data_with(np.resize([0, 1, 5], 60))
    assert (data.n_classes, data.about) == (6, "6 classes, no training example of 2, 3, 4")
    with pytest.raises(ConfigError, match=r"train_y has 60 distinct values in 60 rows, like an identifier; set"):
        data_with(np.random.default_rng(4).permutation(60))
    with pytest.raises(ConfigError, match=r"holds 31 distinct integers up to 2020, but classes are numbered from 0"):
        data_with(np.resize(np.arange(1990, 2021), 310))
    with pytest.raises(ConfigError, match=r"60 distinct values in 60 rows, like an identifier"):
        data_with([f"person {i}" for i in range(60)])
    assert data_with(np.arange(60), task="numbers").task == "numbers"


@pytest.mark.parametrize("dtype", [np.uint16, np.int8, np.int16, np.uint32, np.bool_])
def test_integers_of_other_types_are_read_as_numbers(dtype: Any) -> None:
    x = np.arange(240).reshape(60, 4).astype(dtype)
    data = data_with(CLASSES, x=x)
    assert data.train_x.dtype == np.float32
    assert np.array_equal(data.train_x, x.astype(np.float32))
    assert data.about == f"10 classes; inputs are {np.dtype(dtype)}, taken as numbers and not scaled"


def test_integers_are_read_as_symbols_unless_negative_or_configured() -> None:
    x = np.arange(240).reshape(60, 4)
    assert data_with(CLASSES, x=x).train_x.dtype == np.int64
    assert data_with(CLASSES, x=x, inputs="numbers").train_x.dtype == np.float32
    assert data_with(CLASSES, x=x - 5).train_x.dtype == np.float32
    assert data_with(CLASSES, x=x.astype(np.uint16), inputs="symbols").train_x.dtype == np.int64
    with pytest.raises(ConfigError, match=r"inputs = 'tokens': must be 'numbers' or 'symbols'"):
        data_with(CLASSES, x=x, inputs="tokens")
    with pytest.raises(ConfigError, match=r"train_x is float64; symbols must be integers"):
        data_with(CLASSES, inputs="symbols")


def test_the_task_of_a_users_function_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = np.ones((40, 2)), np.resize([0.0, 1.0], 40)
    module = types.ModuleType("my_labels")
    module.four = lambda: (x, y, x, y)  # type: ignore[attr-defined]
    module.takes = lambda task: (x, y + (task == "mine") / 2, x, y + (task == "mine") / 2)  # type: ignore[attr-defined]
    module.whole = lambda: from_arrays("whole", x, y, x, y, task="classes")  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "my_labels", module)
    with pytest.raises(ConfigError, match=r"floats with only 2 values"):
        load("my_labels:four")
    assert load("my_labels:four", task="classes").n_classes == 2
    assert load("my_labels:takes", task="mine").task == "numbers"
    with pytest.raises(ConfigError, match=r"data.options.task: my_labels:whole returns a Dataset"):
        load("my_labels:whole", task="numbers")
    with pytest.raises(ConfigError, match=r"task = 'class': must be 'classes', 'multilabel', 'numbers', 'segm"):
        load("my_labels:four", task="class")
