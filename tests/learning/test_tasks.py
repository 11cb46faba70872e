"""Numeric and token labels, class weights, and users' losses and optimizers."""

from __future__ import annotations

import math
import sys
import types
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fedtempo.errors import ConfigError
from fedtempo.learning.evaluation import BATCH, evaluate
from fedtempo.learning.examples import Examples
from fedtempo.learning.local import train
from fedtempo.learning.losses import CrossEntropy, RegressionLoss, UserLoss, make_loss
from fedtempo.learning.priors import balanced_weights
from fedtempo.learning.state import FlatModel
from fedtempo.learning.training import Training
from tests.precision import DOUBLE

F64 = torch.float64


def numbers(n: int = 60, outputs: int = 1) -> Examples:
    rng = np.random.default_rng(3)
    x = rng.standard_normal((n, 4))
    y = x @ rng.standard_normal((4, outputs)) + 0.1 * rng.standard_normal((n, outputs)) + 2.0
    return Examples(x, y[:, 0] if outputs == 1 else y, False, F64)


def by_hand(outputs: int = 1) -> FlatModel:
    torch.manual_seed(0)
    stack = nn.Sequential(nn.Flatten(), nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, outputs))
    return FlatModel(stack, (4,), F64)


class Wrapped(nn.Module):
    """Hide a stack inside a module, so that autograd is used."""

    def __init__(self, stack: nn.Module) -> None:
        super().__init__()
        self.stack = stack

    def forward(self, x: Tensor) -> Tensor:
        return self.stack(x)


def both_ways(outputs: int) -> tuple[FlatModel, FlatModel]:
    torch.manual_seed(0)
    stack = nn.Sequential(nn.Flatten(), nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, outputs))
    return by_hand(outputs), FlatModel(Wrapped(stack), (4,), F64)


def trained(model: FlatModel, examples: Examples, training: Training) -> tuple[Tensor, dict[str, float]]:
    received = model.vector.clone()
    statistics = train(model, examples, training, np.random.default_rng(1), received)
    result = model.vector.clone()
    model.load(received)
    return result, statistics


@pytest.mark.parametrize("loss", [None, "squared", "absolute"])
@pytest.mark.parametrize("outputs", [1, 3])
def test_numbers_are_learned_the_same_way_with_and_without_autograd(loss: str | None, outputs: int) -> None:
    hand, auto = both_ways(outputs)
    training = Training(lr=0.05, epochs=3, loss=loss, statistics=frozenset({"squared_loss", "gradient_norm"}))
    by_hand_vector, statistics = trained(hand, numbers(outputs=outputs), training)
    autograd_vector, autograd_statistics = trained(auto, numbers(outputs=outputs), training)
    torch.testing.assert_close(by_hand_vector, autograd_vector, **DOUBLE)
    assert statistics == pytest.approx(autograd_statistics, rel=1e-10)


def test_errors_of_numeric_labels_are_measured() -> None:
    outputs, labels = torch.tensor([[1.0], [4.0]]), torch.tensor([2.0, 2.0])
    assert RegressionLoss(squared=True)(outputs, labels).item() == 2.5
    assert RegressionLoss(squared=True)(outputs, labels, "none").tolist() == [1.0, 4.0]
    assert RegressionLoss(squared=False)(outputs, labels).item() == 1.5
    assert RegressionLoss(squared=True).differentiated(outputs, labels)[1].tolist() == [[-1.0], [2.0]]
    with pytest.raises(ConfigError, match=r"outputs of shape \(2, 3\) for labels of shape \(2,\); .* as many numbers"):
        RegressionLoss(squared=True)(torch.zeros(2, 3), labels)


