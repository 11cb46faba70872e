"""Losses on logits, nats."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from fedtempo.errors import ConfigError
from fedtempo.learning.training import Training

_aten: Any = torch.ops.aten
_MEAN, _IGNORED = 1, -100
"""The kernels' numbers for the mean, and for a label that counts for nothing."""


class Loss(Protocol):
    """Logits (batch, classes) and labels (batch,) to their mean loss, or with reduction "none" to each one's loss."""

    def __call__(self, logits: Tensor, labels: Tensor, reduction: str = "mean") -> Tensor: ...

    def differentiated(self, logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """The mean loss and its gradient at the logits, without autograd."""
        ...


class CrossEntropy:
    """Cross-entropy of the logits plus `adjustment` (classes,), if there is one: a `Loss`."""

    def __init__(self, adjustment: Tensor | None = None) -> None:
        self._adjustment = adjustment

    def __call__(self, logits: Tensor, labels: Tensor, reduction: str = "mean") -> Tensor:
        return F.cross_entropy(self._adjusted(logits), labels, reduction=reduction)

    def differentiated(self, logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        log_shares = torch.log_softmax(self._adjusted(logits), 1)
        loss, weight = _aten.nll_loss_forward(log_shares, labels, None, _MEAN, _IGNORED)
        upper = _aten.nll_loss_backward(torch.ones_like(loss), log_shares, labels, None, _MEAN, _IGNORED, weight)
        return loss, _aten._log_softmax_backward_data(upper, log_shares, 1, logits.dtype)

    def _adjusted(self, logits: Tensor) -> Tensor:
        return logits if self._adjustment is None else logits + self._adjustment


def label_prior(counts: Sequence[float], pseudo_count: float = 1.0) -> tuple[float, ...]:
    """Share of each class from counts of examples, each raised by `pseudo_count` (FCH-FL: no class may have none)."""
    total = sum(counts) + pseudo_count * len(counts)
    if total <= 0:
        raise ConfigError(f"prior: counts of classes sum to {total:g}; there must be an example, or a pseudo count > 0")
    return tuple((count + pseudo_count) / total for count in counts)


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
    return loss_of(training, dtype, labels.device)


def check_labels(training: Training, labels: Tensor) -> None:
    """Raises ConfigError where the configured loss lacks a prior, or has prior 0 for a label's class."""
    if training.loss == "cross-entropy":
        return
    if not training.prior:
        raise ConfigError("training.prior is empty: loss = 'logit-adjusted' needs the share of each class")
    highest = int(labels.max())
    if highest >= len(training.prior):
        raise ConfigError(
            f"training.prior has {len(training.prior)} classes, but there is an example of class {highest}"
        )
    adjustment = logit_adjustment(training.prior, training.tau).to(labels.device)
    impossible = labels[adjustment[labels] == -torch.inf]
    if len(impossible):
        raise ConfigError(
            f"training.prior of class {int(impossible[0])} is 0, but a client has examples of it: "
            "count it, or use a pseudo count"
        )


def loss_of(training: Training, dtype: torch.dtype, device: torch.device) -> Loss:
    """The configured loss, whose prior, where it has one, `check_labels` has seen."""
    if training.loss == "cross-entropy":
        return CrossEntropy()
    return CrossEntropy(logit_adjustment(training.prior, training.tau, dtype).to(device))
