"""Models among the arguments of a function at the server: found, and replaced by where their parameters lie."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from fedtempo.federation import Model


def models_in(values: Iterable[Any]) -> list[Model]:
    """The models among `values`, in lists and tuples too."""
    found: list[Model] = []
    for value in values:
        if isinstance(value, Model):
            found.append(value)
        elif isinstance(value, list | tuple) and not are_numbers(value):
            found.extend(models_in(value))
    return found


def are_numbers(values: Iterable[Any]) -> bool:
    """Whether there is nothing in these but plain numbers, as in weights, of which there may be many."""
    return set(map(type, values)) <= {float, int}


def located(value: Any) -> Any:
    """`value` with each Model replaced by its location, in lists, tuples and dicts too."""
    if isinstance(value, Model):
        return value.location
    if isinstance(value, list | tuple):
        if are_numbers(value):
            return list(value)
        return [item.location if isinstance(item, Model) else located(item) for item in value]
    if isinstance(value, Mapping):
        return {key: located(item) for key, item in value.items()}
    return value
