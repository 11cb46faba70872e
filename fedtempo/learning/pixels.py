"""Outputs for each pixel of an image: in the order of a loss for examples, and counted by class.

A pixel whose label is negative (`fedtempo.data.masks.IGNORED`) has no label and is left out.
"""

from __future__ import annotations

import torch
from torch import Tensor

from fedtempo.errors import ConfigError


def as_examples(outputs: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Return outputs (batch * height * width, classes) and labels (batch * height * width,).

    outputs: (batch, classes, height, width). labels: (batch, height, width). Raises ConfigError for other shapes.
    """
    _check(outputs, labels)
    return outputs.permute(0, 2, 3, 1).reshape(-1, outputs.shape[1]), labels.reshape(-1)


def as_images(rows: Tensor, labels: Tensor) -> Tensor:
    """Return rows (batch * height * width, classes) as (batch, classes, height, width), as `as_examples` got them."""
    return rows.view(*labels.shape, rows.shape[1]).permute(0, 3, 1, 2)


def means(values: Tensor, labels: Tensor) -> Tensor:
    """Return the mean over each image's labelled pixels, (batch,); values: one for each pixel, 0 without a label."""
    counts = (labels >= 0).reshape(len(labels), -1).sum(dim=1)
    return values.reshape(len(labels), -1).sum(dim=1) / counts


def confusions(outputs: Tensor, labels: Tensor) -> Tensor:
    """Return the number of pixels of each image by class and predicted class, int64 (batch, classes, classes)."""
    _check(outputs, labels)
    batch, classes = outputs.shape[:2]
    cells = labels * classes + outputs.argmax(dim=1)
    cells = torch.where(labels >= 0, cells, classes * classes).reshape(batch, -1)
    counts = torch.zeros((batch, classes * classes + 1), dtype=torch.int64, device=cells.device)
    counts.scatter_add_(1, cells, torch.ones_like(cells))
    return counts[:, :-1].reshape(batch, classes, classes)


def _check(outputs: Tensor, labels: Tensor) -> None:
    if outputs.dim() != 4 or outputs.shape[:1] != labels.shape[:1] or outputs.shape[2:] != labels.shape[1:]:
        raise ConfigError(
            f"model.network: outputs of shape {tuple(outputs.shape)} for masks of shape {tuple(labels.shape)}; outputs "
            "must be of shape (batch, classes, height, width)"
        )
