"""Metrics of evaluations, by hand."""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedtempo.errors import ConfigError, UserCodeError
from fedtempo.learning.metric_values import Metrics
from fedtempo.learning.metrics import (
    METRICS,
    OwnMetric,
    asked_from,
    check_metrics,
    facts_of,
    name_of,
)

MODULE = """
def cost(targets, outputs):
    return float(abs(targets - outputs).sum())


def fails(targets, outputs):
    return 1 / (len(targets) - len(outputs))


def text(targets, outputs):
    return "good"


def alone(targets):
    return 0.0
"""


@pytest.fixture(scope="module", autouse=True)
def _module(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    folder = tmp_path_factory.mktemp("module")
    Path(folder, "metrics_own.py").write_text(MODULE)
    sys.path.insert(0, str(folder))
    yield
    sys.path.remove(str(folder))
    sys.modules.pop("metrics_own", None)


@pytest.fixture(autouse=True)
def _no_warnings() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def of(names: list[Any], targets: Any, gathered: Any, n_outputs: int = 3, **options: Any) -> dict[str, Any]:
    metrics = Metrics(asked_from(names), n_outputs)
    return metrics.of(np.asarray(targets), np.asarray(gathered), **options)


def test_classes() -> None:
    """Class 0: one hit, one false alarm, one miss, F1 = 1/2. Class 1: 2, 1, 0, F1 = 4/5. Class 2: 1, 0, 1, F1 = 2/3."""
    names = ["f1-macro", "f1-micro", "precision-macro", "recall-macro", "balanced-accuracy", "by-class", "confusion"]
    found = of(names, [0, 0, 1, 1, 2, 2], [0, 1, 1, 1, 2, 0])
    assert found["f1-macro"] == pytest.approx((1 / 2 + 4 / 5 + 2 / 3) / 3)
    assert found["f1-micro"] == pytest.approx(4 / 6)
    assert found["precision-macro"] == pytest.approx((1 / 2 + 2 / 3 + 1) / 3)
    assert found["recall-macro"] == found["balanced-accuracy"] == pytest.approx((1 / 2 + 1 + 1 / 2) / 3)
    assert found["by-class"].tolist() == [0.5, 1.0, 0.5]
    assert found["confusion"].tolist() == [[1, 1, 0], [0, 2, 0], [1, 0, 1]]


def test_macro_averages_are_over_the_classes_of_the_test_set() -> None:
    """Class 2 occurs in predictions only, class 3 nowhere: classes 0 (F1 = 2/3) and 1 (F1 = 1) are left."""
    found = of(["f1-macro", "balanced-accuracy", "f1-weighted", "by-class"], [0, 0, 1], [0, 2, 1], n_outputs=4)
    assert found["f1-macro"] == pytest.approx((2 / 3 + 1) / 2)
    assert found["balanced-accuracy"] == pytest.approx((1 / 2 + 1) / 2)
    assert found["f1-weighted"] == pytest.approx((2 * 2 / 3 + 1) / 3)
    np.testing.assert_array_equal(found["by-class"], [0.5, 1.0, math.nan, math.nan])


def test_auc_counts_the_pairs_in_order() -> None:
    """Differences -1 and 1 for class 0, 0.5 and 2 for class 1: three of four pairs are in order, for both classes."""
    outputs = [[0.0, -1.0], [0.0, 1.0], [0.0, 0.5], [0.0, 2.0]]
    assert of(["auc"], [0, 0, 1, 1], outputs)["auc"] == pytest.approx(3 / 4)
    with_a_third = [[*row, -30.0] for row in outputs]
    assert of(["auc"], [0, 0, 1, 1], with_a_third)["auc"] == pytest.approx(3 / 4)
    assert math.isnan(of(["auc"], [1, 1], outputs[:2])["auc"])


def test_one_pass_serves_metrics_of_outputs_and_of_predictions() -> None:
    metrics = Metrics(asked_from(["auc", "f1-macro", "top-5"]), 6)
    assert metrics.gathers == "outputs"
    assert Metrics(asked_from(["f1-macro"]), 6).gathers == "predictions"
    assert Metrics((), 6).gathers == ""
    outputs = np.array([[6.0, 5, 4, 3, 2, 1], [6, 5, 4, 3, 2, 1]])
    found = metrics.of(np.array([0, 5]), outputs)
    assert found["top-5"] == 0.5
    assert found["f1-macro"] == pytest.approx((2 / 3 + 0) / 2)


def test_mcc_of_two_classes() -> None:
    """(1 * 2 - 0 * 1) / sqrt(1 * 2 * 2 * 3)."""
    assert of(["mcc"], [1, 1, 0, 0], [1, 0, 0, 0])["mcc"] == pytest.approx(2 / math.sqrt(12))


def test_several_labels() -> None:
    targets = np.array([[True, False], [True, True], [False, False]])
    outputs = np.array([[2.0, -1.0], [-1.0, 3.0], [-2.0, -3.0]])
    found = of(["exact-match", "by-class", "f1-macro", "auc"], targets, outputs)
    assert found["exact-match"] == pytest.approx(2 / 3)
    assert found["by-class"].tolist() == pytest.approx([2 / 3, 1.0])
    assert found["f1-macro"] == pytest.approx((2 / 3 + 1) / 2)
    assert found["auc"] == pytest.approx((1 + 1) / 2)
    assert of(["auc"], targets[:1], outputs[:1])["auc"] != of(["auc"], targets[:1], outputs[:1])["auc"]  # NaN


def test_tokens_count_position_by_position() -> None:
    found = of(["f1-macro", "confusion"], [[0, 1], [1, 1]], [[0, 1], [0, 1]], n_outputs=2)
    assert found["f1-macro"] == pytest.approx((2 / 3 + 4 / 5) / 2)
    assert found["confusion"].tolist() == [[1, 0], [1, 2]]


def test_numbers() -> None:
    targets, predicted = np.array([1.0, 2.0, 3.0]), np.array([1.0, 2.0, 5.0])
    found = of(["r2", "mae", "rmse", "median-ae"], targets, predicted)
    assert found == pytest.approx({"r2": 1 - 4 / 2, "mae": 2 / 3, "rmse": math.sqrt(4 / 3), "median-ae": 0.0})
    assert math.isnan(of(["r2"], np.array([2.0, 2.0]), np.array([1.0, 3.0]))["r2"])
    assert math.isnan(of(["r2"], np.array([2.0]), np.array([1.0]))["r2"])


def test_outputs_that_are_not_finite_give_no_metrics() -> None:
    names = ["f1-macro", "by-class", "confusion", "metrics_own:fails"]
    found = of(names, [0, 1], [[math.nan, 1.0], [0.0, 1.0]], n_outputs=2, is_finite=False)
    assert "confusion" not in found
    assert math.isnan(found["f1-macro"])
    assert math.isnan(found["fails"])
    assert np.isnan(found["by-class"]).all()


def test_own_functions() -> None:
    asked = asked_from([{"function": "metrics_own:cost", "name": "euros", "better": "lower"}, "metrics_own:cost"])
    assert [name_of(each) for each in asked] == ["euros", "cost"]
    assert Metrics(asked, 1).of(np.array([1.0, 2.0]), np.array([2.0, 4.0])) == {"euros": 3.0, "cost": 3.0}
    assert facts_of(asked) == [
        {"name": "euros", "better": "lower", "as_share": False},
        {"name": "cost", "better": None, "as_share": False},
    ]
    with pytest.raises(UserCodeError, match=r"run\.metrics: 'metrics_own:fails': ZeroDivisionError.*metrics_own\.py:7"):
        of(["metrics_own:fails"], [1.0], [1.0])
    with pytest.raises(ConfigError, match=r"'metrics_own:text' returned str; it must return a number"):
        of(["metrics_own:text"], [1.0], [1.0])
    with pytest.raises(ConfigError, match=r"must be a function of \(targets, outputs\)"):
        Metrics([OwnMetric("metrics_own:alone")], 1)
    with pytest.raises(ConfigError, match="has no 'nothing'"):
        check_metrics([OwnMetric("metrics_own:nothing")], "classes", 3, "digits")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("f1-macro", "give a list of names"),
        (["f1-makro"], "no such metric: 'f1-makro'; did you mean 'f1-macro'"),
        ([3], "3: give a name, module:function"),
        (["auc", "auc"], "duplicate 'auc'; name it once"),
        (["a:cost", "b:cost"], "duplicate 'cost'; give one"),
        (["own:mae"], "'mae' is another metric"),
        ([{"name": "x"}], "function: Field required"),
        ([{"function": "x"}], "must be module:function"),
        ([{"function": "a:b", "better": "up"}], "better = 'up'"),
    ],
)
def test_bad_entries_are_rejected(value: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        asked_from(value)


def test_a_metric_must_fit_the_task() -> None:
    with pytest.raises(ConfigError, match="'auc' is not defined for houses, which has numbers; choose from r2, mae"):
        check_metrics(("auc",), "numbers", 1, "houses")
    with pytest.raises(ConfigError, match="'confusion' records up to 1,000 classes, and words has 5,000"):
        check_metrics(("confusion",), "tokens", 5000, "words")
    for task in ("classes", "tokens", "multilabel", "numbers", "segmentation"):
        check_metrics([name for name, metric in METRICS.items() if task in metric.tasks], task, 10, "data")


@pytest.mark.parametrize("name", METRICS)
def test_every_metric_is_computed(name: str) -> None:
    """Of right predictions: the best value that there is."""
    metric, logits = METRICS[name], np.eye(6)
    targets, predicted, outputs = {
        "classes": (np.arange(6), np.arange(6), logits),
        "multilabel": (logits > 0, logits > 0, 2 * logits - 1),
        "numbers": (logits, logits, logits),
        "segmentation": (np.arange(6).reshape(1, 2, 3), np.eye(6, dtype=int)[None], None),
    }[metric.tasks[0]]
    value = of([name], targets, outputs if metric.gathers == "outputs" else predicted, 6)[name]
    best = np.eye(6) if name == "confusion" else np.ones(6) if name == "by-class" else float(metric.better == "higher")
    assert np.array_equal(value, best)
