"""One client's local training."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedtempo.errors import ConfigError
from fedtempo.learning.augmentation import Augmentation
from fedtempo.learning.examples import Examples
from fedtempo.learning.gradients import Autograd, Gradients, gradients_for
from fedtempo.learning.losses import Loss, make_loss, of_batch
from fedtempo.learning.numerics import torch_seed
from fedtempo.learning.optimizers import Tensors, add_proximal, clip, make_optimizer, weighted_sum
from fedtempo.learning.state import FlatModel, Vector
from fedtempo.learning.training import Training

Rows = np.ndarray[Any, np.dtype[np.int64]]
ChangeLoss = Callable[[Loss, Any], Loss]


def train(
    model: FlatModel,
    examples: Examples,
    training: Training,
    rng: np.random.Generator,
    received: Vector | Tensor,
    rows: Rows | None = None,
    augment: Augmentation | None = None,
    correction: Tensors | None = None,
    *,
    start: Tensor | None = None,
    only: Tensors | None = None,
    change_loss: ChangeLoss | None = None,
) -> dict[str, float]:
    """Load `received` into `model` and train it; the result is `model.vector`.

    rows: row numbers in `examples` of the client's examples (default: all). rng: draws the batches and a seed for the
    module's own draws (dropout). augment: changes each batch that a step is made with. correction: added to each step's
    gradient, one tensor per gradient, before it is clipped (SCAFFOLD). start: the first values of `model.vector`, to
    begin with instead of the received ones; the proximal term still refers to those. only: tensors like the gradients,
    1 where a parameter is trained and 0 where it stays. change_loss: returns the loss to minimise for a batch, given
    the configured one and the inputs; called before the model's outputs are computed; not with the two before. The
    result does not depend on the statistics requested.

    Returns "loss", the mean of the examples' losses before each step over all steps (without the proximal term), and
    the statistics that `training` names:
    "squared_loss": the same for squared losses (Oort's statistical utility);
    "gradient_variance": mean of |g_b - g|^2 over the client's mini-batches b, weighted by their sizes, g the gradient
    of all its examples, both at the received model (PSFL Eq. 24; the variance of single examples with batch_size = 1);
    "gradient_norm": |g| at the received model;
    "effective_steps": see `Training.effective_steps`.

    Raises ConfigError if the client has no examples.
    """
    owned = torch.arange(len(examples)) if rows is None else torch.as_tensor(rows, dtype=torch.int64)
    if not len(owned):
        raise ConfigError("a client has no examples to train on; give each client at least one example")
    gradients = gradients_for(model, training)
    if change_loss is not None and training.precision == "fp32":
        gradients = Autograd(model.module)  # computing by hand would not run the module, whose layers the loss may use
    parameters = gradients.parameters
    loss_of = make_loss(training, examples.labels[owned], model.vector.dtype)
    seed = int(rng.integers(2**63))
    statistics: dict[str, float] = {}
    if training.statistics & {"gradient_variance", "gradient_norm"}:
        model.load(received)
        with torch_seed(seed):
            batches_of_all = torch.split(owned, training.batch_size)
            variance, norm = _gradient_statistics(model, gradients, examples, loss_of, batches_of_all)
        statistics = {"gradient_variance": variance, "gradient_norm": norm}
    model.load(received)
    model.train()
    anchors = tuple(parameter.detach().clone() for parameter in parameters) if training.proximal else ()
    if start is not None:
        model.vector[: len(start)].copy_(start)
    fixed = () if only is None else tuple(parameter.detach().clone() for parameter in parameters)
    optimizer = make_optimizer(parameters, training, gradients.apart)
    total = squared = 0.0
    seen = 0
    plain, accumulates = training.is_plain_descent and correction is None and only is None, training.accumulates
    if augment is not None:
        augment.begin(seed)
    with torch_seed(seed):
        for batch in batches(owned, training, rng):
            step: Tensors = ()
            for rows_at_once in mini_batches(batch, training):
                x, y = examples.gather(rows_at_once)
                if augment is not None:
                    x, y = augment(x, y)
                loss_of_batch = of_batch(loss_of, x)
                if change_loss is not None:
                    loss_of_batch = change_loss(loss_of_batch, x)
                if plain:
                    loss, logits = gradients.descend(loss_of_batch, x, y, training.lr)
                else:
                    loss, logits, gradient = gradients.of(loss_of_batch, x, y)
                    step = weighted_sum(step, gradient, len(y) / len(batch)) if accumulates else gradient
                size = len(y)
                total += loss.item() * size
                seen += size
                if "squared_loss" in training.statistics:
                    squared += loss_of_batch(logits, y, "none").square().sum().item()
            if not plain:
                with torch.no_grad():
                    if anchors:
                        step = add_proximal(step, parameters, anchors, training.proximal)
                    if correction is not None:
                        step = tuple(gradient + change for gradient, change in zip(step, correction))
                    if only is not None:
                        step = torch._foreach_mul(step, only)
                    if training.clip_norm is not None:
                        step = clip(step, training.clip_norm)
                    optimizer.step(step)
                    for parameter, mask, value in zip(parameters, only or (), fixed):
                        parameter.copy_(torch.where(mask > 0, parameter, value))
    model.restore_frozen()
    statistics |= {"loss": total / seen, "squared_loss": squared / seen}
    statistics |= {"effective_steps": training.effective_steps(len(owned))}
    return {name: value for name, value in statistics.items() if name == "loss" or name in training.statistics}


def batches(rows: Tensor, training: Training, rng: np.random.Generator) -> Iterator[Tensor]:
    """Yield the row numbers of each step's batch: epochs in random order, cut off after the last step."""
    left = training.steps_per_visit(len(rows))
    numbers = rows.numpy()
    while left:
        if training.full_batch:
            epoch: tuple[Tensor, ...] = (rows,)
        else:
            epoch = torch.split(torch.from_numpy(rng.permutation(numbers)), training.step_size)
        yield from epoch[:left]
        left -= min(left, len(epoch))


def mini_batches(rows: Tensor, training: Training) -> tuple[Tensor, ...]:
    """Return the row numbers of one step's batch, split into those whose gradients are computed at once."""
    return torch.split(rows, training.batch_size) if training.accumulates else (rows,)


def _gradient_statistics(
    model: FlatModel, gradients: Gradients, examples: Examples, loss_of: Loss, batches: tuple[Tensor, ...]
) -> tuple[float, float]:
    """Return the variance of the batches' gradients and the norm of their mean, weighted by size, at the loaded model.

    Uses West's running update, which is accurate even if the variance is small compared with the mean.
    """
    model.train()
    mean = torch.zeros(sum(part.numel() for part in gradients.parameters), dtype=model.vector.dtype)
    deviations, seen = 0.0, 0
    for batch in batches:
        x, y = examples.gather(batch)
        _, _, parts = gradients.of(of_batch(loss_of, x), x, y)
        gradient = torch.cat([part.reshape(-1) for part in parts])
        seen += len(y)
        from_mean = gradient - mean
        mean += from_mean * (len(y) / seen)
        deviations += len(y) * float(from_mean @ (gradient - mean))
    return deviations / seen, float(torch.linalg.vector_norm(mean))
