"""The module of the network "unet"."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class UNetModule(nn.Module):
    """Convolutions at several scales, from the full image down and up again, with shortcuts between equal scales."""

    def __init__(self, depth: int, widths: Sequence[int], groups: int, n_classes: int) -> None:
        """depth: channels of the input. widths: filters at each scale, from full size down by 2."""
        super().__init__()
        self.down = nn.ModuleList(_block(before, width, groups) for before, width in pairwise((depth, *widths)))
        upwards = list(pairwise(reversed(widths)))
        self.narrow = nn.ModuleList(nn.Conv2d(below, width, 1) for below, width in upwards)
        self.up = nn.ModuleList(_block(2 * width, width, groups) for _, width in upwards)
        self.output = nn.Conv2d(widths[0], n_classes, 1)

    def forward(self, images: Tensor) -> Tensor:
        """Images (batch, channels, height, width) -> logits (batch, classes, height, width)."""
        height, width = images.shape[2:]
        multiple = 2 ** (len(self.down) - 1)
        # Padded so that all scales are whole, and cropped at the end.
        x = F.pad(images, (0, -width % multiple, 0, -height % multiple))
        shortcuts = []
        for i, block in enumerate(self.down):
            x = block(F.max_pool2d(x, 2) if i else x)
            shortcuts.append(x)
        for narrow, block, shortcut in zip(self.narrow, self.up, reversed(shortcuts[:-1])):
            x = F.interpolate(narrow(x), scale_factor=2.0, mode="nearest")
            x = block(torch.cat([shortcut, x], dim=1))
        logits: Tensor = self.output(x)
        return logits[:, :, :height, :width]


def _block(depth: int, width: int, groups: int) -> nn.Sequential:
    """Return two 3x3 convolutions, each with group normalisation and ReLU."""
    return nn.Sequential(
        nn.Conv2d(depth, width, 3, padding=1, bias=False),
        nn.GroupNorm(groups, width),
        nn.ReLU(inplace=True),
        nn.Conv2d(width, width, 3, padding=1, bias=False),
        nn.GroupNorm(groups, width),
        nn.ReLU(inplace=True),
    )
