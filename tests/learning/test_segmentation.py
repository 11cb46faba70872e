"""The task segmentation: masks (n, height, width), cross-entropy per pixel, pixel accuracy, mean IoU and Dice."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fedtempo.data.dataset import from_arrays
from fedtempo.data.masks import IGNORED
from fedtempo.data.sources import load
from fedtempo.errors import ConfigError
from fedtempo.learning.evaluation import evaluate, evaluate_part
from fedtempo.learning.examples import Examples
from fedtempo.learning.local import train
from fedtempo.learning.losses import CrossEntropy
from fedtempo.learning.metric_values import Metrics
from fedtempo.learning.metrics import OwnMetric
from fedtempo.learning.state import FlatModel
from fedtempo.learning.training import Training
from fedtempo.learning.unet import UNet
from fedtempo.record.metric import measure_of
from fedtempo.runs.config import parse
from fedtempo.runs.run import run
from fedtempo.runtime.executors.device import OnDevice
from fedtempo.runtime.executors.inline import Inline
from fedtempo.runtime.executors.job import Job
from fedtempo.runtime.executors.processes import Processes
from tests.learning.test_several_inputs import outcome
from tests.precision import DOUBLE
from tests.strategies.test_every_strategy import BASE

F64 = torch.float64


def squares(n: int, side: int = 12, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return noisy images (n, 1, side, side), each with a bright square, and masks of the squares."""
    rng = np.random.default_rng(seed)
    y = np.zeros((n, side, side), dtype=np.uint8)
    for mask, (top, left, size) in zip(y, rng.integers((0, 0, 3), (side - 5, side - 5, 6), (n, 3))):
        mask[top : top + size, left : left + size] = 1
    return (y[:, None] * 0.6 + 0.4 * rng.random((n, 1, side, side))).astype(np.float32), y


def understood(train: Any, test: Any = None, *, x: Any = None, **options: Any) -> Any:
    y = np.asarray(train)
    z = y if test is None else np.asarray(test)
    inputs = np.zeros((len(y), 1, *y.shape[-2:]), np.float32) if x is None else x
    return from_arrays("mine", inputs, y, inputs[: len(z)], z, **options)


# What masks are taken for -------------------------------------------------------------------------------------------


def test_a_mask_for_each_image_is_segmentation() -> None:
    y = np.array([[[0, 0], [0, 2]], [[0, 1], [1, 1]]])
    for dtype in (np.uint8, np.int32, np.int64):
        data = understood(y.astype(dtype))
        assert (data.task, data.n_classes, data.train_y.dtype) == ("segmentation", 3, np.int64)
        assert data.train_y.tolist() == y.tolist()
        assert data.about.startswith(
            "segmentation of 2 x 2 pixels into 3 classes; class 0 is 50.0% of the training pixels"
        )
    assert understood(y[:, None]).train_y.shape == understood(y[..., None], x=np.zeros((2, 1, 2, 2))).train_y.shape
    flags = understood(y > 0)
    assert (flags.n_classes, flags.train_y.tolist()) == (2, (y > 0).astype(int).tolist())
    bytes_of_png = understood((y > 0).astype(np.uint8) * 255)
    assert (bytes_of_png.n_classes, bytes_of_png.train_y.max()) == (2, 1)
    assert "2 classes, 0 and 255" in bytes_of_png.about
    assert measure_of({"task": data.task}).name == "pixel accuracy"


def test_pixels_without_a_label_are_named_and_left_out() -> None:
    y = np.array([[[0, 1], [255, 2]]])
    with pytest.raises(ConfigError, match=r"hold 255 in 25.0% of the pixels, .*set data.options.ignore = 255 if"):
        understood(y)
    data = understood(y, ignore=255)
    assert data.train_y.tolist() == [[[0, 1], [IGNORED, 2]]]
    assert data.about.endswith("; 25.0% are ignored")
    with pytest.raises(ConfigError, match=r"hold -1 in 25.0% of the pixels.*set data.options.ignore = -1"):
        understood(np.where(y == 255, -1, y))
    assert understood(np.where(y == 255, -1, y), ignore=-1).n_classes == 3
    with pytest.raises(ConfigError, match=r"train_y: no pixel of example 1 has a label"):
        understood(np.concatenate([y, np.full_like(y, 255)]), y, ignore=255)
    with pytest.raises(ConfigError, match=r"ignore = 255: is for masks"):
        from_arrays("mine", np.zeros((2, 3)), [0, 1], np.zeros((2, 3)), [0, 1], ignore=255)
    with pytest.raises(ConfigError, match=r"ignore = '255': must be a whole number"):
        understood(y, ignore="255")


