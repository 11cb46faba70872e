"""Find what prevents recording operations: reading a value, drawing random numbers, leaving the device."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

_VALUES = {torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape}
_COPIES = {"_to_copy", "copy", "copy_", "_foreach_copy", "_foreach_copy_"}
_INDEXING = {"index", "index_put", "index_put_", "_index_put_impl_"}
_MASKS = {torch.bool, torch.uint8}
_PROBABILITIES = {"p", "dropout", "dropout_p"}


def obstacle(function: Callable[[], object]) -> str | None:
    """Call `function` and return, in a few words, why its tensor operations cannot be recorded; None if they can.

    Decisions that do not depend on tensors (a counter, Python's random numbers) cannot be detected; a recording repeats
    the operations of the first call.
    """
    watch = _Watch()
    with watch:
        function()
    return watch.obstacle


class _Watch(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Checks every operation, including autograd's backward pass. obstacle: the first one found, or None."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.obstacle: str | None = None

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        if self.obstacle is None:
            self.obstacle = _obstacle_in(func, args, kwargs or {}, result)
        return result


def _obstacle_in(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], result: Any) -> str | None:
    name, tags = func.overloadpacket.__name__, set(func.tags)
    by_mask = name in _INDEXING and any(mask.dtype in _MASKS for mask in _tensors(args[1]))
    if by_mask or (tags & _VALUES and name not in _INDEXING):
        return f"{name}: the next step depends on a value, for which the host must wait"
    if torch.Tag.nondeterministic_seeded in tags and not _draws_nothing(func, args, kwargs):
        return f"{name} draws random numbers"
    if name in _COPIES:
        devices = {tensor.device for tensor in _tensors([args, kwargs, result])}
        if len(devices) > 1:
            return f"{name}: a tensor is copied between {' and '.join(sorted(map(str, devices)))}"
    return None


def _tensors(values: Any) -> list[Tensor]:
    return [leaf for leaf in tree_leaves(values) if isinstance(leaf, Tensor)]


def _draws_nothing(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Return whether it is dropout with probability 0, as recurrent layers and attention contain."""
    arguments = dict(zip((argument.name for argument in func._schema.arguments), args, strict=False)) | dict(kwargs)
    probabilities = [
        arguments.get(argument.name, argument.default_value)
        for argument in func._schema.arguments
        if argument.name in _PROBABILITIES
    ]
    return bool(probabilities) and all(probability == 0.0 for probability in probabilities)
