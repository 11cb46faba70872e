"""Visits that a strategy extends: a procedure runs at the client, which keeps tensors from visit to visit.

A procedure is a function of a `ClientVisit`. It trains `visit.model`, whose start is what the client sends, may read
and change `visit.state`, and returns the vectors that the client sends besides the model.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from fedtempo.errors import ConfigError, StrategyError, nearest
from fedtempo.federation import EVALUATE
from fedtempo.learning.augmentation import Augmentation
from fedtempo.learning.examples import Examples
from fedtempo.learning.gradients import gradients_for
from fedtempo.learning.kept import Kept
from fedtempo.learning.local import ChangeLoss, Rows, batches, train
from fedtempo.learning.losses import make_loss, of_batch
from fedtempo.learning.measuring import rows_to_evaluate, statistics_of, sums_over
from fedtempo.learning.state import FlatModel, Vector
from fedtempo.learning.training import Training
from fedtempo.parts.plugins import imported
from fedtempo.parts.user_code import user_code

Procedure = Callable[["ClientVisit"], Sequence[Tensor]]
Upload = Callable[[Vector, Vector | None], Vector | None]

PROCEDURES: dict[str, str] = {
    "ditto": "fedtempo.learning.ditto:personal_and_global",
    "feddyn": "fedtempo.learning.feddyn:dynamic",
    "fedrep": "fedtempo.learning.fedrep:head_then_body",
    "moon": "fedtempo.learning.moon:contrastive",
    EVALUATE: "fedtempo.learning.procedures:evaluate",
    "per-fedavg": "fedtempo.learning.per_fedavg:meta_steps",
    "scaffold": "fedtempo.learning.scaffold:from_steps",
    "scaffold-gradient": "fedtempo.learning.scaffold:from_gradient",
}
"""fedtempo's own procedures, by name."""