@pytest.mark.parametrize(
    ("y", "options", "error"),
    [
        (np.zeros((2, 4, 4)) + 0.5, {}, r"train_y holds numbers that are not whole, one for each pixel"),
        (np.zeros((2, 4, 4, 3), int), {}, r"train_y has shape \(2, 4, 4, 3\); .*its axis of length 3 is one-hot"),
        (np.zeros((2, 2, 2), int), {}, r"train_y has shape \(2, 2, 2\), .*set data.options.task = 'segmentation'"),
        (np.zeros(2, int), {"task": "segmentation"}, r"train_y has shape \(2,\); must be \(examples, height, width\)"),
        (np.array([["a"]]), {"task": "segmentation"}, r"a mask must hold the number of each pixel's class"),
        (np.full((2, 4, 4), 9) * np.eye(4, dtype=int), {"n_classes": 4}, r"hold 9 in 25.0% .*must be classes 0 to 3"),
    ],
)
def test_other_masks_are_rejected_in_one_line(y: Any, options: Any, error: str) -> None:
    with pytest.raises(ConfigError, match=error.replace("must be classes", "classes must be")):
        understood(y, x=np.zeros((len(y), 1, 4, 4), np.float32), **options)


def test_images_with_channels_last_and_classes_of_the_test_set_alone_are_named() -> None:
    masks = np.zeros((2, 4, 4), int)
    with pytest.raises(ConfigError, match=r"images with channels last; store images as \(channels, height, width\)"):
        understood(masks, x=np.zeros((2, 4, 4, 3), np.float32))
    with pytest.raises(ConfigError, match=r"test labels not among the training labels: 3 \(1\)"):
        understood(masks, np.full((1, 4, 4), 3))
    assert understood(masks, np.full((1, 4, 4), 3), task="segmentation").n_classes == 4


def test_strata_are_the_largest_class_besides_0() -> None:
    y = np.array([[[0, 0], [0, 0]], [[0, 0], [0, 2]], [[1, 1], [2, 0]]])
    data = understood(y)
    assert (data.strata[0].tolist(), data.strata[1]) == ([0, 2, 1], 3)


# Losses and metrics, by hand ----------------------------------------------------------------------------------------


