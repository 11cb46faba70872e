"""Evaluate models on a test set in fixed batches, whose sums do not depend on where and in which order they run.

Each example has a credit: 1 for the right class, 0 for a wrong one; the share of its tokens, or of its several labels,
or of its pixels with a label, that are right (a label is predicted if its output is above 0); for numbers 1 - (squared
error) / (variance of the test labels). The mean credit is the accuracy, the token, label or pixel accuracy, or R^2 (the
explained share of the variance, reported as -1 if it is less). The loss is the mean cross-entropy (nats per class,
token, label or pixel) or the mean squared error, whatever training minimises. Numbers also have a mean absolute error.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from fedtempo.learning.examples import Examples
from fedtempo.learning.forward import outputs_of
from fedtempo.learning.losses import numbers_like, tokens_last
from fedtempo.learning.metrics import Gathers
from fedtempo.learning.pixels import as_examples, confusions, means
from fedtempo.learning.state import FlatModel

Array = np.ndarray[Any, np.dtype[Any]]

BATCH = 500
"""Examples per batch by default: enough to be fast, and few enough not to delay a worker's next visit for long."""


def parts(num_examples: int, batch: int = BATCH) -> list[tuple[int, int]]:
    """Return the batches of a test set as (start, stop); batch: examples per batch."""
    return [(start, min(start + batch, num_examples)) for start in range(0, num_examples, batch)]


class Part(NamedTuple):
    """The result of one batch. sums: of credit and of loss over its examples; for numbers also of absolute errors.

    gathered: what further metrics need (`metrics.Gathers`): (examples, ...) for predictions and outputs, of masks
    `pixels.confusions` instead of predictions; (2 or 3, examples) for scores, each example's terms of these sums.
    """

    sums: tuple[float, ...]
    gathered: Array | None = None


def evaluate_part(model: FlatModel, examples: Examples, start: int, stop: int, gathers: Gathers = "") -> Part:
    """Evaluate one batch of examples."""
    sums, gathered = outcome(model, examples, start, stop, gathers)
    return Part(tuple(sums.tolist()), None if gathered is None else gathered.numpy())


def outcome(
    model: FlatModel, examples: Examples, start: int, stop: int, gathers: Gathers = ""
) -> tuple[Tensor, Tensor | None]:
    """Return `Part` as tensors on the model's device, without waiting for them; sums are float64."""
    model.module.eval()
    x, y = examples.span(start, stop)
    with torch.inference_mode():
        outputs = outputs_of(model.module, x)
        if y.dtype == torch.int64 and y.dim() == 1 and gathers != "scores":
            sums = [(outputs.argmax(dim=1) == y).sum(), F.cross_entropy(outputs, y, reduction="sum")]
        else:
            scores = scores_of(outputs, y, examples)
            sums = [score.sum() for score in scores]
        gathered: Tensor | None = None
        if gathers == "scores":
            gathered = torch.stack([score.double() for score in scores])
        elif gathers == "predictions":
            gathered = _predictions(outputs, y)
        elif gathers == "outputs":
            gathered = numbers_like(outputs, y) if y.dtype in _OF_ONE_OUTPUT else outputs
        return torch.stack([total.double() for total in sums]), gathered


_OF_ONE_OUTPUT = (torch.float32, torch.float64, torch.bool)
"""Types of labels whose outputs have their shape."""


def scores_of(outputs: Tensor, y: Tensor, examples: Examples) -> list[Tensor]:
    """Return each example's credit and loss, (examples,) each; for numbers also its absolute error."""
    if y.is_floating_point():
        errors = (numbers_like(outputs, y).double() - y).reshape(len(y), -1)
        squares = errors.square().mean(dim=1)
        return [1 - squares / examples.variance, squares, errors.abs().mean(dim=1)]
    if y.dtype == torch.bool:
        logits = numbers_like(outputs, y)
        losses = F.binary_cross_entropy_with_logits(logits, y.to(logits.dtype), reduction="none")
        return [((logits > 0) == y).double().mean(dim=1), losses.mean(dim=1)]
    if y.dim() == 3:
        rows, targets = as_examples(outputs, y)
        losses = F.cross_entropy(rows, targets, reduction="none")
        return [means((rows.argmax(dim=1) == targets).double(), y), means(losses, y)]
    if y.dim() == 2:
        logits = tokens_last(outputs, y)
        losses = F.cross_entropy(logits, y, reduction="none")
        return [(logits.argmax(dim=1) == y).double().mean(dim=1), losses.mean(dim=1)]
    return [outputs.argmax(dim=1) == y, F.cross_entropy(outputs, y, reduction="none")]


def _predictions(outputs: Tensor, y: Tensor) -> Tensor:
    """Return the predicted classes or tokens, labels, or numbers, in the shape of the labels."""
    if y.dtype in _OF_ONE_OUTPUT:
        numbers = numbers_like(outputs, y)
        return numbers > 0 if y.dtype == torch.bool else numbers
    return confusions(outputs, y) if y.dim() == 3 else outputs.argmax(dim=-1)


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
    return combine([evaluate_part(model, examples, start, stop).sums for start, stop in parts(size)], size)
