"""Runs on small inputs as people have them: each is used as it is meant, or an error or a line says what is not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from fedtempo.data.sources import digits
from fedtempo.errors import ConfigError
from fedtempo.runs import world
from fedtempo.runs.config import parse
from fedtempo.runs.run import run

DATA = digits()
X, Y = DATA.train_x[:300], DATA.train_y[:300]
FLEET = {"compute": {"unit": "s/visit", "speed": 2.0}, "link": "none", "estimates": "exact"}


def summary_of(tmp_path: Path, x: Any, y: Any, **changes: Any) -> dict[str, Any]:
    """Return the summary of a short run on 200 training and 100 test examples."""
    path = tmp_path / "small.npz"
    np.savez(path, train_x=x[:200], train_y=y[:200], test_x=x[200:300], test_y=y[200:300])
    tables: dict[str, Any] = {
        "run": {"horizon": 20.0, "evaluate_every": 10.0},
        "data": {"source": f"npz:{path}", "clients": 5},
        "model": {"network": "logistic"},
        "training": {"lr": 0.1},
        "fleet": FLEET,
        "strategy": {"name": "fedavg"},
        "executor": {"kind": "inline"},
    }
    summary, _, _ = run(parse({name: {**table, **changes.get(name, {})} for name, table in tables.items()}))
    return summary


def test_floats_0_to_9_ask_for_the_task(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"train_y holds floats with only 10 values, all whole, 0 to 9; set data.o"):
        summary_of(tmp_path, X, Y.astype(np.float64))
    classes = summary_of(tmp_path, X, Y.astype(np.float64), data={"options": {"task": "classes"}})
    assert classes["data"]["task"] == "classes"
    assert classes["final_accuracy"] > 0.5


def test_one_hot_labels_are_classes_and_it_is_said(tmp_path: Path) -> None:
    one_hot = summary_of(tmp_path, X, np.eye(10, dtype=np.float32)[Y])
    assert one_hot["data"]["about"] == "one-hot labels as 10 classes"
    assert one_hot["final_accuracy"] == summary_of(tmp_path, X, Y)["final_accuracy"] > 0.5


def test_fourteen_flags_are_several_labels_with_auc_and_f1(tmp_path: Path) -> None:
    """Which of 14 pixels of the image are bright, which a linear model can say."""
    flags = (X.reshape(300, 64)[:, 20:34] > 0.5).astype(np.int8)
    with pytest.raises(ConfigError, match=r"rows of 14 zeros and ones that are not one-hot; set data.options.task ="):
        summary_of(tmp_path, X, flags)
    several = summary_of(
        tmp_path,
        X,
        flags,
        data={"options": {"task": "multilabel"}},
        run={"metrics": ["auc", "f1-macro"]},
        training={"lr": 1.0},
    )
    assert several["data"]["task"] == "multilabel"
    assert several["metrics"]["auc"]["final"] > 0.75
    assert several["metrics"]["f1-macro"]["final"] > 0.4


def test_a_mask_for_each_image_is_segmentation(tmp_path: Path) -> None:
    masks = (X[:, 0] > 0.5).astype(np.int64)
    with pytest.raises(ConfigError, match=r"network = 'logistic': needs one label for each example.*take 'unet'"):
        summary_of(tmp_path, X, masks)
    metrics = ["mean-iou", "dice"]
    found = summary_of(tmp_path, X, masks, model={"network": "unet", "channels": [4, 8]}, run={"metrics": metrics})
    assert found["data"]["about"].startswith("segmentation of 8 x 8 pixels into 2 classes; class 0 is ")
    assert found["metrics"]["dice"]["final"] > found["metrics"]["mean-iou"]["final"] > 0.5


def test_text_labels_are_classes_in_natural_order(tmp_path: Path) -> None:
    names = np.array([f"class{label + 2}" for label in Y])
    named = summary_of(tmp_path, X, names, run={"metrics": ["by-class"]})
    assert list(named["by_class"]) == [f"class{i}" for i in range(2, 12)]
    assert named["final_accuracy"] == summary_of(tmp_path, X, Y)["final_accuracy"]


@pytest.mark.parametrize("network", [{"network": "mlp"}, {"network": "cnn", "channels": [4, 4], "hidden": [8]}])
@pytest.mark.parametrize("dtype", [np.uint16, np.int16])
def test_integers_of_16_bits_are_numbers_and_not_scaled(tmp_path: Path, network: Any, dtype: Any) -> None:
    pixels = (X * 16).astype(dtype)
    found = summary_of(tmp_path, pixels, Y, model=network, training={"lr": 0.001})
    assert found["data"]["about"] == f"10 classes; inputs are {np.dtype(dtype)}, taken as numbers and not scaled"
    assert np.isfinite(found["final_loss"])


def test_booleans_are_0_and_1(tmp_path: Path) -> None:
    bright = X > 0.5
    found = summary_of(tmp_path, bright, Y)
    assert found["data"]["about"] == "10 classes; inputs are bool, taken as numbers and not scaled"
    assert found["final_loss"] == summary_of(tmp_path, bright.astype(np.float32), Y)["final_loss"]


@pytest.mark.parametrize(
    ("kind", "distribution"),
    [
        ({"kind": "pareto", "b": 2.0, "scale": 1.5}, stats.pareto(2.0, scale=1.5)),
        ({"kind": "lognormal", "s": 0.5, "scale": 2.0}, stats.lognorm(0.5, scale=2.0)),
        ({"kind": "weibull", "c": 1.5, "scale": 2.0}, stats.weibull_min(1.5, scale=2.0)),
        ({"kind": "gamma", "a": 2.0, "scale": 1.5}, stats.gamma(2.0, scale=1.5)),
    ],
)
def test_skewed_times_have_the_shape_that_scipy_gives_them(kind: Any, distribution: Any) -> None:
    tables = {
        "run": {"horizon": 1.0},
        "data": {"clients": 1000},
        "fleet": FLEET | {"compute": {"unit": "s/visit", **kind}},
        "strategy": {"name": "fedavg"},
    }
    config = parse(tables)
    speeds = world.build_world(config).fleet.speed.values
    assert len(speeds) == 1000
    assert stats.kstest(speeds, distribution.cdf).pvalue > 1e-4
    cut = parse(tables | {"fleet": FLEET | {"compute": {"unit": "s/visit", **kind, "high": 3.0}}})
    assert world.build_world(cut).fleet.speed.values.max() <= 3.0


def test_seconds_per_visit_are_said_not_to_grow_with_the_work(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def said(**changes: Any) -> Any:
        caplog.clear()
        warnings = summary_of(tmp_path, X, Y, **changes)["warnings"]
        assert [record.getMessage() for record in caplog.records if "s/visit" in record.getMessage()] == [
            f"fedavg, seed 1: {line}" for line in warnings
        ]
        return warnings

    assert said() == []
    assert said(training={"lr": 0.1, "epochs": 10}) == [
        "visits take the seconds of fleet.compute (unit = 's/visit'), whatever training.epochs = 10 is; set unit = "
        "'s/example' for times that grow with the work, or ignore_work = true if this is meant"
    ]
    assert "training.steps = 7" in said(training={"lr": 0.1, "steps": 7})[0]
    by_example = FLEET | {"compute": {"unit": "s/example", "speed": 0.005}}
    assert said(training={"lr": 0.1, "epochs": 9}, fleet=by_example) == []
    ignored = FLEET | {"compute": {"unit": "s/visit", "speed": 2.0, "ignore_work": True}}
    assert said(training={"lr": 0.1, "epochs": 8}, fleet=ignored) == []


def test_a_deadline_that_nobody_can_meet_is_warned_of_once_and_in_the_summary(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    late = FLEET | {"link": {"kind": "fixed", "download_s": 1.0, "upload_s": 1.0}}
    found = summary_of(
        tmp_path, X, Y, fleet=late, strategy={"name": "fedcs", "deadline_s": 0.1}, run={"horizon": 100.0}
    )
    said = "nobody trains: no client has finished a visit by t = 20 s; a visit takes 4 s on average"
    assert found["warnings"] == [said]
    assert [record.getMessage() for record in caplog.records if "nobody trains" in record.getMessage()] == [
        f"fedcs, seed 1: {said}"
    ]
    assert (found["commits"], found["visits"]) == (0, 0)