class Scores(nn.Module):
    """Return logits (batch, 2, 1, 3) whose second class is weight * x."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones((), dtype=F64))

    def forward(self, x: Tensor) -> Tensor:
        return torch.stack([torch.zeros_like(x[:, 0]), self.weight * x[:, 0]], dim=1)


ONE_ROW = (
    np.array([[[[2.0, -2.0, 2.0]]], [[[2.0, 2.0, -2.0]]]]),
    np.array([[[1, 0, 0]], [[1, IGNORED, 1]]]),
)
"""Two images of three pixels. Predicted: 1 0 1 and 1 - 0; so 2 of 3 and 1 of 2 pixels are right."""
RIGHT, WRONG = math.log1p(math.exp(-2)), math.log1p(math.exp(2))


def test_accuracy_loss_iou_and_dice_are_those_worked_out_by_hand() -> None:
    model = FlatModel(Scores(), (1, 1, 3), F64)
    examples = Examples(*ONE_ROW, False, F64)
    accuracy, loss = evaluate(model, examples)
    assert accuracy == pytest.approx((2 / 3 + 1 / 2) / 2)
    assert loss == pytest.approx(((2 * RIGHT + WRONG) / 3 + (RIGHT + WRONG) / 2) / 2)
    # Pixels by class and prediction: class 0 is right once and taken for 1 once; class 1 is right twice, wrong once.
    asked = ("mean-iou", "dice", "balanced-accuracy", "by-class", "confusion")
    metrics = Metrics(asked, 2)
    part = evaluate_part(model, examples, 0, 2, metrics.gathers)
    assert part.gathered is not None
    values = metrics.of(ONE_ROW[1], part.gathered)
    assert values["confusion"].tolist() == [[1, 1], [1, 2]]
    assert values["mean-iou"] == pytest.approx((1 / 3 + 2 / 4) / 2)
    assert values["dice"] == pytest.approx((2 / 4 + 4 / 6) / 2)
    assert values["balanced-accuracy"] == pytest.approx((1 / 2 + 2 / 3) / 2)
    assert values["by-class"].tolist() == pytest.approx([1 / 2, 2 / 3])
    scores = evaluate_part(model, examples, 0, 2, "scores").gathered
    assert scores is not None
    assert scores[0].tolist() == pytest.approx([2 / 3, 1 / 2])


def test_means_over_classes_leave_out_classes_that_no_test_pixel_has() -> None:
    metrics = Metrics(("mean-iou", "dice", "confusion"), 3)
    counts = np.array([[[3, 0, 1], [0, 0, 0], [0, 0, 0]]])  # class 2 is predicted once, wrongly
    values = metrics.of(np.zeros((1, 2, 2), int), counts)
    assert values["mean-iou"] == 3 / 4
    assert values["dice"] == 6 / 7
    assert math.isnan(metrics.of(np.zeros((1, 2, 2), int), counts, is_finite=False)["dice"])


def test_an_own_metric_gets_the_outputs_for_all_pixels(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys
    import types

    module: Any = types.ModuleType("pixels_own")
    module.shape = lambda targets, outputs: float(outputs.shape[1] * 100 + targets.shape[2])
    monkeypatch.setitem(sys.modules, "pixels_own", module)
    metrics = Metrics(("mean-iou", OwnMetric("pixels_own:shape")), 2)
    model, examples = FlatModel(Scores(), (1, 1, 3), F64), Examples(*ONE_ROW, False, F64)
    part = evaluate_part(model, examples, 0, 2, metrics.gathers)
    assert part.gathered is not None
    values = metrics.of(ONE_ROW[1], part.gathered)
    assert values["shape"] == 203
    assert values["mean-iou"] == pytest.approx((1 / 3 + 2 / 4) / 2)


def test_a_step_is_the_one_worked_out_by_hand() -> None:
    """The mean is over the five pixels with a label; d loss / d weight = sum of (p1 - y) * x / 5."""
    model = FlatModel(Scores(), (1, 1, 3), F64)
    examples = Examples(*ONE_ROW, False, F64)
    statistics = train(
        model, examples, Training(lr=0.1, full_batch=True), np.random.default_rng(0), model.vector.clone()
    )
    p = 1 / (1 + math.exp(-2))  # of class 1 where x = 2
    gradient = ((p - 1) * 2 + (1 - p) * -2 + p * 2 + (p - 1) * 2 + (1 - p - 1) * -2) / 5
    assert model.vector.tolist() == pytest.approx([1 - 0.1 * gradient])
    assert statistics["loss"] == pytest.approx((3 * RIGHT + 2 * WRONG) / 5)


@pytest.mark.parametrize("weights", [None, [1.0, 3.0]])
def test_gradients_by_hand_are_those_of_autograd(weights: list[float] | None) -> None:
    loss = CrossEntropy(weights=None if weights is None else torch.tensor(weights, dtype=F64))
    torch.manual_seed(1)
    outputs = torch.randn(2, 2, 1, 3, dtype=F64, requires_grad=True)
    labels = torch.from_numpy(ONE_ROW[1])
    value = loss(outputs, labels)
    (gradient,) = torch.autograd.grad(value, outputs)
    assert value.item() == pytest.approx(
        F.cross_entropy(outputs, labels, loss._weights, ignore_index=IGNORED).item(), rel=1e-12
    )
    by_hand, slope = loss.differentiated(outputs.detach(), labels)
    torch.testing.assert_close(by_hand, value.detach())
    torch.testing.assert_close(slope, gradient)
    torch.testing.assert_close(loss(outputs, labels, "none").shape, torch.Size([2]))


def test_outputs_of_another_size_are_named() -> None:
    with pytest.raises(ConfigError, match=r"outputs of shape \(2, 2, 1, 2\) for masks of shape \(2, 1, 3\)"):
        CrossEntropy()(torch.zeros(2, 2, 1, 2), torch.from_numpy(ONE_ROW[1]))


# The network --------------------------------------------------------------------------------------------------------


def test_the_unet_has_the_parameters_that_it_states_and_outputs_for_each_pixel() -> None:
    module = UNet().build((1, 28, 28), 2)
    down = [9 * (a * b + b * b) + 4 * b for a, b in ((1, 16), (16, 32), (32, 64))]
    up = [64 * 32 + 32, 9 * (64 * 32 + 32 * 32) + 4 * 32, 32 * 16 + 16, 9 * (32 * 16 + 16 * 16) + 4 * 16]
    assert sum(part.numel() for part in module.parameters()) == sum(down) + sum(up) + 16 * 2 + 2 == 109_410
    assert UNet(channels=(4, 8)).build((3, 11, 7), 5)(torch.zeros(2, 3, 11, 7)).shape == (2, 5, 11, 7)
    with pytest.raises(
        ConfigError, match=r"needs images \(channels, height, width\), got examples of shape \(64, 64\)"
    ):
        UNet().build((64, 64), 2)
    with pytest.raises(Exception, match=r"groups = 4: must divide the channels of every scale, including 6"):
        UNet(channels=(6, 8))


def test_a_unet_sees_the_whole_image_around_a_pixel() -> None:
    """With three scales, a pixel's output depends on pixels 8 away; with one scale (5 x 5 pixels seen) it does not."""
    torch.manual_seed(0)
    for widths, depends in (((4, 4, 4), True), ((4,), False)):
        module = UNet(channels=widths).build((1, 24, 24), 2).eval()
        for part in module.modules():  # normalisation mixes all pixels
            if isinstance(part, nn.GroupNorm):
                part.forward = lambda x: x  # type: ignore[method-assign]
        images = torch.randn(1, 1, 24, 24, requires_grad=True)
        (gradient,) = torch.autograd.grad(module(images)[0, 0, 12, 12], images)
        assert bool(gradient[0, 0, 12, 20]) == depends


