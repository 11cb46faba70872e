"""Examples in memory, laid out so that a batch is one gather of rows."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedtempo.errors import ConfigError
from fedtempo.learning.forward import Inputs, map_inputs
from fedtempo.parts.inputs import is_several, separate

Array = np.ndarray[Any, np.dtype[Any]]


class Examples:
    """Inputs `x` (n, ...) and labels `y` (n, ...) of one data set, shared by all models that train or test on it.

    Examples with several inputs are a structured array (`fedtempo.parts.inputs`); their batches are dicts or tuples.
    Arrays are used without a copy if dtype and memory order allow, such as images that are channels last already.
    channels_last: the value of `FlatModel.channels_last`. dtype: of floating-point inputs and labels; integers (tokens,
    classes) may be stored in any width and are returned as int64, booleans (several labels) as they are. device: where
    they are kept.
    """

    def __init__(
        self,
        x: Array,
        y: Array,
        channels_last: bool,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> None:
        if len(x) != len(y):
            raise ConfigError(f"examples: {len(x)} inputs but {len(y)} labels; give one label per input")
        self._several: Inputs | None = None
        if is_several(x):
            parts = separate(x)
            several = parts if isinstance(parts, dict) else tuple(parts)
            self._several = map_inputs(lambda part: _tensor(part, dtype).to(device), several)  # type: ignore[arg-type]
        else:
            inputs = _tensor(x, dtype)
            self._channels_last = channels_last
            if channels_last:
                inputs = inputs.permute(0, 2, 3, 1)
            self._shape = inputs.shape[1:]
            self._rows = inputs.contiguous().view(len(x), -1).to(device)
        labels = torch.from_numpy(_writable(y))
        if labels.dtype != torch.bool:
            labels = labels.to(dtype if labels.is_floating_point() else torch.int64)
        self.labels = labels.to(device)

    def __len__(self) -> int:
        return len(self.labels)

    @cached_property
    def variance(self) -> float:
        """Population variance of numeric labels, averaged over their columns."""
        return float(self.labels.double().var(dim=0, correction=0).mean())

    def gather(self, rows: Tensor) -> tuple[Inputs, Tensor]:
        """Return inputs and labels of these rows (int64)."""
        if self._several is not None:
            x = map_inputs(lambda part: part.index_select(0, rows), self._several)
            return x, self.labels.index_select(0, rows)
        return self._shaped(self._rows.index_select(0, rows)), self.labels.index_select(0, rows)

    def span(self, start: int, stop: int) -> tuple[Inputs, Tensor]:
        """Return inputs and labels of rows start to stop (excluded), without a copy."""
        if self._several is not None:
            return map_inputs(lambda part: part[start:stop], self._several), self.labels[start:stop]
        return self._shaped(self._rows[start:stop]), self.labels[start:stop]

    def _shaped(self, rows: Tensor) -> Tensor:
        x = rows.view(len(rows), *self._shape)
        if self._channels_last:
            x = x.permute(0, 3, 1, 2)
        return x if x.is_floating_point() else x.to(torch.int64)


def _tensor(array: Array, dtype: torch.dtype) -> Tensor:
    """Return an array as a tensor, without a copy if possible; floating-point numbers become `dtype`."""
    if any(stride % array.itemsize for stride in array.strides) or not array.flags.aligned:
        array = np.ascontiguousarray(array)  # a field between fields of other types
    tensor = torch.from_numpy(_writable(array))
    return tensor.to(dtype) if tensor.is_floating_point() else tensor


def _writable(array: Array) -> Array:
    """Return the array, or a copy if it is read-only, since PyTorch has no read-only tensors."""
    return array if array.flags.writeable else array.copy()
