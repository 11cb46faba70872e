"""The task multilabel: labels (n, labels) of 0 and 1, binary cross-entropy, and the share of labels that are right."""

from __future__ import annotations

import math
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fedtempo.data.dataset import from_arrays
from fedtempo.errors import ConfigError
from fedtempo.learning.evaluation import evaluate
from fedtempo.learning.examples import Examples
from fedtempo.learning.local import train
from fedtempo.learning.networks import Mlp
from fedtempo.learning.state import FlatModel
from fedtempo.learning.training import Training
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

LABELS = 4


def flags(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return inputs and, for each, which of four directions it lies in."""
    x = np.random.default_rng(seed).standard_normal((n, 5))
    return x, x @ np.random.default_rng(9).standard_normal((5, LABELS)) > 0.5


def source() -> Any:
    return from_arrays("flags", *flags(300), *flags(100, 1), task="multilabel", class_names=tuple("abcd"))


@pytest.fixture(autouse=True)
def mine(monkeypatch: pytest.MonkeyPatch) -> None:
    module: Any = types.ModuleType("bce")
    module.each = lambda outputs, labels: F.binary_cross_entropy_with_logits(outputs, labels, reduction="none")
    module.mean = lambda outputs, labels: module.each(outputs, labels).mean(dim=1)
    module.scalar = lambda outputs, labels: module.each(outputs, labels).mean()
    monkeypatch.setitem(sys.modules, "bce", module)


def test_accuracy_and_loss_are_those_worked_out_by_hand() -> None:
    module = nn.Linear(2, 2, bias=False).double()
    with torch.no_grad():
        module.weight.copy_(torch.eye(2))
    model = FlatModel(module, (2,), torch.float64)
    third = math.log(3)
    x = np.array([[third, -third], [third, third]])
    examples = Examples(x, np.array([[True, False], [False, True]]), False, torch.float64)
    # Probabilities 3/4 and 1/4. The first example has both labels right, the second one of two.
    loss = (3 * -math.log(3 / 4) - math.log(1 / 4)) / 4
    assert evaluate(model, examples) == pytest.approx((0.75, loss), rel=1e-14)
    # The gradient of a label's loss is its probability minus 0 or 1, here over four labels.
    training = Training(lr=1.0, full_batch=True)
    statistics = train(model, examples, training, np.random.default_rng(0), model.vector.clone())
    assert statistics["loss"] == pytest.approx(loss, rel=1e-14)
    errors = np.array([[-1 / 4, 1 / 4], [3 / 4, -1 / 4]])
    np.testing.assert_allclose(module.weight.detach().numpy(), np.eye(2) - errors.T @ x / 4, rtol=1e-14)


class Wrapped(nn.Module):
    """Hides a stack, so that it uses autograd."""

    def __init__(self, stack: nn.Module) -> None:
        super().__init__()
        self.stack = stack

    def forward(self, x: Tensor) -> Tensor:
        outputs: Tensor = self.stack(x)
        return outputs


def trained(loss: str | None, hidden: bool) -> tuple[Tensor, dict[str, float]]:
    x, y = flags(30)
    stack = nn.Sequential(nn.Linear(5, 6), nn.ReLU(), nn.Linear(6, LABELS)).double()
    with torch.no_grad():
        for parameter in stack.parameters():
            parameter.copy_(torch.linspace(-1, 1, parameter.numel()).view_as(parameter))
    model = FlatModel(Wrapped(stack) if hidden else stack, (5,), torch.float64)
    training = Training(lr=0.5, batch_size=7, loss=loss, statistics=frozenset({"squared_loss"}))
    received = model.vector.clone()
    statistics = train(model, Examples(x, y, False, torch.float64), training, np.random.default_rng(0), received)
    return model.vector, statistics


@pytest.mark.parametrize("loss", [None, "bce", "bce:each", "bce:mean"])
@pytest.mark.parametrize("hidden", [False, True])
def test_every_form_of_the_loss_gives_the_same_training(loss: str | None, hidden: bool) -> None:
    (vector, statistics), (expected, others) = trained(loss, hidden), trained(None, True)
    torch.testing.assert_close(vector, expected, **DOUBLE)
    assert statistics == pytest.approx(others, rel=1e-10)


def job() -> Job:
    data = source()
    clients = [np.arange(150), np.arange(150, 300)]
    return Job(Mlp((6,)), LABELS, data.train_x, data.train_y, clients, data.test_x, data.test_y, 4)


@pytest.mark.parametrize("loss", [None, "bce:each"])
def test_executors_agree(loss: str | None) -> None:
    training = Training(lr=0.5, batch_size=8, loss=loss)
    with Inline(job()) as inline, Processes(job(), 2, "fork") as processes:
        one, two = outcome(inline, training), outcome(processes, training)
    assert np.array_equal(one[0], two[0])
    assert one[1:] == two[1:]


@pytest.mark.usefixtures("double")
def test_a_device_agrees_up_to_rounding() -> None:
    training = Training(lr=0.5, batch_size=8)
    with Inline(job()) as inline, OnDevice(job(), "cpu", streams=1) as device:
        one, two = outcome(inline, training), outcome(device, training)
        assert device.facts()["graphs"] > 0
    np.testing.assert_allclose(one[0], two[0], **DOUBLE)
    assert one[2] == pytest.approx(two[2], rel=1e-10)


TABLES = {
    **BASE,
    "strategy": {"name": "fedavg"},
    "data": {"source": "tests.learning.test_multilabel:source", "clients": 5, "tell_labels": True},
    "training": {"lr": 0.5},
    "executor": {"kind": "inline"},
    "run": {"horizon": 40.0, "verify": True},
}


def test_a_run_reports_the_label_accuracy(tmp_path: Path) -> None:
    config = parse(TABLES).with_changes({"data.partition": {"kind": "dirichlet", "alpha": 0.5}})
    summary, records, _ = run(config)
    assert summary["measure"] == "label_accuracy"
    assert measure_of(records.facts["data"]).name == "label accuracy"
    assert summary["final_accuracy"] > 0.9
    assert records.facts["class_names"] == ["a", "b", "c", "d", "none"]
    assert np.sum(records.facts["label_histograms"]) == 300
    own, _, _ = run(config.with_changes({"training.loss": "bce:each"}))
    assert own["final_accuracy"] == pytest.approx(summary["final_accuracy"], abs=0.01)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"training.loss": "cross-entropy"}, "training.loss = 'cross-entropy': flags needs multilabel: bce; or remove"),
        ({"training.loss": "squared"}, "training.loss = 'squared': flags needs multilabel: bce; or remove it"),
        ({"training.class_weights": [1.0] * 4}, "training.class_weights: flags has multilabel, not classes"),
        ({"training.loss": "bce:scalar"}, r"'bce:scalar' returned shape \(\); it must return one loss per example"),
        ({"data.source": "digits", "training.loss": "bce"}, "'bce': digits needs classes: cross-entropy; or remove"),
    ],
)
def test_what_does_not_fit_several_labels_is_rejected(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        run(parse(TABLES).with_changes(changes))
