"""Call a module with a batch of one or several inputs, and take the logits from what it returns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from torch import Tensor, nn

from fedtempo.errors import ConfigError

Inputs: TypeAlias = Tensor | dict[str, Tensor] | tuple[Tensor, ...]
"""A batch: one tensor (batch, ...), or several, which the module gets as keyword or positional arguments."""


def outputs_of(module: nn.Module, x: Inputs) -> Tensor:
    """Return the module's outputs for a batch.

    A module may return a tensor, or an object or mapping with `logits`, as those of transformers do. Raises ConfigError
    for anything else.
    """
    result: Any
    if isinstance(x, Tensor):
        result = module(x)
    else:
        result = module(**x) if isinstance(x, dict) else module(*x)
    return result if isinstance(result, Tensor) else _logits_in(result)


def _logits_in(result: Any) -> Tensor:
    logits = result.get("logits") if isinstance(result, Mapping) else getattr(result, "logits", None)
    if not isinstance(logits, Tensor):
        raise ConfigError(
            f"model.network: the module returned {type(result).__name__}; it must return a tensor, or an object with "
            "a tensor `logits`"
        )
    return logits


def map_inputs(function: Any, x: Inputs) -> Inputs:
    """Return a batch with `function` applied to each of its tensors."""
    if isinstance(x, Tensor):
        mapped: Tensor = function(x)
        return mapped
    if isinstance(x, dict):
        return {name: function(part) for name, part in x.items()}
    return tuple(function(part) for part in x)