class ClientVisit:
    """One visit, as a procedure sees it. Vectors of parameters hold those that are trained and travel, (trainable,).

    model: the client's model. examples, rows: its examples are these rows. training: how to train. rng: the visit's
    generator. state: the tensors that the client keeps; changes last if the training stays finite. payload: the vectors
    that the server sent along. numbers: the settings that the strategy gave (`Work.numbers`). personal: the client's
    own model, as `model.sent`, None if it has none yet; runs evaluate it if the strategy has `OWN_MODELS`. statistics:
    what the server learns besides the vectors; must have a "loss".
    """

    def __init__(
        self,
        model: FlatModel,
        examples: Examples,
        rows: Tensor,
        training: Training,
        rng: np.random.Generator,
        received: Vector | Tensor,
        state: dict[str, Tensor],
        payload: Sequence[Tensor],
        augment: Augmentation | None = None,
        numbers: Mapping[str, float] | None = None,
        personal: Tensor | None = None,
    ) -> None:
        self.model, self.examples, self.rows = model, examples, rows
        self.training, self.rng = training, rng
        self.state, self.payload = state, tuple(payload)
        self.numbers, self.personal = dict(numbers or {}), personal
        self.statistics: dict[str, float] = {}
        self._received, self._augment = received, augment

    @property
    def parameters(self) -> Tensor:
        """View of the model's parameters; changing it changes the model."""
        return self.model.vector[: self.model.sections.trainable]

    @property
    def received(self) -> Tensor:
        """The parameters that the server sent, as a copy."""
        return torch.as_tensor(np.array(self._received[: self.model.sections.trainable]), dtype=self.model.vector.dtype)

    @property
    def steps(self) -> int:
        """Number of optimiser steps of `train`."""
        return self.training.steps_per_visit(len(self.rows))

    def zeros(self) -> Tensor:
        """Return a vector of zeros."""
        return torch.zeros_like(self.parameters)

    def train(
        self,
        correction: Tensor | None = None,
        *,
        start: Tensor | None = None,
        only: Literal["travelling", "local"] | None = None,
        change_loss: ChangeLoss | None = None,
        **settings: Any,
    ) -> None:
        """Train the received model as configured.

        correction: added to the gradient of each step before clipping. start: parameters to begin with instead of the
        received ones, to which the proximal term still refers. only: train these parameters only (default: all).
        change_loss: returns the loss to minimise for a batch, given the configured one and the inputs; not with a
        correction or `only`. settings: replace those of `training`, such as epochs or steps.
        """
        masks = None
        if only is not None:
            travelling, size = self.model.sections.moving, self.model.size
            masks = self._views((torch.arange(size) < travelling).to(self.model.vector.dtype))
            masks = masks if only == "travelling" else tuple(1 - mask for mask in masks)
        self.statistics = train(
            self.model,
            self.examples,
            replace(self.training, **settings),
            self.rng,
            self._received,
            self.rows.numpy(),
            self._augment,
            None if correction is None else self._pieces(correction),
            start=start,
            only=masks,
            change_loss=change_loss,
        )

    def network(self, state: Tensor | None = None) -> nn.Module:
        """Return a copy of the network as received, in evaluation mode. state: its `model.sent` of another time."""
        self.model.load(self._received if state is None else state)
        return copy.deepcopy(self.model.module).eval()

    def gradient(self) -> Tensor:
        """Return the mean gradient over all examples at the received model, which is loaded for it."""
        self.begin()
        return self.loss_and_gradient(self.rows)[1]

    def begin(self) -> None:
        """Load the received model in training mode; `train` does so itself."""
        self.model.load(self._received)
        self.model.train()

    def batches(self) -> Iterator[Tensor]:
        """Yield the rows of each step's batch, in the order and as often as `training` says."""
        return batches(self.rows, self.training, self.rng)

    def loss_and_gradient(self, rows: Tensor) -> tuple[float, Tensor]:
        """Return the mean loss over examples and its gradient, at the model's present parameters."""
        model, gradients = self.model, gradients_for(self.model, self.training)
        loss_of = make_loss(self.training, self.examples.labels[self.rows], model.vector.dtype)
        total, total_loss = torch.zeros_like(model.vector), 0.0
        for batch in torch.split(rows, self.training.batch_size):
            x, y = self.examples.gather(batch)
            loss, _, found = gradients.of(of_batch(loss_of, x), x, y)
            total_loss += loss.item() * len(batch) / len(rows)
            for piece, gradient in zip(self._views(total), found):
                piece.add_(gradient, alpha=len(batch) / len(rows))
        return total_loss, total[: model.sections.trainable]

    def evaluate(self) -> None:
        """Measure the received model on all examples, or on some (`measuring.rows_to_evaluate`)."""
        loss_of = make_loss(self.training, self.examples.labels[self.rows], self.model.vector.dtype)
        rows = rows_to_evaluate(self.rows, self.training, self.rng)
        self.model.load(self._received)
        self.statistics = statistics_of(sums_over(self.model, self.examples, loss_of, rows), len(rows))

    def _pieces(self, vector: Tensor) -> tuple[Tensor, ...]:
        """Return the parts of a vector for each of the gradients' parameters, zero for local ones."""
        whole = torch.zeros_like(self.model.vector)
        whole[: len(vector)] = vector
        return self._views(whole)

    def _views(self, whole: Tensor) -> tuple[Tensor, ...]:
        return tuple(
            whole.as_strided(part.shape, part.stride(), part.storage_offset())
            for part in gradients_for(self.model, self.training).parameters
        )


def evaluate(visit: ClientVisit) -> tuple[Tensor, ...]:
    """Evaluate the received model, which stays as it is."""
    visit.evaluate()
    return ()


