"""Convolutions with 5 x 5 kernels on a CPU, with a sixth of the multiplications.

Winograd's minimal filtering, F(4, 5) in both directions (Lavin and Gray, "Fast algorithms for convolutional neural
networks", CVPR 2016): a tile of 4 x 4 outputs is computed from 8 x 8 inputs. Inputs and kernels are evaluated at eight
points per direction, where the convolution takes 64 products instead of 400. Sums over channels are 64 matrix products
there, and their results are transformed back. The backward pass uses the transposed matrices. In single precision,
results are within about 1e-5 of their largest value; those of the direct algorithm are within 1e-6.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import torch
from torch import Tensor, nn

_OUT, _KERNEL, _IN = 4, 5, 8  # sides of a tile's outputs, of the kernel, of a tile's inputs
_POINTS = (0.0, 1.0, -1.0, 2.0, -2.0, 0.5, -0.5)  # the eighth is infinity; all are exact in binary
_CHANNELS = 32
"""Smallest number of channels, in and out: with fewer, transforming tiles costs more than it saves."""

_CHUNK = 64
"""Tiles per chunk, so that a chunk fits in a core's cache."""


class Tiles:
    """One convolution. Intermediate tensors stay allocated for the next batch.

    weight: (out, in, 5, 5), read at each call. bias: (out,), or None. padding: zeros on either side, (rows, columns).
    """

    def __init__(self, weight: Tensor, bias: Tensor | None, padding: tuple[int, int]) -> None:
        self._weight, self._padding = weight, padding
        self._out, self._in = weight.shape[:2]
        self._bias = weight.new_zeros(self._out) if bias is None else bias
        self._to_inputs, self._to_kernel, self._to_outputs = _evaluations(weight.dtype)
        self._kernel = weight.new_empty(_KERNEL * _KERNEL, self._out, self._in)
        self._kernel_there = weight.new_empty(_IN * _IN, self._out, self._in)
        self._kernel_gradient_there = torch.empty_like(self._kernel_there)
        self._inputs_there: list[Tensor] = []
        self._few = self._many = self._inputs = weight.new_empty(0)

    @staticmethod
    def suit(module: nn.Conv2d) -> bool:
        """Return whether tiles can be faster for this module, on images that `fit`."""
        shape = (module.kernel_size, module.stride, module.dilation, module.groups)
        wide = min(module.in_channels, module.out_channels) >= _CHANNELS
        return shape == ((_KERNEL, _KERNEL), (1, 1), (1, 1), 1) and wide and module.weight.device.type == "cpu"

    def fit(self, x: Tensor) -> bool:
        """Return whether x (batch, channels, height, width) is channels last and gives whole tiles."""
        rows, columns = self._tiling(x)
        whole = rows > 0 and columns > 0 and not (rows % _OUT or columns % _OUT)
        return whole and x.is_contiguous(memory_format=torch.channels_last)

    def forward(self, x: Tensor) -> Tensor:
        """Convolve x (batch, in, height, width); return (batch, out, height, width), channels last."""
        batch, tall, wide = len(x), *(side // _OUT for side in self._tiling(x))
        up, left = self._padding
        images = x.movedim(1, -1)
        if up or left:
            images = nn.functional.pad(images, (0, 0, left, left, up, up))
        along_image, along_row, along_column, _ = images.stride()
        strides = (along_row, along_column, along_image, _OUT * along_row, _OUT * along_column, 1)
        self._shape, self._chunks = x.shape, _chunks(batch, tall * wide)
        self._reserve(len(self._chunks), self._chunks[0][1] * tall * wide)
        self._kernel.view(_KERNEL, _KERNEL, self._out, self._in).copy_(self._weight.permute(2, 3, 0, 1))
        _product(self._to_kernel, self._kernel, self._kernel_there)
        y = x.new_empty(batch, tall, _OUT, wide, _OUT, self._out)
        for (first, size), buffer in zip(self._chunks, self._inputs_there, strict=False):
            tiles = size * tall * wide
            chunk = images[first : first + size]
            inputs = _part(self._inputs, _IN, tiles, self._in)
            transformed = _part(buffer, _IN, tiles, self._in)
            products = _part(self._many, _IN, tiles, self._out)
            outputs = _part(self._few, _OUT, tiles, self._out)
            inputs.view(_IN, _IN, size, tall, wide, self._in).copy_(
                chunk.as_strided((_IN, _IN, size, tall, wide, self._in), strides, chunk.storage_offset())
            )
            _product(self._to_inputs, inputs, transformed)
            torch.bmm(transformed, self._kernel_there.transpose(1, 2), out=products)
            _product(self._to_outputs.t(), products, outputs)
            placed = outputs.view(_OUT, _OUT, size, tall, wide, self._out).permute(2, 3, 0, 4, 1, 5)
            torch.add(placed, self._bias, out=y[first : first + size])
        return y.view(batch, tall * _OUT, wide * _OUT, self._out).movedim(-1, 1)

    def backward(self, upper: Tensor, to_input: bool) -> tuple[Tensor | None, Tensor]:
        """Return the gradients at the input (if `to_input` is true) and at the weight, given that at the last output.

        The gradient at the weight is valid until the next call.
        """
        batch, _, height, width = self._shape
        tall, wide = (side // _OUT for side in upper.shape[2:])
        gradients = upper.movedim(1, -1).reshape(batch, tall, _OUT, wide, _OUT, self._out)
        below = upper.new_empty(batch, tall + 1, _OUT, wide + 1, _OUT, self._in) if to_input else None
        for (first, size), buffer in zip(self._chunks, self._inputs_there, strict=False):
            tiles = size * tall * wide
            outputs = _part(self._few, _OUT, tiles, self._out)
            products = _part(self._many, _IN, tiles, self._out)
            transformed = _part(buffer, _IN, tiles, self._in)
            inputs = _part(self._inputs, _IN, tiles, self._in)
            outputs.view(_OUT, _OUT, size, tall, wide, self._out).copy_(
                gradients[first : first + size].permute(2, 4, 0, 1, 3, 5)
            )
            _product(self._to_outputs, outputs, products)
            torch.baddbmm(
                self._kernel_gradient_there,
                products.transpose(1, 2),
                transformed,
                beta=1 if first else 0,
                out=self._kernel_gradient_there,
            )
            if below is not None:
                torch.bmm(products, self._kernel_there, out=inputs)
                _product(self._to_inputs.t(), inputs, transformed)
                _add_tiles(transformed.view(_IN, _IN, size, tall, wide, self._in), below[first : first + size])
        _product(self._to_kernel.t(), self._kernel_gradient_there, self._kernel)
        weight = self._kernel.view(_KERNEL, _KERNEL, self._out, self._in).permute(2, 3, 0, 1)
        if below is None:
            return None, weight
        up, left = self._padding
        images = below.view(batch, (tall + 1) * _OUT, (wide + 1) * _OUT, self._in)
        return images[:, up : up + height, left : left + width].movedim(-1, 1), weight

    def _tiling(self, x: Tensor) -> tuple[int, int]:
        """Return height and width of the output."""
        height, width = (side + 2 * zeros - _KERNEL + 1 for side, zeros in zip(x.shape[2:], self._padding, strict=True))
        return height, width

    def _reserve(self, chunks: int, tiles: int) -> None:
        """Allocate tensors for this number of chunks and of tiles per chunk."""
        need = _IN * _IN * tiles * self._in
        if len(self._inputs) < need:
            self._inputs = self._weight.new_empty(need)
            self._few = self._weight.new_empty(_OUT * _OUT * tiles * self._out)
            self._many = self._weight.new_empty(_IN * _IN * tiles * self._out)
            self._inputs_there = []
        while len(self._inputs_there) < chunks:
            self._inputs_there.append(torch.empty_like(self._inputs))


@cache
def _evaluations(dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    """Return matrices that evaluate inputs (64, 64), kernels (64, 25) and output gradients (64, 16) at 64 points.

    Multiplying polynomials of 4 and 5 coefficients by their values at 8 points is the Toom-Cook algorithm; filtering is
    its transpose.
    """

    def at_points(coefficients: int) -> np.ndarray:
        infinity = np.eye(1, coefficients, coefficients - 1)
        return np.vstack([np.vander(_POINTS, coefficients, increasing=True), infinity])

    both = (np.linalg.inv(at_points(_IN)).T, at_points(_KERNEL), at_points(_OUT))
    inputs, kernel, outputs = (torch.tensor(np.kron(one, one), dtype=dtype) for one in both)
    return inputs, kernel, outputs


def _chunks(images: int, tiles_an_image: int) -> list[tuple[int, int]]:
    """Return (first image, images) of each chunk; sizes are nearly equal, and the first is the largest."""
    most = max(1, _CHUNK // tiles_an_image)
    size = -(-images // -(-images // most))
    return [(first, min(size, images - first)) for first in range(0, images, size)]


def _part(room: Tensor, side: int, tiles: int, channels: int) -> Tensor:
    """Return the start of `room` as (side * side, tiles, channels)."""
    return room[: side * side * tiles * channels].view(side * side, tiles, channels)


def _product(matrix: Tensor, x: Tensor, out: Tensor) -> None:
    """Multiply `matrix` with x over the first dimension of x, whatever the other dimensions are."""
    torch.mm(matrix, x.view(len(x), -1), out=out.view(len(out), -1))


def _add_tiles(tiles: Tensor, images: Tensor) -> None:
    """Set images to the sum of 8 x 8 tiles placed every 4 pixels.

    tiles: (8, 8, images, tall, wide, channels). images: (images, tall + 1, 4, wide + 1, 4, channels).
    """
    size, tall, wide, channels = tiles.shape[2:]
    quarters = tiles.view(2, _OUT, 2, _OUT, size, tall, wide, channels).permute(0, 2, 4, 5, 1, 6, 3, 7)
    images[:, :tall, :, :wide] = quarters[0, 0]
    images[:, tall] = 0
    images[:, :, :, wide] = 0
    images[:, 1:, :, :wide] += quarters[1, 0]
    images[:, :tall, :, 1:] += quarters[0, 1]
    images[:, 1:, :, 1:] += quarters[1, 1]
