"""Functions that a user might write for local training."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def noise(inputs: Tensor, generator: torch.Generator) -> Tensor:
    return inputs + 0.1 * torch.randn(inputs.shape, generator=generator).to(inputs)


def flip(inputs: Tensor, labels: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Negate half of the examples, and move the labels of these by one."""
    chosen = (torch.rand(len(inputs), generator=generator) < 0.5).to(inputs.device)
    signs = torch.where(chosen, -1.0, 1.0).to(inputs).view(-1, *[1] * (inputs.dim() - 1))
    return inputs * signs, (labels + chosen.to(labels.dtype)) % 3


def unseeded(inputs: Tensor, generator: torch.Generator) -> Tensor:
    """Use PyTorch's own generator, as the transforms of torchvision do."""
    return inputs + torch.randn_like(inputs)


def doubles(inputs: Tensor, generator: torch.Generator) -> Tensor:
    return torch.cat([inputs, inputs])


def listed(inputs: Tensor, generator: torch.Generator) -> list[float]:
    return inputs.tolist()


def one_hot(inputs: Tensor, labels: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    return inputs, F.one_hot(labels, 3)


def broken(inputs: Tensor, generator: torch.Generator) -> Tensor:
    return inputs @ inputs


def needs_four(a: Tensor, b: Tensor, c: Tensor, d: Tensor) -> None: ...
