"""Losses of a network's outputs for classes, tokens, pixels, several labels (nats) and numbers."""

from __future__ import annotations

import contextlib
import copy
import math
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fedtempo.errors import ConfigError
from fedtempo.learning.forward import Inputs, map_inputs
from fedtempo.learning.pixels import as_examples, as_images, means
from fedtempo.learning.training import LOSSES, Training
from fedtempo.parts.plugins import outside
from fedtempo.parts.user_code import positional_arguments, user_code

_aten: Any = torch.ops.aten
_MEAN, _IGNORED = 1, -100
"""Codes of PyTorch's kernels for the mean, and for labels that are ignored."""


class Loss(Protocol):
    """A function of outputs and labels that returns their mean loss, or with reduction "none" each example's, (batch,).

    Outputs are (batch, classes) for labels (batch,), (batch, length, classes) for tokens (batch, length), (batch,
    classes, height, width) for masks (batch, height, width), and for several labels (booleans) and numbers as many
    numbers as there are in the labels.
    """

    def __call__(self, outputs: Tensor, labels: Tensor, reduction: str = "mean") -> Tensor: ...

    def differentiated(self, outputs: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Return the mean loss and its gradient at the outputs, without autograd. Not for tokens."""
        ...


class CrossEntropy:
    """Cross-entropy of the logits, plus `adjustment` (classes,) if given: a `Loss`.

    weights: of the classes, (classes,). Each example's loss has the weight of its class, and means are weighted means.
    The loss of masks is the mean over all pixels of a batch that have a label.
    """

    def __init__(self, adjustment: Tensor | None = None, weights: Tensor | None = None) -> None:
        self._adjustment, self._weights = adjustment, weights

    def __call__(self, outputs: Tensor, labels: Tensor, reduction: str = "mean") -> Tensor:
        logits = self._adjusted(outputs, labels)
        if labels.dim() == 1:
            return F.cross_entropy(logits, labels, self._weights, reduction=reduction)
        if labels.dim() == 3:
            loss = F.cross_entropy(*as_examples(logits, labels), self._weights, reduction=reduction)
            return loss if reduction == "mean" else means(loss, labels)
        loss = F.cross_entropy(tokens_last(logits, labels), labels, self._weights, reduction=reduction)
        return loss if reduction == "mean" else loss.mean(dim=1)

    def differentiated(self, outputs: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        if labels.dim() == 3:
            loss, slope = self.differentiated(*as_examples(outputs, labels))
            return loss, as_images(slope, labels)
        if labels.dim() != 1:
            raise _unfit(outputs, labels)
        log_shares = torch.log_softmax(self._adjusted(outputs, labels), 1)
        loss, weight = _aten.nll_loss_forward(log_shares, labels, self._weights, _MEAN, _IGNORED)
        upper = _aten.nll_loss_backward(
            torch.ones_like(loss), log_shares, labels, self._weights, _MEAN, _IGNORED, weight
        )
        return loss, _aten._log_softmax_backward_data(upper, log_shares, 1, outputs.dtype)

    def _adjusted(self, logits: Tensor, labels: Tensor) -> Tensor:
        return logits if self._adjustment is None else logits + self._adjustment


class BatchAdjusted(CrossEntropy):
    """Logit-adjusted cross-entropy whose prior is the share of each class in the batch at hand: a `Loss`.

    A reading of FCH-FL Eq. 8 in which a client needs no knowledge of other clients' labels. Classes that the batch
    lacks are excluded if tau > 0.
    """

    def __init__(self, tau: float) -> None:
        super().__init__()
        self._tau = tau

    def _adjusted(self, logits: Tensor, labels: Tensor) -> Tensor:
        if self._tau == 0:
            return logits
        counts = F.one_hot(labels, logits.shape[-1]).sum(0)
        return logits + self._tau * (counts / len(labels)).to(logits.dtype).log()


class RegressionLoss:
    """The mean squared or mean absolute error of numbers: a `Loss`."""

    def __init__(self, squared: bool) -> None:
        self._squared = squared

    def __call__(self, outputs: Tensor, labels: Tensor, reduction: str = "mean") -> Tensor:
        errors = numbers_like(outputs, labels) - labels
        losses = errors.square() if self._squared else errors.abs()
        return losses.mean() if reduction == "mean" else losses.reshape(len(losses), -1).mean(dim=1)

    def differentiated(self, outputs: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        errors = numbers_like(outputs, labels) - labels
        slope = errors * 2 if self._squared else errors.sign()
        return self(outputs, labels), (slope / errors.numel()).view_as(outputs)


class BinaryCrossEntropy:
    """The mean binary cross-entropy of the logits of several labels, which are booleans: a `Loss`."""

    def __call__(self, outputs: Tensor, labels: Tensor, reduction: str = "mean") -> Tensor:
        logits = numbers_like(outputs, labels)
        if reduction == "mean":
            return F.binary_cross_entropy_with_logits(logits, labels.to(logits.dtype))
        return F.binary_cross_entropy_with_logits(logits, labels.to(logits.dtype), reduction="none").mean(dim=1)

    def differentiated(self, outputs: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        slope = torch.sigmoid(numbers_like(outputs, labels)) - labels.to(outputs.dtype)
        return self(outputs, labels), (slope / labels.numel()).view_as(outputs)


class UserLoss:
    """A user's function of (outputs, labels) that returns each example's loss: a `Loss`.

    A function of (outputs, labels, inputs) also gets the batch's inputs, see `of_batch`. Several labels are passed as
    numbers, and it may return the loss of each of them, which are averaged.
    """

    def __init__(self, function: Callable[..., Tensor], name: str) -> None:
        self._function, self._name = function, name
        called = function.forward if isinstance(function, nn.Module) else function
        self._sees_inputs = positional_arguments(called) == 3
        self._inputs: Inputs | None = None

    def of_batch(self, inputs: Inputs) -> UserLoss:
        """Return the loss of a batch with these inputs."""
        if not self._sees_inputs:
            return self
        loss = copy.copy(self)
        loss._inputs = map_inputs(Tensor.clone, inputs)  # gradients by hand may overwrite the batch
        return loss

    def __call__(self, outputs: Tensor, labels: Tensor, reduction: str = "mean") -> Tensor:
        with user_code(f"training.loss = {self._name!r}", self._function):
            targets = labels.to(outputs.dtype) if labels.dtype == torch.bool else labels
            losses = self._function(outputs, targets, *([self._inputs] if self._sees_inputs else []))
        if labels.dtype == torch.bool and isinstance(losses, Tensor) and losses.shape == labels.shape:
            losses = losses.mean(dim=1)
        if not isinstance(losses, Tensor) or losses.shape != labels.shape[:1]:
            actual = f"shape {tuple(losses.shape)}" if isinstance(losses, Tensor) else type(losses).__name__
            raise ConfigError(
                f"training.loss = {self._name!r} returned {actual}; it must return one loss per "
                f"example, shape ({len(labels)},)"
            )
        return losses.mean() if reduction == "mean" else losses

    def differentiated(self, outputs: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        with torch.enable_grad():
            leaf = outputs.detach().requires_grad_()
            loss = self(leaf, labels)
            (gradient,) = torch.autograd.grad(loss, leaf)
        return loss.detach(), gradient


def of_batch(loss: Loss, inputs: Inputs) -> Loss:
    """Return the loss of a batch with these inputs, which only a user's loss may see."""
    return loss.of_batch(inputs) if isinstance(loss, UserLoss) else loss


def prefers_labels(training: Training, labels: npt.NDArray[np.float32]) -> bool:
    """Return whether the configured loss of numbers is smallest if outputs equal labels, so that R² ranks models alike.

    labels: (n,) or (n, k). The loss at the labels is compared with that of outputs shifted up or down, or stretched
    away from or towards the mean label, by 0.01 to 1 standard deviation. Outputs whose loss cannot be computed are
    ignored.
    """
    y = torch.from_numpy(np.ascontiguousarray(labels))
    loss, mean, deviation = loss_of(training, torch.float32, y), y.mean(), y.std(unbiased=False)

    def mean_at(outputs: Tensor) -> float:
        for shaped in (outputs.reshape(len(y), -1), outputs):  # networks give (n, 1) for labels (n,)
            with torch.no_grad(), contextlib.suppress(Exception):  # whatever a user's function raises
                return float(loss(shaped, y, reduction="none").double().mean())
        return math.nan

    moves = (torch.ones_like(y) * (deviation if deviation > 0 else 1), y - mean)
    at_labels = mean_at(y)
    changed = [mean_at(y + sign * size * move) for move in moves for size in (0.01, 0.1, 1.0) for sign in (-1, 1)]
    return not any(other < at_labels - 1e-6 * abs(at_labels) for other in changed)


def tokens_last(outputs: Tensor, labels: Tensor) -> Tensor:
    """Return outputs (batch, length, classes) as (batch, classes, length). Raises ConfigError for other shapes."""
    if outputs.dim() != 3 or outputs.shape[:2] != labels.shape:
        raise _unfit(outputs, labels)
    return outputs.transpose(1, 2)


def numbers_like(outputs: Tensor, labels: Tensor) -> Tensor:
    """Return outputs in the shape of the labels. Raises ConfigError if their numbers differ."""
    if outputs.numel() != labels.numel():
        raise _unfit(outputs, labels)
    return outputs.view_as(labels)


def _unfit(outputs: Tensor, labels: Tensor) -> ConfigError:
    tokens = labels.dim() == 2 and labels.dtype == torch.int64
    needed = "of shape (batch, length, classes)" if tokens else "as many numbers as the labels"
    return ConfigError(
        f"model.network: outputs of shape {tuple(outputs.shape)} for labels of shape {tuple(labels.shape)}; "
        f"outputs must be {needed}"
    )


def logit_adjustment(prior: Sequence[float], tau: float, dtype: torch.dtype = torch.float32) -> Tensor:
    """Return tau * log(prior) of each class, which FCH-FL Eq. 8 adds to the logits (Menon et al. 2020).

    A class with prior 0 is excluded if tau > 0: its logit becomes -inf. With tau = 0 nothing changes.
    """
    if tau == 0:
        return torch.zeros(len(prior), dtype=dtype)
    return (tau * torch.tensor(prior, dtype=torch.float64).log()).to(dtype)


def make_loss(training: Training, labels: Tensor, dtype: torch.dtype = torch.float32) -> Loss:
    """Return the configured loss for a client that holds `labels`. Raises ConfigError as `check_labels` does."""
    check_labels(training, labels)
    return loss_of(training, dtype, labels)


def loss_name(training: Training, labels: Tensor) -> str:
    """Return the name of the configured loss, or of the default for such labels."""
    if training.loss is not None:
        return training.loss
    return "bce" if labels.dtype == torch.bool else "squared" if labels.is_floating_point() else "cross-entropy"


def check_labels(training: Training, labels: Tensor) -> None:
    """Raise ConfigError if the configured loss does not fit the labels, or lacks a class's prior or weight."""
    name = loss_name(training, labels)
    of_numbers, of_several = labels.is_floating_point(), labels.dtype == torch.bool
    if name in LOSSES and ((name in ("squared", "absolute")) != of_numbers or (name == "bce") != of_several):
        kind = "numbers; set it to 'squared'" if of_numbers else "several of 0 or 1" if of_several else "classes"
        raise ConfigError(f"training.loss = {name!r}: the labels are {kind}{'' if of_numbers else '; remove it'}")
    if training.class_weights and not (of_numbers or of_several):
        if training.class_weights == "balanced":
            raise ConfigError(
                "training.class_weights = 'balanced': the shares of classes are unknown; list the weights"
            )
        _check_covers("training.class_weights", len(training.class_weights), labels)
    if name != "logit-adjusted":
        return
    if not training.prior:
        raise ConfigError("training.prior is empty: loss = 'logit-adjusted' needs the share of each class")
    _check_covers("training.prior", len(training.prior), labels)
    adjustment = logit_adjustment(training.prior, training.tau).to(labels.device)
    impossible = labels[adjustment[labels] == -torch.inf]
    if len(impossible):
        raise ConfigError(
            f"training.prior: class {int(impossible[0])} has share 0, but a client has examples of it; raise it, "
            "or use a pseudo count"
        )


def _check_covers(field: str, n_classes: int, labels: Tensor) -> None:
    """Raise ConfigError if a label is not among the first `n_classes` classes."""
    highest = int(labels.max())
    if highest >= n_classes:
        raise ConfigError(f"{field} has {n_classes} entries, but a client has an example of class {highest}")


def loss_of(training: Training, dtype: torch.dtype, labels: Tensor) -> Loss:
    """Return the configured loss for such labels, on their device; `check_labels` must have accepted them."""
    match loss_name(training, labels):
        case "cross-entropy":
            if not training.class_weights:
                return CrossEntropy()
            return CrossEntropy(weights=torch.tensor(training.class_weights, dtype=dtype, device=labels.device))
        case "logit-adjusted":
            return CrossEntropy(logit_adjustment(training.prior, training.tau, dtype).to(labels.device))
        case "batch-adjusted":
            return BatchAdjusted(training.tau)
        case "bce":
            return BinaryCrossEntropy()
        case "squared":
            return RegressionLoss(squared=True)
        case "absolute":
            return RegressionLoss(squared=False)
        case name:
            function = outside(name, "losses", "training.loss")
            with user_code(f"training.loss = {name!r}", function):
                return UserLoss(function() if isinstance(function, type) else function, name)
