"""Losses of classes, of tokens (nats) and of numbers, on what a network puts out."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from fedtempo.errors import ConfigError
from fedtempo.learning.training import LOSSES, Training
from fedtempo.parts.plugins import outside
from fedtempo.parts.user_code import user_code

_aten: Any = torch.ops.aten
_MEAN, _IGNORED = 1, -100
"""The kernels' numbers for the mean, and for a label that counts for nothing."""


class Loss(Protocol):
    """Outputs and labels of a batch to their mean loss, or with reduction "none" to each example's, shape (batch,).

    Outputs are (batch, classes) for labels (batch,), (batch, length, classes) for tokens (batch, length), and numbers
    for as many numbers.
    """

    def __call__(self, outputs: Tensor, labels: Tensor, reduction: str = "mean") -> Tensor: ...

    def differentiated(self, outputs: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """The mean loss and its gradient at the outputs, without autograd. Classes and numbers only."""
        ...


class CrossEntropy:
    """Cross-entropy of the logits plus `adjustment` (classes,), if there is one: a `Loss`.

    weights: of each class (classes,); a mean is over the examples' weights then, and one example's loss has its weight.
    """

    def __init__(self, adjustment: Tensor | None = None, weights: Tensor | None = None) -> None:
        self._adjustment, self._weights = adjustment, weights

    def __call__(self, outputs: Tensor, labels: Tensor, reduction: str = "mean") -> Tensor:
        logits = self._adjusted(outputs)
        if labels.dim() == 1:
            return F.cross_entropy(logits, labels, self._weights, reduction=reduction)
        loss = F.cross_entropy(tokens_last(logits, labels), labels, self._weights, reduction=reduction)
        return loss if reduction == "mean" else loss.mean(dim=1)

    def differentiated(self, outputs: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        if labels.dim() != 1:
            raise _unfit(outputs, labels)
        log_shares = torch.log_softmax(self._adjusted(outputs), 1)
        loss, weight = _aten.nll_loss_forward(log_shares, labels, self._weights, _MEAN, _IGNORED)
        upper = _aten.nll_loss_backward(
            torch.ones_like(loss), log_shares, labels, self._weights, _MEAN, _IGNORED, weight
        )
        return loss, _aten._log_softmax_backward_data(upper, log_shares, 1, outputs.dtype)

    def _adjusted(self, logits: Tensor) -> Tensor:
        return logits if self._adjustment is None else logits + self._adjustment


class OfErrors:
    """The mean over numbers of their squared errors, or of their absolute ones: a `Loss`."""

    def __init__(self, squared: bool) -> None:
        self._squared = squared

    def __call__(self, outputs: Tensor, labels: Tensor, reduction: str = "mean") -> Tensor:
        errors = numbers_like(outputs, labels) - labels
        each = errors.square() if self._squared else errors.abs()
        return each.mean() if reduction == "mean" else each.reshape(len(each), -1).mean(dim=1)

    def differentiated(self, outputs: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        errors = numbers_like(outputs, labels) - labels
        slope = errors * 2 if self._squared else errors.sign()
        return self(outputs, labels), (slope / errors.numel()).view_as(outputs)


class UserLoss:
    """A user's function of (outputs, labels) that returns each example's loss: a `Loss`."""

    def __init__(self, function: Callable[[Tensor, Tensor], Tensor], name: str) -> None:
        self._function, self._name = function, name

    def __call__(self, outputs: Tensor, labels: Tensor, reduction: str = "mean") -> Tensor:
        with user_code(f"training.loss = {self._name!r}", self._function):
            each = self._function(outputs, labels)
        if not isinstance(each, Tensor) or each.shape != labels.shape[:1]:
            found = f"shape {tuple(each.shape)}" if isinstance(each, Tensor) else type(each).__name__
            raise ConfigError(
                f"training.loss = {self._name!r} gave {found}; it must give ({len(labels)},), one an example"
            )
        return each.mean() if reduction == "mean" else each

    def differentiated(self, outputs: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        with torch.enable_grad():
            leaf = outputs.detach().requires_grad_()
            loss = self(leaf, labels)
            (gradient,) = torch.autograd.grad(loss, leaf)
        return loss.detach(), gradient


def prefers_labels(training: Training, labels: npt.NDArray[np.float32]) -> bool:
    """Whether the configured loss of numbers is smallest where outputs equal the labels, so that R² ranks by it.

    labels: (n,) or (n, k). The loss there is compared with that of outputs which are all larger or smaller, or farther
    from or nearer to the mean label, by a hundredth to the whole of the standard deviation. Outputs at which it cannot
    be worked out say nothing against it.
    """
    y = torch.from_numpy(np.ascontiguousarray(labels))
    loss, mean, deviation = loss_of(training, torch.float32, y), y.mean(), y.std(unbiased=False)

    def mean_at(outputs: Tensor) -> float:
        for shaped in (outputs.reshape(len(y), -1), outputs):  # networks give (n, 1) for labels (n,)
            with torch.no_grad(), contextlib.suppress(Exception):  # whatever a user's function raises
                return float(loss(shaped, y, reduction="none").double().mean())
        return math.nan

    moves = (torch.ones_like(y) * (deviation if deviation > 0 else 1), y - mean)
    least = mean_at(y)
    others = [mean_at(y + sign * size * move) for move in moves for size in (0.01, 0.1, 1.0) for sign in (-1, 1)]
    return not any(other < least - 1e-6 * abs(least) for other in others)


def tokens_last(outputs: Tensor, labels: Tensor) -> Tensor:
    """Outputs (batch, length, classes) as (batch, classes, length). Raises ConfigError for any others."""
    if outputs.dim() != 3 or outputs.shape[:2] != labels.shape:
        raise _unfit(outputs, labels)
    return outputs.transpose(1, 2)


def numbers_like(outputs: Tensor, labels: Tensor) -> Tensor:
    """Outputs in the shape of the labels. Raises ConfigError where they are not as many."""
    if outputs.numel() != labels.numel():
        raise _unfit(outputs, labels)
    return outputs.view_as(labels)


def _unfit(outputs: Tensor, labels: Tensor) -> ConfigError:
    needed = "as many numbers" if labels.is_floating_point() else "(batch, length, classes)"
    return ConfigError(
        f"model: its outputs have shape {tuple(outputs.shape)} where the labels have {tuple(labels.shape)}; "
        f"they must be {needed}"
    )


def logit_adjustment(prior: Sequence[float], tau: float, dtype: torch.dtype = torch.float32) -> Tensor:
    """tau * log(prior) for each class: what FCH-FL Eq. 8 adds to the logits (Menon et al. 2020).

    A class with prior 0 takes no part where tau > 0: its logit becomes -inf. With tau = 0 nothing changes.
    """
    if tau == 0:
        return torch.zeros(len(prior), dtype=dtype)
    return (tau * torch.tensor(prior, dtype=torch.float64).log()).to(dtype)


def make_loss(training: Training, labels: Tensor, dtype: torch.dtype = torch.float32) -> Loss:
    """The configured loss for a client that holds `labels`; raises as `check_labels` does."""
    check_labels(training, labels)
    return loss_of(training, dtype, labels)


def loss_name(training: Training, labels: Tensor) -> str:
    """The configured loss, or that of such labels."""
    return training.loss or ("squared" if labels.is_floating_point() else "cross-entropy")


def check_labels(training: Training, labels: Tensor) -> None:
    """Raises ConfigError where the configured loss does not go with the labels, or lacks a prior or weights for one."""
    name = loss_name(training, labels)
    if name in LOSSES and (name in ("squared", "absolute")) != labels.is_floating_point():
        kind = "numbers: set training.loss = 'squared'" if labels.is_floating_point() else "classes: leave it out"
        raise ConfigError(f"training.loss = {name!r}: the data's labels are {kind}")
    if training.class_weights and not labels.is_floating_point():
        if training.class_weights == "balanced":
            raise ConfigError("training.class_weights = 'balanced': the classes' shares are unknown; give the weights")
        _must_have("training.class_weights", len(training.class_weights), labels)
    if name != "logit-adjusted":
        return
    if not training.prior:
        raise ConfigError("training.prior is empty: loss = 'logit-adjusted' needs the share of each class")
    _must_have("training.prior", len(training.prior), labels)
    adjustment = logit_adjustment(training.prior, training.tau).to(labels.device)
    impossible = labels[adjustment[labels] == -torch.inf]
    if len(impossible):
        raise ConfigError(
            f"training.prior of class {int(impossible[0])} is 0, but a client has examples of it: "
            "count it, or use a pseudo count"
        )


def _must_have(field: str, n_classes: int, labels: Tensor) -> None:
    highest = int(labels.max())
    if highest >= n_classes:
        raise ConfigError(f"{field} has {n_classes} classes, but there is an example of class {highest}")


def loss_of(training: Training, dtype: torch.dtype, labels: Tensor) -> Loss:
    """The configured loss for such labels, where they lie; `check_labels` has seen a prior and weights."""
    match loss_name(training, labels):
        case "cross-entropy":
            if not training.class_weights:
                return CrossEntropy()
            return CrossEntropy(weights=torch.tensor(training.class_weights, dtype=dtype, device=labels.device))
        case "logit-adjusted":
            return CrossEntropy(logit_adjustment(training.prior, training.tau, dtype).to(labels.device))
        case "squared":
            return OfErrors(squared=True)
        case "absolute":
            return OfErrors(squared=False)
        case name:
            made = outside(name, "losses", "training.loss")
            with user_code(f"training.loss = {name!r}", made):
                return UserLoss(made() if isinstance(made, type) else made, name)