# Whole runs ---------------------------------------------------------------------------------------------------------


def config(path: Path, **changes: Any) -> Any:
    network = {"network": "unet", "channels": [4, 8]}
    tables = {
        **BASE,
        "run": {"horizon": 60.0, "evaluate_every": 10.0, "metrics": ["mean-iou", "dice"]},
        "data": {"source": f"npz:{path}", "clients": 4, "partition": {"kind": "iid"}},
        "model": {} if "model" in changes else network,
        "training": {"lr": 0.5, "momentum": 0.9, "batch_size": 10},
        "strategy": {"name": "fedavg", "clients_per_round": 2},
        "executor": {"kind": "inline"},
    }
    return parse({name: {**table, **changes.get(name, {})} for name, table in tables.items()})


@pytest.fixture
def npz(tmp_path: Path) -> Path:
    (x, y), (z, w) = squares(120), squares(40, seed=1)
    np.savez(tmp_path / "squares.npz", train_x=x, train_y=y, test_x=z, test_y=w)
    return tmp_path / "squares.npz"


def test_a_run_learns_masks_and_measures_them(npz: Path) -> None:
    summary, _, _ = run(config(npz))
    assert summary["data"]["task"] == "segmentation"
    assert summary["data"]["about"].startswith("segmentation of 12 x 12 pixels into 2 classes; class 0 is ")
    assert summary["final_accuracy"] > 0.95
    metrics = summary["metrics"]
    assert 0.7 < metrics["mean-iou"]["final"] < metrics["dice"]["final"] <= 1


def test_settings_that_do_not_fit_masks_are_rejected_before_anything_trains(npz: Path) -> None:
    for changes, error in (
        ({"model": {"network": "cnn"}}, r"'cnn': needs one label for each .*take 'unet'"),
        ({"run": {"metrics": ["f1-macro"]}}, r"'f1-macro' is not defined for .*segmentation; choose from .*dice"),
        ({"training": {"loss": "squared"}}, r"needs segmentation: cross-entropy"),
        ({"training": {"class_weights": [1.0, 2.0, 3.0]}}, r"class_weights has 3 weights; .* has 2 classes"),
        ({"training": {"class_weights": "balanced"}, "data": {"tell_labels": True}}, r"report no counts of pixels"),
    ):
        with pytest.raises(ConfigError, match=error):
            run(config(npz, **changes))
    with pytest.raises(ConfigError, match=r"'unet': needs masks, and digits has classes; take another one"):
        run(config(npz, data={"source": "digits"}, run={"metrics": []}))
    assert run(config(npz, training={"class_weights": [1.0, 2.0]}, run={"horizon": 5.0}))[0]["commits"] > 0
    assert load(f"npz:{npz}", ignore=3).n_classes == 2


def job() -> Job:
    x, y = squares(30)
    y = y.astype(np.int64)
    y[:, :2] = IGNORED
    return Job(UNet(channels=(4, 8)), 2, x, y, [np.arange(15), np.arange(15, 30)], x[:8], y[:8], 4, metrics=("dice",))


@pytest.mark.usefixtures("double")
def test_executors_agree() -> None:
    training = Training(lr=0.1, statistics=frozenset({"squared_loss", "gradient_norm"}))
    with Inline(job()) as inline, OnDevice(job(), "cpu", streams=1) as device:
        one, two = outcome(inline, training), outcome(device, training)
    np.testing.assert_allclose(one[0], two[0], **DOUBLE)


def test_worker_processes_give_the_same_bits() -> None:
    training = Training(lr=0.1)
    with Inline(job()) as inline, Processes(job(), 1, "fork") as workers:
        one, two = outcome(inline, training), outcome(workers, training)
        assert (
            inline.evaluate(inline.initial()).result().metrics == workers.evaluate(workers.initial()).result().metrics
        )
    assert np.array_equal(one[0], two[0])
    assert one[1:] == two[1:]
