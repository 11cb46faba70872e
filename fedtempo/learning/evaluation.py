"""Accuracy and loss on a test set, in fixed batches: the same sums wherever and in whatever order they are done."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from fedtempo.learning.examples import Examples
from fedtempo.learning.state import FlatModel

BATCH = 500
"""Examples at once: large enough to be fast, small enough not to keep a worker from its next visit for long."""


def parts(num_examples: int) -> list[tuple[int, int]]:
    """The batches of a test set as (start, stop)."""
    return [(start, min(start + BATCH, num_examples)) for start in range(0, num_examples, BATCH)]


def evaluate_part(model: FlatModel, examples: Examples, start: int, stop: int) -> tuple[int, float]:
    """Number of examples classified right, and sum of cross-entropy (nats), over one batch."""
    right, loss = sums(model, examples, start, stop).tolist()
    return int(right), loss


def sums(model: FlatModel, examples: Examples, start: int, stop: int) -> Tensor:
    """Likewise, as a tensor (2,) of float64 where the model lies: nobody waits for it yet."""
    model.module.eval()
    x, y = examples.span(start, stop)
    with torch.inference_mode():
        logits = model.module(x)
        right = (logits.argmax(dim=1) == y).sum()
        return torch.stack([right.double(), F.cross_entropy(logits, y, reduction="sum").double()])


def combine(results: Sequence[tuple[int, float]], num_examples: int) -> tuple[float, float]:
    """Accuracy and mean loss from the results of all parts, in order; NaN without examples."""
    if not num_examples:
        return math.nan, math.nan
    right = sum(result[0] for result in results)
    return right / num_examples, math.fsum(result[1] for result in results) / num_examples


def evaluate(model: FlatModel, examples: Examples) -> tuple[float, float]:
    """Accuracy and mean cross-entropy (nats) of the model as loaded."""
    size = len(examples)
    return combine([evaluate_part(model, examples, start, stop) for start, stop in parts(size)], size)
