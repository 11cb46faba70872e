"""The cross-entropy adjusted by each batch's own class shares, against values worked out by hand."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from fedtempo.learning.losses import BatchAdjusted, CrossEntropy

LOGITS = torch.tensor([[1.0, 0.0, 2.0], [0.0, 1.0, 0.0], [0.5, 0.5, 3.0], [2.0, 0.0, 0.0]], dtype=torch.float64)
LABELS = torch.tensor([0, 1, 0, 0])


def by_hand(tau: float) -> float:
    """Three examples of class 0, one of class 1, none of class 2, whose share of 0 excludes it from the softmax."""
    shares = (0.75**tau, 0.25**tau)
    losses = []
    for (first, second, _), label in zip(LOGITS.tolist(), LABELS.tolist(), strict=True):
        weights = (shares[0] * math.exp(first), shares[1] * math.exp(second))
        losses.append(-math.log(weights[label] / sum(weights)))
    return sum(losses) / len(losses)


@pytest.mark.parametrize("tau", [0.5, 1.0, 2.0])
def test_the_prior_is_the_batch_s_own_shares(tau: float) -> None:
    loss = BatchAdjusted(tau)
    assert float(loss(LOGITS, LABELS)) == pytest.approx(by_hand(tau), rel=1e-12)
    assert float(loss(LOGITS, LABELS, reduction="none").mean()) == pytest.approx(by_hand(tau), rel=1e-12)


def test_without_tau_it_is_the_cross_entropy() -> None:
    assert float(BatchAdjusted(0.0)(LOGITS, LABELS)) == float(CrossEntropy()(LOGITS, LABELS))


def test_its_gradient_by_hand_is_that_of_autograd_and_leaves_missing_classes_alone() -> None:
    loss = BatchAdjusted(1.0)
    leaf: Tensor = LOGITS.clone().requires_grad_()
    value = loss(leaf, LABELS)
    (expected,) = torch.autograd.grad(value, leaf)
    found, gradient = loss.differentiated(LOGITS, LABELS)
    torch.testing.assert_close(gradient, expected, rtol=1e-12, atol=1e-15)
    assert float(found) == pytest.approx(by_hand(1.0), rel=1e-12)
    assert gradient[:, 2].tolist() == [0.0] * 4
