"""Layers that are differentiated by hand, and the modules that consist of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from fedtempo.learning.tiles import Tiles

_aten: Any = torch.ops.aten


class Layer(ABC):
    """A layer that remembers from `forward` what `backward` needs. Used without autograd.

    parameters: those that it trains, in the module's order.
    """

    parameters: tuple[nn.Parameter, ...] = ()

    @abstractmethod
    def forward(self, x: Tensor) -> Tensor:
        """Return the output for a batch. `x` may be overwritten."""

    @abstractmethod
    def backward(
        self, upper: Tensor, to_input: bool, targets: Sequence[Tensor], keep: float, scale: float
    ) -> Tensor | None:
        """Return the gradient at the input if `to_input` is true, given that at the output, which may be overwritten.

        Each target (one per parameter) becomes `keep` times itself plus `scale` times that parameter's gradient.
        """


class _Linear(Layer):
    def __init__(self, module: nn.Linear) -> None:
        self.parameters = tuple(module.parameters())
        self._weight = module.weight.detach()
        self._bias = None if module.bias is None else module.bias.detach()

    def forward(self, x: Tensor) -> Tensor:
        self._x = x
        return nn.functional.linear(x, self._weight, self._bias)

    def backward(
        self, upper: Tensor, to_input: bool, targets: Sequence[Tensor], keep: float, scale: float
    ) -> Tensor | None:
        below = upper.mm(self._weight) if to_input else None  # before the weights change
        targets[0].addmm_(upper.t(), self._x, beta=keep, alpha=scale)
        if self._bias is not None:
            _add(targets[1], upper.sum(0), keep, scale)
        return below


class _Convolution(Layer):
    def __init__(self, module: nn.Conv2d, padding: tuple[int, int]) -> None:
        self.parameters = tuple(module.parameters())
        self._weight = module.weight.detach()
        self._bias = None if module.bias is None else module.bias.detach()
        self._settings = (module.stride, padding, module.dilation, False, (0, 0), module.groups)
        self._tiles = Tiles(self._weight, self._bias, padding) if Tiles.suit(module) else None

    def forward(self, x: Tensor) -> Tensor:
        self._in_tiles = self._tiles is not None and self._tiles.fit(x)
        if self._tiles is not None and self._in_tiles:
            return self._tiles.forward(x)
        self._x = x
        output: Tensor = _aten.convolution(x, self._weight, self._bias, *self._settings)
        return output

    def backward(
        self, upper: Tensor, to_input: bool, targets: Sequence[Tensor], keep: float, scale: float
    ) -> Tensor | None:
        below: Tensor | None
        if self._tiles is not None and self._in_tiles:
            below, gradient = self._tiles.backward(upper, to_input)
        else:
            below, gradient, _ = _aten.convolution_backward(
                upper, self._x, self._weight, None, *self._settings, (to_input, True, False)
            )
        _add(targets[0], gradient, keep, scale)
        if self._bias is not None:  # summing here takes half the time, since channels lie last
            _add(targets[1], upper.movedim(1, -1).flatten(0, -2).sum(0), keep, scale)
        return below


class _Relu(Layer):
    def forward(self, x: Tensor) -> Tensor:
        self._y = x.relu_()
        return self._y

    def backward(self, upper: Tensor, *_: Any) -> Tensor:
        below: Tensor = _aten.threshold_backward.grad_input(upper, self._y, 0, grad_input=upper)
        return below


class _MaxPool(Layer):
    def __init__(self, module: nn.MaxPool2d) -> None:
        settings = (module.kernel_size, module.stride, module.padding, module.dilation)
        self._settings = [_pair(value) for value in settings] + [module.ceil_mode]

    def forward(self, x: Tensor) -> Tensor:
        self._x = x
        output: Tensor
        output, self._places = _aten.max_pool2d_with_indices(x, *self._settings)
        return output

    def backward(self, upper: Tensor, *_: Any) -> Tensor:
        below: Tensor = _aten.max_pool2d_with_indices_backward(upper, self._x, *self._settings, self._places)
        return below


class _Flatten(Layer):
    def forward(self, x: Tensor) -> Tensor:
        self._x = x
        return x.flatten(1)

    def backward(self, upper: Tensor, *_: Any) -> Tensor:
        below = upper.view(self._x.shape)
        last = self._x.dim() == 4 and self._x.is_contiguous(memory_format=torch.channels_last)
        return below.contiguous(memory_format=torch.channels_last) if last else below


def layers_of(module: nn.Module, input_shape: Sequence[int]) -> list[Layer] | None:
    """Return the layers of which `module` is a stack; None for any other module.

    A stack consists of `nn.Sequential` (nested ones too) and exactly Linear, Conv2d padded with zeros, ReLU, MaxPool2d
    and Flatten, without hooks; all its parameters are trained and none is used twice. input_shape: of one example.
    """
    layers: list[Layer] = []
    dimensions = 1 + len(input_shape)
    for part in _parts(module):
        layer = None if _is_watched(part) else _layer(part, dimensions)
        if layer is None:
            return None
        if isinstance(layer, _Flatten):
            dimensions = 2
        layers.append(layer)
    parameters = [parameter for layer in layers for parameter in layer.parameters]
    once = len({id(parameter) for parameter in parameters}) == len(parameters)
    if not parameters or not once or not all(parameter.requires_grad for parameter in parameters):
        return None
    return layers


def _parts(module: nn.Module) -> Iterator[nn.Module]:
    if type(module) is nn.Sequential and not _is_watched(module):
        for part in module:
            yield from _parts(part)
    else:
        yield module


def _is_watched(module: nn.Module) -> bool:
    return bool(
        module._forward_hooks or module._forward_pre_hooks or module._backward_hooks or module._backward_pre_hooks
    )


def _layer(module: nn.Module, dimensions: int) -> Layer | None:
    """Return the layer for inputs with this number of dimensions, including the batch; None if there is none."""
    match module:
        case nn.Linear() if type(module) is nn.Linear and dimensions == 2:
            return _Linear(module)
        case nn.Conv2d() if type(module) is nn.Conv2d and dimensions == 4 and module.padding_mode == "zeros":
            padding = _padding(module)
            return None if padding is None else _Convolution(module, padding)
        case nn.ReLU() if type(module) is nn.ReLU:
            return _Relu()
        case nn.MaxPool2d() if type(module) is nn.MaxPool2d and dimensions == 4 and not module.return_indices:
            return _MaxPool(module)
        case nn.Flatten() if type(module) is nn.Flatten and (module.start_dim, module.end_dim) == (1, -1):
            return _Flatten()
    return None


def _padding(module: nn.Conv2d) -> tuple[int, int] | None:
    """Return the zeros on either side, (rows, columns); None if the two sides differ."""
    if module.padding == "valid":
        return (0, 0)
    if module.padding == "same":
        rows, columns = (gap * (side - 1) for gap, side in zip(module.dilation, module.kernel_size, strict=True))
        return None if rows % 2 or columns % 2 else (rows // 2, columns // 2)
    rows, columns = (int(side) for side in module.padding)
    return (rows, columns)


def _pair(value: int | tuple[int, ...]) -> list[int]:
    return [value, value] if isinstance(value, int) else list(value)


def _add(target: Tensor, gradient: Tensor, keep: float, scale: float) -> None:
    if keep:
        target.add_(gradient, alpha=scale)
    else:
        torch.mul(gradient, scale, out=target)
