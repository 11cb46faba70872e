"""Residual networks for small images with group normalisation, which keeps no running statistics."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn


class Block(nn.Module):
    """Two 3x3 convolutions with a shortcut, which is a 1x1 convolution if the shape changes (He et al. 2016)."""

    def __init__(self, depth: int, width: int, stride: int, groups: int) -> None:
        super().__init__()
        self.around: nn.Module = nn.Identity()
        if stride > 1 or depth != width:
            self.around = nn.Sequential(nn.Conv2d(depth, width, 1, bias=False), nn.GroupNorm(groups, width))
        self.stride = stride
        self.through = nn.Sequential(
            nn.Conv2d(depth, width, 3, stride=stride, padding=1, bias=False),
            nn.GroupNorm(groups, width),
            nn.ReLU(inplace=True),
            nn.Conv2d(width, width, 3, padding=1, bias=False),
            nn.GroupNorm(groups, width),
        )
        self.activation = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        # Subsampled before the 1x1 convolution: for one with a stride and fewer than eight channels, the backward pass
        # of PyTorch 2.13 writes beyond its memory on processors that have AVX2 but not AVX-512.
        subsampled = x[:, :, :: self.stride, :: self.stride]
        out: Tensor = self.activation(self.through(x) + self.around(subsampled))
        return out


def residual(depth: int, widths: Sequence[int], groups: int, n_classes: int) -> nn.Sequential:
    """Return a residual network: 3x3 convolution, two blocks per width, mean over the image, linear layer.

    depth: channels of the input. Each width after the first halves the side of the image.
    """
    stack = nn.Sequential(
        nn.Conv2d(depth, widths[0], 3, padding=1, bias=False), nn.GroupNorm(groups, widths[0]), nn.ReLU(inplace=True)
    )
    depth = widths[0]
    for stage, width in enumerate(widths):
        stack.append(Block(depth, width, 1 if stage == 0 else 2, groups))
        stack.append(Block(width, width, 1, groups))
        depth = width
    return stack.extend([nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(depth, n_classes)])
