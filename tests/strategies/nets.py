"""Networks with state that is not trainable, for tests."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn


def normalised(shape: Sequence[int], outputs: int) -> nn.Module:
    """A convolution with batch normalisation, whose variances are far from their initial 1."""
    return nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(36, outputs)
    )


def frozen(shape: Sequence[int], outputs: int) -> nn.Module:
    """A frozen convolution before a trainable layer."""
    module = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, outputs))
    module[0].requires_grad_(False)
    return module


def both(shape: Sequence[int], outputs: int) -> nn.Module:
    """The same with batch normalisation, and a constant among its buffers."""
    module = normalised(shape, outputs)
    module[0].requires_grad_(False)
    module.register_buffer("constant", torch.tensor([0.1, 1 / 3, 7.7]))
    return module


def all_frozen(shape: Sequence[int], outputs: int) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(64, outputs)).requires_grad_(False)


class Moves(nn.Module):
    """A module that changes its frozen parameter in every training step."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(1), requires_grad=False)
        self.layer = nn.Linear(64, 10)

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            self.scale.data.mul_(1.5)
        outputs: Tensor = self.layer(x.flatten(1)) * self.scale
        return outputs
