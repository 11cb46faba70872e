"""Gradients of a model's loss on a batch, by autograd or, for plain stacks of layers, by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor, nn

from fedtempo.errors import ConfigError
from fedtempo.learning.forward import Inputs, outputs_of
from fedtempo.learning.losses import Loss
from fedtempo.learning.optimizers import Tensors
from fedtempo.learning.stack import Layer, layers_of
from fedtempo.parts.inputs import InputShape, is_one_input

if TYPE_CHECKING:
    from fedtempo.learning.state import FlatModel
    from fedtempo.learning.training import Training


class Gradients(Protocol):
    """Differentiates the loss of one model."""

    @property
    def parameters(self) -> Tensors:
        """Trainable parameters, in the order of the gradients; changing them in place changes the model."""
        ...

    def apart(self, tensors: Tensors) -> Tensors:
        """Return tensors laid out as `parameters`, or these, as views: one per parameter of the module."""
        ...

    def of(self, loss_of: Loss, x: Inputs, y: Tensor) -> tuple[Tensor, Tensor, Tensors]:
        """Return a batch's loss, logits and gradients, valid until the next call. `x` may be overwritten."""
        ...

    def descend(self, loss_of: Loss, x: Inputs, y: Tensor, lr: float) -> tuple[Tensor, Tensor]:
        """Take one step of plain SGD; return the loss and the logits before it. `x` may be overwritten."""
        ...


def make_gradients(module: nn.Module, input_shape: InputShape, vector: Tensor) -> Gradients:
    """Return the gradients of a module whose parameters are views of `vector`, from its start.

    input_shape: of one example.
    """
    sides: Any = input_shape
    layers = layers_of(module, sides) if is_one_input(input_shape) else None
    return Autograd(module) if layers is None else ByHand(layers, vector)


def gradients_for(model: FlatModel, training: Training) -> Gradients:
    """Return the model's gradients in the precision of a training."""
    return model.gradients if training.precision == "fp32" else MixedPrecision(model.module)


class Autograd:
    """Gradients of any module."""

    def __init__(self, module: nn.Module) -> None:
        self._module = module
        self.parameters: Tensors = tuple(parameter for parameter in module.parameters() if parameter.requires_grad)

    def apart(self, tensors: Tensors) -> Tensors:
        return tensors

    def of(self, loss_of: Loss, x: Inputs, y: Tensor) -> tuple[Tensor, Tensor, Tensors]:
        logits = self._outputs(x)
        loss = loss_of(logits, y)
        return loss, logits.detach(), torch.autograd.grad(loss, self.parameters, materialize_grads=True)

    def descend(self, loss_of: Loss, x: Inputs, y: Tensor, lr: float) -> tuple[Tensor, Tensor]:
        loss, logits, gradients = self.of(loss_of, x, y)
        with torch.no_grad():
            torch._foreach_add_(self.parameters, gradients, alpha=-lr)
        return loss, logits

    def _outputs(self, x: Inputs) -> Tensor:
        return outputs_of(self._module, x)


class MixedPrecision(Autograd):
    """Gradients of any module whose forward pass runs under PyTorch's autocast to bfloat16.

    Parameters, losses and gradients stay in the model's precision. Raises ConfigError if PyTorch lacks an operation.
    """

    def of(self, loss_of: Loss, x: Inputs, y: Tensor) -> tuple[Tensor, Tensor, Tensors]:
        try:
            return super().of(loss_of, x, y)
        except RuntimeError as error:
            if "bfloat16" not in str(error).lower():
                raise
            reason = str(error).strip().splitlines()[0]
            raise ConfigError(f"training.precision = 'bf16': not possible for this network: {reason}") from error

    def _outputs(self, x: Inputs) -> Tensor:
        parameter = self.parameters[0]
        # Without a cache of converted weights, which a recording could not refresh.
        with torch.autocast(parameter.device.type, torch.bfloat16, cache_enabled=False):
            outputs = super()._outputs(x)
        return outputs.to(parameter.dtype)


class ByHand:
    """Gradients of a stack of layers that differentiate themselves, without a graph and without repeated allocations.

    All parameters are one vector, so that an optimiser's step is a few operations whatever the number of layers. A step
    of plain SGD stores no gradients: each layer's product is added to its weights directly.
    """

    def __init__(self, layers: Sequence[Layer], vector: Tensor) -> None:
        self._layers = layers
        self._first = next(i for i, layer in enumerate(layers) if layer.parameters)
        self._weights = [[parameter.detach() for parameter in layer.parameters] for layer in layers]
        flat = vector[: sum(part.numel() for parts in self._weights for part in parts)]
        self._gradient = torch.zeros_like(flat)
        start = flat.storage_offset()
        self._gradient_views = [
            [self._gradient.as_strided(part.shape, part.stride(), part.storage_offset() - start) for part in parts]
            for parts in self._weights
        ]
        self.parameters: Tensors = (flat,)

    def apart(self, tensors: Tensors) -> Tensors:
        (flat,) = tensors
        start = flat.storage_offset() - self._gradient.storage_offset()
        views = [part for parts in self._gradient_views for part in parts]
        return tuple(flat.as_strided(part.shape, part.stride(), start + part.storage_offset()) for part in views)

    @torch.no_grad()
    def of(self, loss_of: Loss, x: Inputs, y: Tensor) -> tuple[Tensor, Tensor, Tensors]:
        loss, logits = self._run(loss_of, x, y, self._gradient_views, 0.0, 1.0)
        return loss, logits, (self._gradient,)

    @torch.no_grad()
    def descend(self, loss_of: Loss, x: Inputs, y: Tensor, lr: float) -> tuple[Tensor, Tensor]:
        return self._run(loss_of, x, y, self._weights, 1.0, -lr)

    def _run(
        self, loss_of: Loss, x: Inputs, y: Tensor, targets: list[list[Tensor]], keep: float, scale: float
    ) -> tuple[Tensor, Tensor]:
        """Run forwards and backwards; every target becomes `keep` times itself plus `scale` times its gradient."""
        assert isinstance(x, Tensor)
        for layer in self._layers:
            x = layer.forward(x)
        loss, upper = loss_of.differentiated(x, y)
        for i in range(len(self._layers) - 1, self._first - 1, -1):
            below = self._layers[i].backward(upper, i > self._first, targets[i], keep, scale)
            upper = upper if below is None else below
        return loss, x
