"""Evaluate models on a test set in fixed batches, whose sums do not depend on where and in which order they run.

Each example has a credit: 1 for the right class, 0 for a wrong one; the share of its tokens, or of its several labels,
that are right (a label is predicted if its output is above 0); for numbers 1 - (squared error) / (variance of the test
labels). The mean credit is the accuracy, the token accuracy, the label accuracy, or R^2 (the explained share of the
variance, reported as -1 if it is less). The loss is the mean cross-entropy (nats per class, token or label) or the mean
squared error, whatever training minimises. Numbers also have a mean absolute error.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from fedtempo.learning.examples import Examples
from fedtempo.learning.forward import outputs_of
from fedtempo.learning.losses import numbers_like, tokens_last
from fedtempo.learning.state import FlatModel

BATCH = 500
"""Examples per batch by default: enough to be fast, and few enough not to delay a worker's next visit for long."""


def parts(num_examples: int, batch: int = BATCH) -> list[tuple[int, int]]:
    """Return the batches of a test set as (start, stop); batch: examples per batch."""
    return [(start, min(start + batch, num_examples)) for start in range(0, num_examples, batch)]


def evaluate_part(model: FlatModel, examples: Examples, start: int, stop: int) -> tuple[float, ...]:
    """Return the sums of credit and of loss over the examples of one batch; for numbers also of absolute errors."""
    return tuple(sums(model, examples, start, stop).tolist())


def sums(model: FlatModel, examples: Examples, start: int, stop: int) -> Tensor:
    """Return these sums as a float64 tensor (2 or 3,) on the model's device, without waiting for them."""
    model.module.eval()
    x, y = examples.span(start, stop)
    with torch.inference_mode():
        outputs = outputs_of(model.module, x)
        if y.is_floating_point():
            errors = (numbers_like(outputs, y).double() - y).reshape(len(y), -1)
            squares = errors.square().mean(dim=1)
            credit, loss = (1 - squares / examples.variance).sum(), squares.sum()
            return torch.stack([credit.double(), loss.double(), errors.abs().mean(dim=1).sum()])
        if y.dtype == torch.bool:
            logits = numbers_like(outputs, y)
            right = ((logits > 0) == y).double().mean(dim=1).sum()
            losses = F.binary_cross_entropy_with_logits(logits, y.to(logits.dtype), reduction="none")
            return torch.stack([right, losses.mean(dim=1).sum().double()])
        if y.dim() == 2:
            logits = tokens_last(outputs, y)
            right, losses = logits.argmax(dim=1) == y, F.cross_entropy(logits, y, reduction="none")
            credit, loss = right.double().mean(dim=1).sum(), losses.mean(dim=1).sum()
        else:
            credit, loss = (outputs.argmax(dim=1) == y).sum(), F.cross_entropy(outputs, y, reduction="sum")
        return torch.stack([credit.double(), loss.double()])


def combine(results: Sequence[Sequence[float]], num_examples: int) -> tuple[float, ...]:
    """Return mean credit, mean loss and, for numbers, mean absolute error from the results of all parts, in order.

    NaN without examples. The credit is also NaN for numbers that are all equal, which have no variance to explain, and
    if the loss is not finite, since outputs that are not finite predict nothing.
    """
    if not num_examples:
        return math.nan, math.nan
    credits, *errors = zip(*results, strict=True)
    credit, means = sum(credits), [_sum(values) / num_examples for values in errors]
    is_finite = math.isfinite(means[0]) and not math.isnan(credit)
    return max(credit / num_examples, -1.0) if is_finite else math.nan, *means


def _sum(values: Sequence[float]) -> float:
    """Return the exact sum; NaN or infinite if a value is, or if the sum overflows."""
    try:
        return math.fsum(values)
    except (ValueError, OverflowError):  # inf - inf, or beyond double precision
        return sum(values)


def evaluate(model: FlatModel, examples: Examples) -> tuple[float, ...]:
    """Return mean credit and mean loss of the loaded model, and for numbers the mean absolute error."""
    size = len(examples)
    return combine([evaluate_part(model, examples, start, stop) for start, stop in parts(size)], size)
