"""Modules whose state is one flat vector."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from fedtempo.errors import ConfigError
from fedtempo.learning.exchange import EVERYTHING, Exchange
from fedtempo.learning.gradients import Autograd, make_gradients
from fedtempo.learning.naming import Naming, Piece
from fedtempo.learning.sections import Sections
from fedtempo.parts.inputs import InputShape, is_one_input

Vector = np.ndarray[Any, np.dtype[Any]]


class FlatModel:
    """Parameters and persistent floating-point buffers of `module` as views of one contiguous vector.

    First come trainable parameters that travel, then buffers that travel, then what each client keeps for itself, then
    what never changes: `sections`. Receiving a model is one copy into the start of `vector`, sending it one copy out;
    updates in place change both. Weights of two-dimensional convolutions are channels last if the module accepts
    channels-last images, which is faster on CPUs. Tied parameters occur once. Integer and complex buffers (counters of
    batch normalisation, rotations) are not sent: `load` resets them to their first values, so that a visit does not
    depend on earlier ones.

    module: any module; it is changed in place and belongs to this object from then on. input_shape: shape of one
    example. dtype: of parameters and floating-point buffers; others keep theirs. device: where they are; the layout of
    the vector is the same on all devices. exchange: what travels. Raises ConfigError if no parameter can be trained, if
    one is complex, or if `exchange` does not fit the module.
    """

    local: Tensor | None = None
    """The local values of the client that trains next, (sections.local,); None: the first values."""

    def __init__(
        self,
        module: nn.Module,
        input_shape: InputShape,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
        exchange: Exchange = EVERYTHING,
    ) -> None:
        self.module = module
        _convert(module, dtype)
        self.channels_last = _takes_channels_last(self.module, input_shape, dtype)
        self.module.to(device)
        parameters = list(self.module.parameters())
        trainable = [parameter for parameter in parameters if parameter.requires_grad]
        frozen: list[Tensor] = [parameter for parameter in parameters if not parameter.requires_grad]
        if not trainable:
            raise ConfigError(f"model.network: none of its {len(frozen)} parameters has requires_grad = True")
        buffers = _persistent_buffers(self.module)
        floating = [buffer for buffer in buffers if buffer.is_floating_point()]
        self._constants = [(buffer, buffer.clone()) for buffer in buffers if not buffer.is_floating_point()]
        self.n_parameters = _length(parameters)
        names = _names(self.module)
        exchange.check(
            [names[id(part)] for part in trainable],
            [names[id(part)] for part in floating],
            [name for part in frozen for name in names[id(part)]],
        )
        if exchange.buffers == "frozen":
            floating, frozen = [], [*floating, *frozen]
        travelling = [part for part in trainable if exchange.travels(names[id(part)])]
        statistics = [part for part in floating if exchange.buffers == "average" and exchange.travels(names[id(part)])]
        sent = {id(part) for part in (*travelling, *statistics)}
        local = [part for part in (*trainable, *floating) if id(part) not in sent]
        self.vector = torch.empty(_length([*travelling, *statistics, *local, *frozen]), dtype=dtype, device=device)
        convolutions = {id(part.weight) for part in self.module.modules() if isinstance(part, nn.Conv2d)}
        variances = {id(part.running_var) for part in self.module.modules() if hasattr(part, "running_var")}
        variance_ranges = []
        places: dict[int, tuple[int, tuple[int, ...], bool]] = {}  # start, shape and order of each tensor by its id
        start = 0
        for tensor in [*travelling, *statistics, *local, *frozen]:
            if id(tensor) in variances and id(tensor) in sent:
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
        self.sections = Sections(
            _length(travelling), _length(statistics), _length(frozen), tuple(variance_ranges), _length(local)
        )
        self._places = places
        self._first = self.vector[self.sections.moving :].clone()
        """The first values of what does not travel."""
        self._local_names = sorted(names[id(part)][0] for part in local)
        self._frozen_names = sorted(name for part in frozen for name in names[id(part)][:1])
        self._fixed_norms = _norms_of(self.module, frozen)
        by_hand = not (self.sections.statistics and self.sections.local)  # the trainable parameters are contiguous
        self.gradients = make_gradients(self.module, input_shape, self.vector) if by_hand else Autograd(self.module)

    @cached_property
    def naming(self) -> Naming:
        """The names of the vector's parts."""
        first = {id(buffer): value for buffer, value in self._constants}
        pieces, constants = {}, {}
        state = self.module.state_dict(keep_vars=True)
        for name, value in state.items():
            if id(value) in self._places:
                pieces[name] = Piece(name, *self._places[id(value)])
            elif isinstance(value, Tensor):
                constants[name] = first.get(id(value), value).detach().cpu().numpy().copy()
        order = [name for name in state if name in pieces or name in constants]
        return Naming(self.size, order, pieces, constants)

    @property
    def size(self) -> int:
        """Length of the vector: parameters and floating-point buffers."""
        return self.vector.numel()

    @property
    def size_bytes(self) -> int:
        """Size of what travels, as single-precision numbers."""
        return 4 * self.sections.moving

    @property
    def base_bytes(self) -> int:
        """Size of what does not travel."""
        return 4 * self.sections.fixed

    @property
    def vector_bytes(self) -> int:
        """Size of a vector of the trainable parameters that travel."""
        return 4 * self.sections.trainable

    @property
    def layout(self) -> str:
        """Hash of the vector's layout: equal for two models if and only if a vector of one is valid for the other."""
        parameters, buffers = list(self.module.named_parameters()), list(self.module.named_buffers())
        shapes = [[name, list(tensor.shape)] for tensors in (parameters, buffers) for name, tensor in tensors]
        described = [self.channels_last, str(self.vector.dtype), self.size, shapes]
        if self.sections.fixed:
            described += [self._local_names, self._frozen_names]
        return hashlib.sha256(json.dumps(described).encode()).hexdigest()

    def load(self, vector: Tensor | Vector) -> None:
        """Copy the state from `vector`. Arrays can be loaded into models on the CPU only.

        vector: what travels, (sections.moving,). The rest gets its first values, except that local entries get those of
        `local` if it is set. A vector (size,) loads everything, and its last entries are the new first values.
        """
        self._copy(self.vector[: len(vector)], vector)
        if self.sections.fixed:
            moving = self.sections.moving
            if len(vector) == self.size:
                self._first.copy_(self.vector[moving:])
            else:
                self.vector[moving:].copy_(self._first)
            if self.local is not None:
                self.vector[moving : moving + self.sections.local].copy_(self.local)
        for buffer, first in self._constants:
            buffer.copy_(first)

    def _copy(self, part: Tensor, values: Tensor | Vector) -> None:
        if isinstance(values, Tensor):
            part.copy_(values)
        else:
            np.copyto(part.numpy(), values)

    def train(self) -> None:
        """Put the module into training mode, except for batch normalisation with frozen statistics."""
        self.module.train()
        for norm in self._fixed_norms:
            norm.eval()

    def restore_frozen(self) -> None:
        """Reset what never changes to its first values; a module may have changed it itself."""
        if self.sections.frozen:
            self.vector[-self.sections.frozen :].copy_(self._first[self.sections.local :])

    @property
    def sent(self) -> Tensor:
        """View of what travels, (sections.moving,)."""
        return self.vector[: self.sections.moving]

    @property
    def kept(self) -> Tensor:
        """View of the local entries, (sections.local,)."""
        moving = self.sections.moving
        return self.vector[moving : moving + self.sections.local]

    def state_dict(self) -> dict[str, Tensor]:
        """Return the state by name, as copies with ordinary strides, for files and `nn.Module.load_state_dict`."""
        return {name: value.detach().clone().contiguous() for name, value in self.module.state_dict().items()}


def _convert(module: nn.Module, dtype: torch.dtype) -> None:
    """Convert floating-point parameters and buffers; complex buffers, which `Module.to` would cut, stay as they are."""
    for name, parameter in module.named_parameters():
        if parameter.is_complex():
            raise ConfigError(
                f"model.network: parameter {name} is {parameter.dtype}; parameters must be real, such as two for the "
                "real and the imaginary part"
            )
    for tensor in (*module.parameters(), *module.buffers()):
        if tensor.is_floating_point():
            tensor.data = tensor.data.to(dtype)


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


def _names(module: nn.Module) -> dict[int, list[str]]:
    """Return the names of each parameter and buffer by its id; tied ones have several."""
    names: dict[int, list[str]] = {}
    for named in (module.named_parameters(remove_duplicate=False), module.named_buffers(remove_duplicate=False)):
        for name, tensor in named:
            names.setdefault(id(tensor), []).append(name)
    return names


def _norms_of(module: nn.Module, tensors: Sequence[Tensor]) -> list[nn.Module]:
    """Return the parts of the module whose running means are among these tensors."""
    given = {id(tensor) for tensor in tensors}
    return [part for part in module.modules() if id(getattr(part, "running_mean", None)) in given]


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
