"""Visits in which clients evaluate a model instead of training it, and upload their loss and accuracy only."""

from __future__ import annotations

from typing import Annotated

from fedtempo.federation import EVALUATE, Work
from fedtempo.parts.fields import Doc, Positive

EvaluationCost = Annotated[
    Positive, Doc("computing time per evaluated example, relative to training on it; a pass without gradients")
]
FORWARD_PASS = 1 / 3
"""Share of a training step's operations that its forward pass takes; the backward pass takes about twice as many."""


def evaluation(cost: float, examples: int | None = None) -> Work:
    """Return the work of evaluating the model on so many random examples of a client (default: all)."""
    if examples is None:
        return Work(procedure=EVALUATE, epochs=1, compute_scale=cost)
    return Work(procedure=EVALUATE, steps=1, batch_size=examples, full_batch=False, compute_scale=cost)
