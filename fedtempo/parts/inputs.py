"""Examples that consist of several inputs, such as input_ids and attention_mask: structured arrays, one row each.

A dict of arrays becomes an array with a field for each key, a tuple of arrays one with the fields f0, f1, ... So
examples stay one array that can be indexed, shared and sent like any other.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]
InputShape: TypeAlias = tuple[int, ...] | dict[str, tuple[int, ...]] | tuple[tuple[int, ...], ...]
"""Shape of one example: of its array, or of each of its inputs, by name or in order."""


def is_several(x: Array) -> bool:
    """Return whether examples consist of several inputs."""
    return x.dtype.names is not None


def join(inputs: Mapping[str, Array] | tuple[Array, ...]) -> Array:
    """Return one structured array of several inputs, each (n, ...). Raises ValueError for different lengths n."""
    named = dict(inputs) if isinstance(inputs, Mapping) else {f"f{i}": part for i, part in enumerate(inputs)}
    if not named:
        raise ValueError("examples have no inputs")
    lengths = {name: len(part) for name, part in named.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"inputs have different numbers of examples: {lengths}")
    if bad := [name for name in named if not isinstance(name, str) or not name.isidentifier()]:
        raise ValueError(f"input {bad[0]!r}: its name must be that of an argument of the network")
    dtype = np.dtype([(name, part.dtype, part.shape[1:]) for name, part in named.items()])
    joined = np.empty(next(iter(lengths.values())), dtype=dtype)
    for name, part in named.items():
        joined[name] = part
    return joined


def separate(x: Array) -> Array | dict[str, Array] | tuple[Array, ...]:
    """Return the inputs of examples as they were joined, as views; examples of one input unchanged."""
    names = x.dtype.names
    if names is None:
        return x
    if _are_positions(names):
        return tuple(x[name] for name in names)
    return {name: x[name] for name in names}


def each_input(x: Array, name: str) -> list[tuple[str, Array]]:
    """Return each input with its name for errors; `name` is that of the whole."""
    return [(f"{name}[{part!r}]", x[part]) for part in x.dtype.names] if x.dtype.names else [(name, x)]


def input_shape(x: Array) -> InputShape:
    """Return the shape of one example."""
    inputs = separate(x)
    if isinstance(inputs, dict):
        return {name: part.shape[1:] for name, part in inputs.items()}
    return tuple(part.shape[1:] for part in inputs) if isinstance(inputs, tuple) else x.shape[1:]


def is_one_input(shape: Any) -> bool:
    """Return whether a shape is that of examples with one input."""
    return not isinstance(shape, Mapping) and not any(isinstance(side, Sequence) for side in shape)


def shape_as_json(x: Array) -> list[Any] | dict[str, list[int]]:
    """Return the shape of one example as JSON values, which `shape_of_json` reads."""
    shape = input_shape(x)
    if isinstance(shape, dict):
        return {name: list(sides) for name, sides in shape.items()}
    return [list(side) if isinstance(side, tuple) else side for side in shape]


def shape_of_json(value: Any) -> InputShape:
    """Return a shape that was converted to JSON. Raises TypeError or ValueError for anything else."""
    if isinstance(value, Mapping):
        return {str(name): tuple(map(int, sides)) for name, sides in value.items()}
    if value and all(isinstance(side, Sequence) for side in value):
        return tuple(tuple(map(int, sides)) for sides in value)
    return tuple(map(int, value))


def numbers_per_example(x: Array) -> int:
    """Return how many numbers an example consists of."""
    return sum(math.prod(part.shape[1:]) for _, part in each_input(x, ""))


def _are_positions(names: tuple[str, ...]) -> bool:
    return names == tuple(f"f{i}" for i in range(len(names)))