def make_visit(
    model: FlatModel,
    examples: Examples,
    training: Training,
    rng: np.random.Generator,
    received: Vector,
    rows: Rows,
    *,
    state: bytes | None = None,
    procedure: str | None = None,
    payload: Sequence[Vector] = (),
    returns: int = 0,
    numbers: Mapping[str, float] | None = None,
    augment: Augmentation | None = None,
    upload: Upload | None = None,
) -> tuple[dict[str, float], list[Vector], bytes | None]:
    """Make a visit of a client that keeps something; the model to send is `model.sent` then.

    state: what the client has kept so far, encoded. procedure: a name in `PROCEDURES` or "module:function" (default:
    training as configured). payload: the vectors that the server sent along. returns: how many it expects in return.
    numbers: the procedure's settings. augment: changes each training batch. upload: is called with the change of the
    trainable parameters and with what earlier uploads left out; returns what this one leaves out.

    Returns the statistics, the vectors to send along, each (sections.moving,), and what the client keeps now: as before
    if the training has left the finite numbers.
    """
    sections = model.sections
    kept = Kept.decoded(state, sections.local)
    model.local = kept.local
    sent: Sequence[Tensor] = ()
    try:
        if procedure is None:
            statistics = train(model, examples, training, rng, received, rows, augment)
        else:
            vectors = [torch.from_numpy(np.array(vector[: sections.trainable])) for vector in payload]
            owned = torch.as_tensor(np.asarray(rows), dtype=torch.int64)
            visit = ClientVisit(
                model,
                examples,
                owned,
                training,
                rng,
                received,
                kept.tensors,
                vectors,
                augment,
                numbers,
                kept.personal,
            )
            sent = _called(procedure, visit)
            statistics, kept.personal = visit.statistics, visit.personal
            _check_sent(procedure, sent, statistics, returns, sections.trainable)
    finally:
        model.local = None
    parts = [model.sent, model.kept, *kept.tensors.values(), *([] if kept.personal is None else [kept.personal])]
    if upload is not None and procedure != EVALUATE:
        kept.residual = _uploaded(upload, model, received, kept.residual)
        parts += [] if kept.residual is None else [kept.residual]
    if all(torch.isfinite(part).all() for part in parts):
        state = Kept(model.kept, kept.tensors, kept.residual, kept.personal).encoded()
    return statistics, [_completed(vector, received, sections.trainable) for vector in sent], state


def _uploaded(upload: Upload, model: FlatModel, received: Vector, residual: Tensor | None) -> Tensor | None:
    trainable = model.sections.trainable
    with np.errstate(over="ignore", invalid="ignore"):  # training may have diverged
        change = model.sent[:trainable].numpy() - received[:trainable]
    left_out = upload(change, None if residual is None else residual.numpy())
    return None if left_out is None else torch.from_numpy(left_out)


def _called(name: str, visit: ClientVisit) -> Sequence[Tensor]:
    where = f"Work.procedure = {name!r}"
    if name not in PROCEDURES and ":" not in name:
        raise ConfigError(f"{where}: no such procedure{nearest(name, PROCEDURES)}")
    function: Any = imported(PROCEDURES.get(name, name), "Work.procedure")
    if not callable(function):
        raise ConfigError(f"{where}: it must be a function of a ClientVisit, not {type(function).__name__}")
    with user_code(where, function):
        return tuple(function(visit))


def _check_sent(
    procedure: str, sent: Sequence[Any], statistics: dict[str, float], returns: int, trainable: int
) -> None:
    """Raise StrategyError unless a procedure returns what was announced."""
    if len(sent) != returns:
        raise StrategyError(f"Work.procedure = {procedure!r}: returned {len(sent)} vectors; Work.returns is {returns}")
    for vector in sent:
        if not isinstance(vector, Tensor) or tuple(vector.shape) != (trainable,):
            raise StrategyError(
                f"Work.procedure = {procedure!r}: returned {getattr(vector, 'shape', type(vector).__name__)}; each "
                f"vector must be a tensor of shape ({trainable},)"
            )
    if "loss" not in statistics:
        raise StrategyError(f"Work.procedure = {procedure!r}: set visit.statistics['loss'], or call visit.train()")


def _completed(vector: Tensor, received: Vector, trainable: int) -> Vector:
    """Return a vector to send, with the running statistics that the client received."""
    return np.concatenate([vector.detach().numpy(), received[trainable:]])
