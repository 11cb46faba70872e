"""Modules whose state is one flat vector."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from fedtempo.errors import ConfigError
from fedtempo.learning.gradients import make_gradients
from fedtempo.learning.naming import Naming, Piece
from fedtempo.learning.sections import Sections
from fedtempo.parts.inputs import InputShape, is_one_input

Vector = np.ndarray[Any, np.dtype[Any]]


class FlatModel:
    """Parameters and persistent floating-point buffers of `module` as views of one contiguous vector.

    Trainable parameters come first, then buffers, then frozen parameters (those with `requires_grad = False` at this
    time): `sections`. Receiving a model is one copy into `vector`, sending it one copy out; updates in place change
    both. Weights of two-dimensional convolutions are channels last if the module accepts channels-last images, which is
    faster on CPUs. Tied parameters occur once. Integer buffers (batch normalisation's counters) are not sent: `load`
    resets them to their first values, so that a visit does not depend on earlier ones.

    module: any module; it is changed in place and belongs to this object from then on. input_shape: shape of one
    example. dtype: of parameters and floating-point buffers. device: where they are; the layout of the vector is the
    same on all devices. Raises ConfigError if no parameter can be trained.
    """

    def __init__(
        self,
        module: nn.Module,
        input_shape: InputShape,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> None:
        self.module = module.to(dtype)
        self.channels_last = _takes_channels_last(self.module, input_shape, dtype)
        self.module.to(device)
        parameters = list(self.module.parameters())
        trainable = [parameter for parameter in parameters if parameter.requires_grad]
        frozen = [parameter for parameter in parameters if not parameter.requires_grad]
        if not trainable:
            raise ConfigError(f"model.network: none of its {len(frozen)} parameters has requires_grad = True")
        buffers = _persistent_buffers(self.module)
        floating = [buffer for buffer in buffers if buffer.is_floating_point()]
        self._constants = [(buffer, buffer.clone()) for buffer in buffers if not buffer.is_floating_point()]
        self.n_parameters = _length(parameters)
        self.vector = torch.empty(_length(parameters + floating), dtype=dtype, device=device)
        convolutions = {id(part.weight) for part in self.module.modules() if isinstance(part, nn.Conv2d)}
        variances = {id(part.running_var) for part in self.module.modules() if hasattr(part, "running_var")}
        variance_ranges = []
        places: dict[int, tuple[int, tuple[int, ...], bool]] = {}
        start = 0
        for tensor in [*trainable, *floating, *frozen]:
            if id(tensor) in variances:
                variance_ranges.append((start, start + tensor.numel()))
            piece = self.vector[start : start + tensor.numel()]
            places[id(tensor)] = start, tuple(tensor.shape), self.channels_last and id(tensor) in convolutions
            start += tensor.numel()
            if places[id(tensor)][-1]:
                out, into, height, width = tensor.shape
                view = piece.view(out, height, width, into).permute(0, 3, 1, 2)
            else:
                view = piece.view(tensor.shape)
            view.copy_(tensor.detach())
            tensor.data = view
        self.sections = Sections(_length(trainable), _length(floating), _length(frozen), tuple(variance_ranges))
        self.naming = _naming(self.module, places, self.vector.numel())
        self.gradients = make_gradients(self.module, input_shape, self.vector)

    @property
    def size(self) -> int:
        """Length of the vector: parameters and floating-point buffers."""
        return self.vector.numel()

    @property
    def layout(self) -> str:
        """Hash of the vector's layout: equal for two models if and only if a vector of one is valid for the other."""
        parameters, buffers = list(self.module.named_parameters()), list(self.module.named_buffers())
        shapes = [[name, list(tensor.shape)] for tensors in (parameters, buffers) for name, tensor in tensors]
        described = [self.channels_last, str(self.vector.dtype), self.size, shapes]
        if frozen := [name for name, parameter in parameters if not parameter.requires_grad]:
            described.append(frozen)
        return hashlib.sha256(json.dumps(described).encode()).hexdigest()

    def load(self, vector: Tensor | Vector) -> None:
        """Copy the state from `vector` (size,). Arrays can be loaded into models on the CPU only."""
        if isinstance(vector, Tensor):
            self.vector.copy_(vector)
        else:
            np.copyto(self.vector.numpy(), vector)
        for buffer, first in self._constants:
            buffer.copy_(first)

    def restore_frozen(self, received: Tensor | Vector) -> None:
        """Reset frozen parameters to the values in `received` (size,); a module may have changed them itself."""
        start = self.sections.moving
        if start < self.size:
            frozen = received[start:]
            self.vector[start:].copy_(frozen if isinstance(frozen, Tensor) else torch.from_numpy(frozen.copy()))

    def state_dict(self) -> dict[str, Tensor]:
        """Return the state by name, as copies with ordinary strides, for files and `nn.Module.load_state_dict`."""
        return {name: value.detach().clone().contiguous() for name, value in self.module.state_dict().items()}


def _naming(module: nn.Module, places: Mapping[int, tuple[int, tuple[int, ...], bool]], size: int) -> Naming:
    """Return the names of a vector's parts. places: start, shape and order of each tensor in it, by the tensor's id."""
    pieces, constants = {}, {}
    state = module.state_dict(keep_vars=True)
    for name, value in state.items():
        if id(value) in places:
            pieces[name] = Piece(name, *places[id(value)])
        elif isinstance(value, Tensor):
            constants[name] = value.detach().cpu().numpy().copy()
    return Naming(size, [name for name in state if name in pieces or name in constants], pieces, constants)


def _length(tensors: Sequence[Tensor]) -> int:
    return sum(tensor.numel() for tensor in tensors)


def _persistent_buffers(module: nn.Module) -> list[Tensor]:
    """Return the buffers that are part of the module's state, each once, in the order of the module tree."""
    buffers: dict[int, Tensor] = {}
    for part in module.modules():
        for name, buffer in part.named_buffers(recurse=False):
            if name not in part._non_persistent_buffers_set:
                buffers.setdefault(id(buffer), buffer)
    return list(buffers.values())


def _takes_channels_last(module: nn.Module, input_shape: InputShape, dtype: torch.dtype) -> bool:
    """Return whether the module has two-dimensional convolutions and a forward pass accepts channels-last images.

    For example, modules that use `Tensor.view` on feature maps work with ordinary strides only.
    """
    if len(input_shape) != 3 or not is_one_input(input_shape):
        return False
    if not any(isinstance(part, nn.Conv2d) for part in module.modules()):
        return False
    images = torch.zeros((2, *input_shape), dtype=dtype).to(memory_format=torch.channels_last)
    modes = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        with torch.no_grad():
            module(images)
    except RuntimeError:
        return False
    finally:
        for part, mode in modes:
            part.training = mode
    return True