def test_numeric_labels_are_measured_by_r2_and_mean_squared_and_absolute_errors() -> None:
    examples, model = numbers(BATCH + 40), by_hand()
    r2, loss, mae = evaluate(model, examples)
    with torch.no_grad():
        predicted = model.module(examples.span(0, len(examples))[0])[:, 0].numpy()
    truth = examples.labels.numpy()
    assert loss == pytest.approx(np.mean((predicted - truth) ** 2), rel=1e-12)
    assert mae == pytest.approx(np.mean(np.abs(predicted - truth)), rel=1e-12)
    expected = 1 - np.sum((predicted - truth) ** 2) / np.sum((truth - truth.mean()) ** 2)
    assert r2 == pytest.approx(max(expected, -1.0), rel=1e-12)
    result, _ = trained(model, examples, Training(lr=0.05, epochs=20))
    model.load(result)
    assert evaluate(model, examples)[0] > 0.9


def test_equal_numeric_labels_have_no_r2() -> None:
    examples = Examples(np.ones((5, 4)), np.ones(5), False, F64)
    r2, loss, mae = evaluate(by_hand(), examples)
    assert math.isnan(r2) or r2 == -1.0
    assert loss > 0
    assert mae > 0


class PerToken(nn.Module):
    def __init__(self, symbols: int = 5) -> None:
        super().__init__()
        self.embedding = nn.Embedding(symbols, symbols)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.embedding(tokens)


def tokens(n: int = 30) -> Examples:
    x = np.random.default_rng(5).integers(0, 5, (n, 7))
    return Examples(x, (x + 1) % 5, False, F64)


def test_tokens_are_learned_and_measured() -> None:
    torch.manual_seed(0)
    examples, model = tokens(), FlatModel(PerToken(), (7,), F64)
    logits = model.module(examples.span(0, 30)[0]).detach()
    accuracy, loss = evaluate(model, examples)
    assert accuracy == pytest.approx((logits.argmax(-1) == examples.labels).double().mean().item(), abs=1e-12)
    assert loss == pytest.approx(F.cross_entropy(logits.reshape(-1, 5), examples.labels.reshape(-1)).item(), rel=1e-12)
    losses = CrossEntropy()(logits, examples.labels, "none")
    assert losses.shape == (30,)
    assert losses.mean().item() == pytest.approx(loss, rel=1e-12)
    result, statistics = trained(model, examples, Training(lr=5.0, epochs=10))
    model.load(result)
    assert evaluate(model, examples)[0] == 1.0
    assert statistics["loss"] < loss


def test_token_labels_need_an_output_for_each_token() -> None:
    model = FlatModel(nn.Sequential(nn.Embedding(5, 4), nn.Flatten(), nn.Linear(28, 5)), (7,), F64)
    with pytest.raises(ConfigError, match=r"outputs of shape \(10, 5\) for labels of shape \(10, 7\)"):
        trained(model, tokens(), Training())
    with pytest.raises(ConfigError, match=r"must be of shape \(batch, length, classes\)"):
        evaluate(model, tokens())


def classes() -> Examples:
    rng = np.random.default_rng(4)
    return Examples(rng.standard_normal((50, 4)), rng.integers(0, 3, 50), False, F64)


def test_class_weights_act_as_in_pytorch() -> None:
    hand, auto = both_ways(3)
    training = Training(lr=0.1, class_weights=(0.2, 1.0, 3.0), epochs=2)
    one, _ = trained(hand, classes(), training)
    two, _ = trained(auto, classes(), training)
    torch.testing.assert_close(one, two, **DOUBLE)
    plain, _ = trained(hand, classes(), Training(lr=0.1, epochs=2))
    assert not torch.allclose(one, plain)
    logits, labels = torch.randn(6, 3, dtype=F64), torch.tensor([0, 1, 2, 2, 0, 1])
    expected = F.cross_entropy(logits, labels, torch.tensor([0.2, 1.0, 3.0], dtype=F64))
    assert make_loss(training, labels, F64)(logits, labels).item() == pytest.approx(expected.item(), rel=1e-12)
    assert balanced_weights((0.5, 0.25, 0.25)) == pytest.approx((2 / 3, 4 / 3, 4 / 3))


