"""One client's training in pieces that never wait for the host, so that a device can record and repeat them.

The training is that of `local.train`, with the same random order; sums of losses stay on the device until the end.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

import torch
from torch import Tensor

from fedtempo.learning.augmentation import Augmentation
from fedtempo.learning.examples import Examples
from fedtempo.learning.gradients import gradients_for
from fedtempo.learning.local import mini_batches
from fedtempo.learning.losses import loss_of, of_batch
from fedtempo.learning.optimizers import Tensors, add_proximal, weighted_sum
from fedtempo.learning.state import FlatModel
from fedtempo.learning.static_optimizers import clip, make_static_optimizer, zeros_like_each
from fedtempo.learning.training import Training

MOST_STEPS = 32
"""Largest number of steps in one recording; launching it costs little compared with them."""

_GRADIENT_STATISTICS = frozenset({"gradient_variance", "gradient_norm"})


def pieces(sizes: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield batches of these sizes as pieces (size, steps): powers of two of equal batches, in order.

    Clients with any number of examples then need few different pieces, each of which is recorded once.
    """
    for size, run in groupby(sizes):
        left = sum(1 for _ in run)
        while left:
            steps = min(1 << (left.bit_length() - 1), MOST_STEPS)
            yield size, steps
            left -= steps


class Course:
    """Visits with the same settings on one model, one after the other. No method reads a tensor's value.

    A visit is `begin`, then `step` for each batch, then `outcome`; if `measures` is true, `begin_measuring` and
    `measure` for each batch come first. The result is `model.vector`. training: the settings; the step size is set for
    each visit by `begin`. augment: changes each batch that a step is made with; such a course cannot be recorded.
    """

    def __init__(
        self, model: FlatModel, examples: Examples, training: Training, augment: Augmentation | None = None
    ) -> None:
        self.model = model
        self._augment = augment
        self._examples, self._training = examples, training
        self._gradients = gradients_for(model, training)
        self._parameters = self._gradients.parameters
        vector = model.vector
        self._loss_of = loss_of(training, vector.dtype, examples.labels)
        self._optimizer = make_static_optimizer(self._parameters, training)
        self._anchors: Tensors = zeros_like_each(self._parameters) if training.proximal else ()
        self.measures = bool(training.statistics & _GRADIENT_STATISTICS)
        self._squares = "squared_loss" in training.statistics
        self._sums = torch.zeros(5, dtype=torch.float64, device=vector.device)
        self._loss, self._squared, self._deviations, self._norm, self._finite = (self._sums[i] for i in range(5))
        if self.measures:
            self._mean = vector.new_zeros(sum(parameter.numel() for parameter in self._parameters))
            self._seen = self._sums.new_zeros(())

    def begin_measuring(self, received: Tensor) -> None:
        """Start measuring gradients at `received`, the model of a new visit."""
        self._load(received)
        for total in (self._mean, self._seen, self._deviations):
            total.zero_()

    def measure(self, rows: Tensor) -> None:
        """Add one batch's gradient at the loaded model, with West's running update, as in `local.train`."""
        x, y = self._examples.gather(rows)
        _, _, gradients = self._gradients.of(of_batch(self._loss_of, x), x, y)
        with torch.no_grad():
            gradient = torch.cat([part.reshape(-1) for part in gradients])
            size = len(rows)
            self._seen.add_(size)
            from_mean = gradient - self._mean
            self._mean.add_(from_mean * (torch.full_like(self._seen, size) / self._seen).to(gradient.dtype))
            self._deviations.add_(from_mean @ (gradient - self._mean), alpha=size)

    def begin(self, received: Tensor, lr: float, seed: int = 0) -> None:
        """Start a visit at `received`, which is not modified; steps have the size `lr`. seed: for augmentation."""
        self._load(received)
        if self._augment is not None:
            self._augment.begin(seed)
        with torch.no_grad():
            if self._anchors:
                torch._foreach_copy_(self._anchors, self._parameters)
            self._loss.zero_()
            self._squared.zero_()
            self._optimizer.begin(lr)

    def step(self, rows: Tensor) -> None:
        """Take one step on the batch of these rows (int64, on the model's device)."""
        training, size = self._training, len(rows)
        gradients: Tensors = ()
        for rows_at_once in mini_batches(rows, training):
            gradient = self._gradient(rows_at_once)
            gradients = (
                weighted_sum(gradients, gradient, len(rows_at_once) / size) if training.accumulates else gradient
            )
        with torch.no_grad():
            if self._anchors:
                gradients = add_proximal(gradients, self._parameters, self._anchors, training.proximal)
            if training.clip_norm is not None:
                gradients = clip(gradients, training.clip_norm)
            self._optimizer.step(gradients)

    def _gradient(self, rows: Tensor) -> Tensors:
        """Return the gradients of a mini-batch, and add its losses to their sums."""
        x, y = self._examples.gather(rows)
        if self._augment is not None:
            x, y = self._augment(x, y)
        loss_of_batch = of_batch(self._loss_of, x)
        loss, logits, gradients = self._gradients.of(loss_of_batch, x, y)
        with torch.no_grad():
            self._loss.add_(loss.detach(), alpha=len(rows))
            if self._squares:
                self._squared.add_(loss_of_batch(logits, y, "none").square().sum())
        return gradients

    def outcome(self) -> Tensor:
        """Return the sums that `statistics` reads, shape (5,), on the model's device."""
        with torch.no_grad():
            if self.measures:
                self._norm.copy_(torch.linalg.vector_norm(self._mean))
            self._finite.copy_(torch.isfinite(self.model.sent).all())
        return self._sums

    def _load(self, received: Tensor) -> None:
        self.model.load(received)
        if not self.model.module.training:
            self.model.train()


def statistics(outcome: Tensor, training: Training, num_examples: int, used: int) -> tuple[dict[str, float], bool]:
    """Return the statistics that `local.train` returns, and whether all parameters are finite.

    outcome: of the visit's `Course`. num_examples: held by the client. used: examples in all steps together.
    """
    loss, squared, deviations, norm, finite = outcome.tolist()
    measured = {
        "loss": loss / used,
        "squared_loss": squared / used,
        "gradient_variance": deviations / num_examples,
        "gradient_norm": norm,
        "effective_steps": training.effective_steps(num_examples),
    }
    return {name: measured[name] for name in measured if name == "loss" or name in training.statistics}, bool(finite)
