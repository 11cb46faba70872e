"""The `[training]` table: how a client trains in one visit."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field
from pydantic.dataclasses import dataclass

from fedtempo.learning.schedules import Schedule, schedule_from
from fedtempo.parts.fields import STRICT, Count, Doc, Lt, NonNegative, Positive

LOSSES = ("cross-entropy", "logit-adjusted", "batch-adjusted", "bce", "squared", "absolute")
OPTIMIZERS = ("sgd", "adam")
SMALLEST_LR = sys.float_info.min
"""Stands for a learning rate of 0, at which a schedule may end: steps of this size change no parameter."""

Statistic = Literal["squared_loss", "gradient_variance", "gradient_norm", "effective_steps"]


@dataclass(frozen=True, config=STRICT)
class Training:
    """How a client trains in one visit: the optimiser, the loss, and the amount of work.

    Each epoch passes once over the client's examples in a new random order, one step per mini-batch, or per
    `accumulate` of them. The last batch may be smaller; its loss is then the mean over the examples that it has.

    A step works as in PyTorch. First the gradient of the batch's loss (and of the term `proximal`) is computed, and
    clipped to `clip_norm`. Then `weight_decay` times the parameters is added, and then momentum is applied.
    """

    optimizer: Annotated[
        str,
        Doc(
            "optimiser: sgd, adam (betas 0.9 and 0.999), or module:name of a function of (parameters, lr=) that "
            "returns a torch.optim.Optimizer; every visit begins with a new one"
        ),
    ] = "sgd"
    lr: Annotated[Positive, Doc("step size")] = 0.01
    schedule: Annotated[
        Schedule | None,
        BeforeValidator(schedule_from),
        Doc(
            "how lr changes during the run: {kind, by, ...}, with a kind of `fedtempo list schedules`, a class of "
            "torch.optim.lr_scheduler, or module:function (default: it stays)"
        ),
    ] = None
    momentum: Annotated[NonNegative, Lt(1), Doc("SGD: momentum; the velocity is reset for each visit")] = 0.0
    nesterov: Annotated[bool, Doc("SGD: Nesterov's momentum")] = False
    weight_decay: Annotated[NonNegative, Doc("this times the parameters is added to the gradient")] = 0.0
    clip_norm: Annotated[
        float | None,
        Field(gt=0),
        Doc("largest L2 norm of a batch's gradient; longer ones are scaled down (default: no limit)"),
    ] = None
    batch_size: Annotated[Count, Doc("examples per mini-batch")] = 10
    accumulate: Annotated[
        Count,
        Doc(
            "mini-batches per step, whose gradients are averaged by their numbers of examples; each needs memory for "
            "batch_size examples only; no effect with full_batch"
        ),
    ] = 1
    epochs: Annotated[Count, Doc("passes over the client's examples")] = 1
    steps: Annotated[Count | None, Doc("optimiser steps per visit, over as many epochs as needed; replaces epochs")] = (
        None
    )
    full_batch: Annotated[bool, Doc("each step uses the gradient over all of the client's examples (CS-GD Eq. 3)")] = (
        False
    )
    precision: Annotated[
        Literal["fp32", "bf16"],
        Doc(
            "'bf16': forward and backward passes under PyTorch's autocast to bfloat16; parameters, optimisers, updates "
            "and evaluations stay in single precision"
        ),
    ] = "fp32"
    proximal: Annotated[NonNegative, Doc("mu of the proximal term mu/2 * |w - w_received|^2 (FedProx)")] = 0.0
    loss: Annotated[
        str | None,
        Doc(
            "loss to minimise: cross-entropy, logit-adjusted, batch-adjusted (nats), bce (binary cross-entropy, nats "
            "per label), squared, absolute, or module:name of a function of (outputs, labels), or of (outputs, labels, "
            "inputs), that returns each example's loss (default: cross-entropy for classes, tokens and pixels, bce for "
            "several labels, squared for numbers)"
        ),
    ] = None
    class_weights: Annotated[
        tuple[Positive, ...] | Literal["balanced"],
        BeforeValidator(lambda value: tuple(value) if isinstance(value, list) else value),
        Doc(
            "cross-entropy: weight of each class in a batch's mean; 'balanced': total number of examples / (examples "
            "of the class * number of classes), from the counts that clients report (data.tell_labels)"
        ),
    ] = ()
    tau: Annotated[NonNegative, Doc("logit-adjusted, batch-adjusted: weight of the log prior (FCH-FL Eq. 8)")] = 1.0
    prior: Annotated[
        tuple[NonNegative, ...],
        Field(strict=False),
        Doc("logit-adjusted: share of each class, on any scale (default: from the histograms that clients report)"),
    ] = ()
    statistics: Annotated[
        frozenset[Statistic],
        Field(strict=False),
        Doc(
            "measurements besides the mean loss: squared_loss (mean squared loss of examples before each step), "
            "gradient_variance (between mini-batches) and gradient_norm, both at the received model; effective_steps "
            "(how many plain steps with equal gradients would move the model as far)"
        ),
    ] = frozenset()

    def __post_init__(self) -> None:
        if self.optimizer == "adam" and (self.momentum or self.nesterov):
            raise ValueError("momentum, nesterov: not for optimizer = 'adam'; remove them")
        if self.optimizer not in OPTIMIZERS and (self.momentum or self.nesterov or self.weight_decay):
            raise ValueError(
                f"optimizer = {self.optimizer!r}: momentum, nesterov and weight_decay do not apply; set them in it"
            )
        if self.class_weights and self.loss not in (None, "cross-entropy"):
            raise ValueError(f"class_weights: apply to loss = 'cross-entropy' only, not to {self.loss!r}")
        if self.nesterov and not self.momentum:
            raise ValueError("nesterov: needs momentum > 0")

    @property
    def is_plain_descent(self) -> bool:
        """Whether a step is exactly p -= lr * g."""
        changed = self.momentum or self.weight_decay or self.proximal or self.clip_norm is not None or self.accumulates
        return self.optimizer == "sgd" and not changed

    @property
    def accumulates(self) -> bool:
        """Whether a step's gradient is computed in several mini-batches."""
        return self.accumulate > 1 and not self.full_batch

    @property
    def step_size(self) -> int:
        """Largest number of examples whose gradient one step uses, unless full_batch."""
        return self.batch_size * self.accumulate

    def without_schedule(self) -> Training:
        """Return these settings with a fixed learning rate."""
        return self if self.schedule is None else replace(self, schedule=None)

    def steps_per_visit(self, num_examples: int) -> int:
        """Return the optimiser steps in a visit to a client that holds `num_examples` (>= 1)."""
        if self.steps is not None:
            return self.steps
        return self.epochs * (1 if self.full_batch else -(-num_examples // self.step_size))

    def effective_steps(self, num_examples: int) -> float:
        """Return how far a visit moves along gradients that are all the same, in steps of plain descent; at least 1.

        It is |a_i|_1 of FedNova (Wang et al. 2020): the number of steps for plain descent, more with momentum, less
        with a proximal term. Weight decay is part of a gradient; other optimisers than "sgd" count their steps.
        """
        steps = self.steps_per_visit(num_examples)
        if self.optimizer != "sgd" or not (self.momentum or self.proximal):
            return float(steps)
        moved = velocity = 0.0
        for _ in range(steps):
            gradient = 1.0 - self.lr * self.proximal * moved
            velocity = self.momentum * velocity + gradient
            moved += gradient + self.momentum * velocity if self.nesterov else velocity
        return max(1.0, moved)

    def examples_per_visit(self, num_examples: int) -> int:
        """Return the number of examples whose gradients one visit computes, counting repetitions."""
        if self.steps is None:
            return self.epochs * num_examples
        if self.full_batch:
            return self.steps * num_examples
        per_epoch = -(-num_examples // self.step_size)
        epochs, rest = divmod(self.steps, max(per_epoch, 1))
        return epochs * num_examples + min(rest * self.step_size, num_examples)