@pytest.mark.parametrize(
    ("training", "examples", "says"),
    [
        (Training(loss="squared"), classes, "'squared': the labels are classes; remove it"),
        (Training(loss="cross-entropy"), numbers, "'cross-entropy': the labels are numbers; set it to 'squared'"),
        (
            Training(class_weights=(1.0, 1.0)),
            classes,
            "class_weights has 2 entries, but a client has an example of class 2",
        ),
        (Training(class_weights="balanced"), classes, "the shares of classes are unknown; list the weights"),
    ],
)
def test_losses_that_do_not_match_the_labels_are_rejected(training: Training, examples: Any, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        trained(by_hand(3), examples(), training)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"class_weights": (1.0,), "loss": "logit-adjusted"}, "class_weights: apply to loss = 'cross-entropy' only"),
        ({"class_weights": (0.0, 1.0)}, "class_weights"),
        ({"optimizer": "mine:Best", "momentum": 0.9}, "optimizer = 'mine:Best': momentum"),
    ],
)
def test_incompatible_settings_are_rejected(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Training(**settings)


@pytest.fixture
def mine(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """Register an empty user's module named `mine`."""
    module = types.ModuleType("mine")
    monkeypatch.setitem(sys.modules, "mine", module)
    return module


def test_a_users_loss_is_used_in_training(mine: types.ModuleType) -> None:
    mine.halved = lambda outputs, labels: 0.5 * F.cross_entropy(outputs, labels, reduction="none")  # type: ignore[attr-defined]

    class Halved:
        def __call__(self, outputs: Tensor, labels: Tensor) -> Tensor:
            return mine.halved(outputs, labels)

    mine.Halved = Halved  # type: ignore[attr-defined]
    expected, _ = trained(by_hand(3), classes(), Training(lr=0.05))
    for name in ("mine:halved", "mine:Halved"):
        for model in both_ways(3):
            result, _ = trained(model, classes(), Training(lr=0.1, loss=name))
            torch.testing.assert_close(result, expected, **DOUBLE)
    with pytest.raises(ConfigError, match="'mean' returned shape"):
        UserLoss(lambda outputs, labels: outputs.mean(), "mean")(torch.zeros(2, 3), torch.zeros(2))
    with pytest.raises(ConfigError, match="module 'mine' has no 'other'"):
        trained(by_hand(3), classes(), Training(loss="mine:other"))


@pytest.mark.parametrize("settings", [{}, {"clip_norm": 0.1, "proximal": 0.5}])
def test_a_users_optimizer_takes_pytorchs_steps(mine: types.ModuleType, settings: dict[str, Any]) -> None:
    mine.momentum = lambda parameters, lr: torch.optim.SGD(parameters, lr=lr, momentum=0.9, weight_decay=0.01)  # type: ignore[attr-defined]
    ours = Training(lr=0.05, momentum=0.9, weight_decay=0.01, epochs=2, **settings)
    users = Training(lr=0.05, optimizer="mine:momentum", epochs=2, **settings)
    for model in both_ways(3):
        expected, _ = trained(model, classes(), ours)
        result, _ = trained(model, classes(), users)
        torch.testing.assert_close(result, expected, **DOUBLE)
        assert all(parameter.grad is None for parameter in model.module.parameters())


def test_a_users_optimizer_gets_the_parameters_of_each_layer(mine: types.ModuleType) -> None:
    shapes: list[list[tuple[int, ...]]] = []

    def look(parameters: list[Tensor], lr: float) -> torch.optim.Optimizer:
        shapes.append([tuple(parameter.shape) for parameter in parameters])
        return torch.optim.SGD(parameters, lr=lr)

    mine.look = look  # type: ignore[attr-defined]
    plain, _ = trained(by_hand(3), classes(), Training(lr=0.05))
    for model in both_ways(3):
        result, _ = trained(model, classes(), Training(lr=0.05, optimizer="mine:look"))
        torch.testing.assert_close(result, plain, **DOUBLE)
    assert shapes == [[(6, 4), (6,), (3, 6), (3,)]] * 2
    mine.none = lambda parameters, lr: 3  # type: ignore[attr-defined]
    with pytest.raises(ConfigError, match=r"returned int; it must return a torch.optim.Optimizer"):
        trained(by_hand(3), classes(), Training(optimizer="mine:none"))
