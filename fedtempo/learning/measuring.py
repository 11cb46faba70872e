"""The loss and accuracy of a model on a client's own examples, for visits that evaluate instead of training."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from fedtempo.learning.evaluation import BATCH, scores_of
from fedtempo.learning.examples import Examples
from fedtempo.learning.forward import outputs_of
from fedtempo.learning.losses import Loss, of_batch
from fedtempo.learning.state import FlatModel
from fedtempo.learning.training import Training


def rows_to_evaluate(rows: Tensor, training: Training, rng: np.random.Generator) -> Tensor:
    """Return all rows or, if `training.steps` is given, those of so many random batches, each row at most once."""
    if training.steps is None:
        return rows
    count = training.examples_per_visit(len(rows))
    return rows[torch.from_numpy(rng.permutation(len(rows))[:count])]


def sums_over(model: FlatModel, examples: Examples, loss_of: Loss, rows: Tensor) -> Tensor:
    """Return the sums of the loaded model's loss and, unless labels are numbers, of its credit over these rows.

    rows: int64, on the model's device. No value of a tensor is read. Credit is that of `evaluation`.
    """
    model.module.eval()
    sums = torch.zeros(1 if examples.labels.is_floating_point() else 2, dtype=torch.float64, device=rows.device)
    with torch.inference_mode():
        for batch in torch.split(rows, BATCH):
            x, y = examples.gather(batch)
            outputs = outputs_of(model.module, x)
            sums[0] += of_batch(loss_of, x)(outputs, y).double() * len(batch)
            if len(sums) == 2:
                sums[1] += scores_of(outputs, y, examples)[0].double().sum()
    return sums


def statistics_of(sums: Tensor, num_examples: int) -> dict[str, float]:
    """Return "loss" and, unless labels are numbers, "accuracy" from their sums over so many examples."""
    return {name: value / num_examples for name, value in zip(("loss", "accuracy"), sums.tolist())}
