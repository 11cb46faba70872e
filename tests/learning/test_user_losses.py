"""A user's loss for numeric labels is rejected if better models would have a lower R²."""

from __future__ import annotations

import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from fedtempo import Experiment
from fedtempo.errors import ConfigError
from fedtempo.learning.losses import prefers_labels
from fedtempo.learning.training import Training
from fedtempo.runs.config import Config, parse
from fedtempo.runs.run import run


def pinball(outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    errors = labels - outputs.view_as(labels)
    return torch.maximum(0.9 * errors, -0.1 * errors)


LOSSES = {
    "bce": lambda outputs, labels: F.binary_cross_entropy_with_logits(outputs, labels, reduction="none").mean(1),
    "bce_one": lambda outputs, labels: F.binary_cross_entropy_with_logits(outputs[:, 0], labels, reduction="none"),
    "bce_shares": lambda outputs, labels: F.binary_cross_entropy(outputs.view_as(labels), labels, reduction="none"),
    "poisson": lambda outputs, labels: F.poisson_nll_loss(outputs.view_as(labels), labels, reduction="none"),
    "huber": lambda outputs, labels: F.huber_loss(outputs.view_as(labels), labels, reduction="none"),
    "pinball": pinball,
    "broken": lambda outputs, labels: outputs.nothing(),
}


@pytest.fixture(autouse=True)
def _mine(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("my_losses")
    for name, function in LOSSES.items():
        setattr(module, name, function)
    monkeypatch.setitem(sys.modules, "my_losses", module)


def flags(*shape: int) -> Any:
    return (np.random.default_rng(1).random(shape) > 0.5).astype(np.float32)


@pytest.mark.parametrize(
    ("loss", "labels", "good"),
    [
        ("bce", flags(500, 14), False),
        ("bce_one", flags(500), False),
        ("bce_shares", flags(500), True),
        ("poisson", np.random.default_rng(2).poisson(3.0, 500).astype(np.float32), False),
        ("huber", np.random.default_rng(3).normal(size=500).astype(np.float32), True),
        ("huber", np.ones(5, dtype=np.float32), True),
        ("pinball", np.random.default_rng(3).normal(size=500).astype(np.float32), True),
        ("broken", flags(500), True),  # a visit reports the error
    ],
)
def test_a_loss_must_be_smallest_for_correct_outputs(loss: str, labels: Any, good: bool) -> None:
    assert prefers_labels(Training(loss=f"my_losses:{loss}"), labels) is good


def experiment(folder: Path, loss: str, task: str = "numbers") -> Config:
    x = np.random.default_rng(4).normal(size=(120, 6)).astype(np.float32)
    y = (x[:, :3] > 0.3).astype(np.float32)
    np.savez(folder / "flags.npz", train_x=x, train_y=y, test_x=x[:30], test_y=y[:30])
    return parse(
        {
            "run": {"horizon": 4.0, "target_accuracy": 0.5},
            "data": {"source": f"npz:{folder / 'flags.npz'}", "options": {"task": task}, "clients": 3},
            "model": {"network": "logistic"},
            "training": {"loss": loss},
            "fleet": {"compute": {"unit": "s/visit", "speed": 1.0}, "link": "none", "estimates": "exact"},
            "strategy": {"name": "fedavg"},
            "executor": {"kind": "inline"},
        }
    )


def test_runs_and_tunings_reject_a_loss_that_disagrees_with_r2(tmp_path: Path) -> None:
    says = r"training.loss = 'my_losses:bce': it is not smallest where outputs equal the labels .* so R² would rank"
    with pytest.raises(ConfigError, match=says):
        run(experiment(tmp_path, "my_losses:bce"))
    with pytest.raises(ConfigError, match=says):
        Experiment.of(experiment(tmp_path, "my_losses:bce")).tune("fedavg", lr=(0.3, 0.1), seeds=1)
    summary, _, _ = run(experiment(tmp_path, "squared"))
    assert summary["measure"] == "r2"


@pytest.mark.parametrize(
    ("network", "inputs", "says"),
    [
        ("mlp", "symbols", r"model.network = 'mlp': needs inputs that are numbers, .* data.options.inputs = 'numbers'"),
        ("char-lstm", "numbers", r"'char-lstm': needs inputs that are symbols, .* data.options.inputs = 'symbols'"),
        ("char-lstm", "symbols", r"'char-lstm': predicts the next .* 2 classes for symbols up to 6; take a network"),
    ],
)
def test_networks_must_match_their_inputs(network: str, inputs: str, says: str, tmp_path: Path) -> None:
    x, y = np.arange(80).reshape(20, 4) % 7, np.arange(20) % 2
    np.savez(tmp_path / "whole.npz", train_x=x, train_y=y, test_x=x, test_y=y)
    config = experiment(tmp_path, "cross-entropy").with_changes(
        {
            "data.source": f"npz:{tmp_path / 'whole.npz'}",
            "data.options": {"inputs": inputs},
            "model.network": network,
        }
    )
    with pytest.raises(ConfigError, match=says):
        run(config)
