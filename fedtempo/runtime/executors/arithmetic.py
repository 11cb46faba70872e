"""Calling a function on models' vectors: locations in, locations out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from fedtempo.runtime.executors import Vector
from fedtempo.runtime.handles import are_numbers


def apply(
    function: Callable[..., Any],
    locations: Sequence[Any],
    arguments: Mapping[str, Any],
    *,
    location_type: type,
    size: int,
    read: Callable[[Any], Vector],
    store: Callable[[Vector], Any],
) -> Any:
    """See `Executor.apply`. read: the read-only vector at a location; store: puts a vector at a new location."""

    def resolved(value: Any) -> Any:
        if isinstance(value, location_type):
            return read(value)
        if isinstance(value, list | tuple):
            return list(value) if are_numbers(value) else [resolved(item) for item in value]
        if isinstance(value, Mapping):
            return {key: resolved(item) for key, item in value.items()}
        return value

    def stored(value: Any) -> Any:
        if isinstance(value, np.ndarray) and value.shape == (size,) and value.dtype.kind == "f":
            return store(value)
        if isinstance(value, tuple):
            return tuple(stored(item) for item in value)
        return value

    vectors = [read(location) for location in locations]
    return stored(function(*vectors, **{name: resolved(value) for name, value in arguments.items()}))


def read_only(vector: Vector) -> Vector:
    """A view of `vector` that cannot be written through."""
    view = vector.view()
    view.flags.writeable = False
    return view


def locations_in(value: Any, location_type: type) -> list[Any]:
    """The locations in `value`, in lists, tuples and mappings too, in order."""
    if isinstance(value, location_type):
        return [value]
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list | tuple):
        return [location for item in value for location in locations_in(item, location_type)]
    return []
