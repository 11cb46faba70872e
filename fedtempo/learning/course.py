"""One client's training in pieces that never wait for the host, so that a device can record and repeat them.

The training is that of `local.train`, with the same random order; sums of losses stay on the device until the end.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

import torch
from torch import Tensor

from fedtempo.learning.examples import Examples
from fedtempo.learning.losses import loss_of
from fedtempo.learning.optimizers import Tensors, add_proximal
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
    each visit by `begin`.
    """

    def __init__(self, model: FlatModel, examples: Examples, training: Training) -> None:
        self.model = model
        self._examples, self._training = examples, training
        self._parameters = model.gradients.parameters
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
        _, _, gradients = self.model.gradients.of(self._loss_of, x, y)
        with torch.no_grad():
            gradient = torch.cat([part.reshape(-1) for part in gradients])
            size = len(rows)
            self._seen.add_(size)
            from_mean = gradient - self._mean
            self._mean.add_(from_mean * (torch.full_like(self._seen, size) / self._seen).to(gradient.dtype))
            self._deviations.add_(from_mean @ (gradient - self._mean), alpha=size)

    def begin(self, received: Tensor, lr: float) -> None:
        """Start a visit at `received`, which is not modified; steps have the size `lr`."""
        self._load(received)
        with torch.no_grad():
            if self._anchors:
                torch._foreach_copy_(self._anchors, self._parameters)
            self._loss.zero_()
            self._squared.zero_()
            self._optimizer.begin(lr)

    def step(self, rows: Tensor) -> None:
        """Take one step on the batch of these rows (int64, on the model's device)."""
        x, y = self._examples.gather(rows)
        loss, logits, gradients = self.model.gradients.of(self._loss_of, x, y)
        training, size = self._training, len(rows)
        with torch.no_grad():
            if self._anchors:
                gradients = add_proximal(gradients, self._parameters, self._anchors, training.proximal)
            if training.clip_norm is not None:
                gradients = clip(gradients, training.clip_norm)
            self._loss.add_(loss.detach(), alpha=size)
            if self._squares:
                self._squared.add_(self._loss_of(logits, y, "none").square().sum())
            self._optimizer.step(gradients)

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
    }
    return {name: measured[name] for name in measured if name == "loss" or name in training.statistics}, bool(finite)
