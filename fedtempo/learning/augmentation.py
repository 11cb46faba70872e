"""A user's function that changes each training batch (`data.augment`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedtempo.errors import ConfigError
from fedtempo.learning.forward import Inputs
from fedtempo.parts.plugins import imported
from fedtempo.parts.user_code import positional_arguments, user_code


class Augmentation:
    """Changes batches with one visit's random generator after the other.

    name: module:function, called as function(inputs, generator), which returns new inputs, or as function(inputs,
    labels, generator), which returns both. Inputs are as the network gets them: a tensor, dict or tuple. Tensors are on
    the model's device; the generator is a torch.Generator on the CPU, so that it draws the same numbers everywhere.
    """

    def __init__(self, name: str) -> None:
        """Import the function. Raises ConfigError if there is none, or if it takes other arguments."""
        self._function: Callable[..., Any] = imported(name, "data.augment")
        self._where = f"data.augment = {name!r}"
        takes = positional_arguments(self._function)
        if takes not in (2, 3):
            raise ConfigError(
                f"{self._where}: must be a function of (inputs, generator) or (inputs, labels, generator)"
            )
        self._changes_labels = takes == 3
        self._generator = torch.Generator()

    def begin(self, seed: int) -> None:
        """Begin a visit; seed: of the visit, from which the generator's own is derived."""
        self._generator.manual_seed(int(np.random.SeedSequence([seed, 1]).generate_state(1, np.uint64)[0] >> 1))

    def __call__(self, x: Inputs, y: Tensor) -> tuple[Inputs, Tensor]:
        """Return the changed batch. Raises ConfigError if the function returns something else."""
        with user_code(self._where, self._function):
            if self._changes_labels:
                result = self._function(x, y, self._generator)
            else:
                result = self._function(x, self._generator), y
        if not (isinstance(result, tuple) and len(result) == 2):
            raise ConfigError(f"{self._where} returned {type(result).__name__}; it must return (inputs, labels)")
        inputs, labels = result
        self._check_inputs(inputs, x)
        self._check("labels", labels, y)
        if labels.shape != y.shape:
            raise ConfigError(
                f"{self._where} returned labels of shape {tuple(labels.shape)}; they must keep theirs, {tuple(y.shape)}"
            )
        return inputs, labels

    def _check_inputs(self, inputs: Any, before: Inputs) -> None:
        """Raise ConfigError unless the inputs are one tensor, or as many, as before."""
        if isinstance(before, Tensor):
            self._check("inputs", inputs, before)
            return
        if type(inputs) is not type(before) or len(inputs) != len(before):
            raise ConfigError(
                f"{self._where} returned inputs that are {type(inputs).__name__}; must be a {type(before).__name__} of "
                f"{len(before)} tensors"
            )
        for key in before if isinstance(before, dict) else range(len(before)):
            if isinstance(inputs, dict) and key not in inputs:
                raise ConfigError(f"{self._where} returned inputs without {key!r}")
            self._check(f"inputs[{key!r}]", inputs[key], before[key])  # type: ignore[index]

    def _check(self, what: str, value: Any, before: Tensor) -> None:
        if not isinstance(value, Tensor):
            raise ConfigError(f"{self._where} returned {what} that are {type(value).__name__}; must be a tensor")
        if len(value) != len(before) or value.dtype != before.dtype:
            raise ConfigError(
                f"{self._where} returned {what} of shape {tuple(value.shape)}, {value.dtype}; they must keep their "
                f"number, {len(before)}, and their type, {before.dtype}"
            )
