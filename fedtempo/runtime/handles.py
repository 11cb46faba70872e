"""A function at the server and its arguments, with the models among them taken out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fedtempo.federation import Model

Fill = Callable[[Sequence[Any]], Any]
"""Builds a value again from what stands for its models, in the order in which `split` took them out."""


def split(value: Any, models: list[Model]) -> Fill:
    """Append the models in `value` to `models` and return a function that builds `value` with others in their place.

    Lists, tuples and mappings are searched at any depth; they are built again as lists and dicts.
    """
    if isinstance(value, Model):
        index = len(models)
        models.append(value)
        return lambda vectors: vectors[index]
    if isinstance(value, list | tuple):
        types = set(map(type, value))
        if types <= {float, int}:  # weights, of which there may be many
            return lambda _: list(value)
        if types == {Model}:
            start, stop = len(models), len(models) + len(value)
            models.extend(value)
            return lambda vectors: list(vectors[start:stop])
        items = [split(item, models) for item in value]
        return lambda vectors: [fill(vectors) for fill in items]
    if isinstance(value, Mapping):
        entries = {key: split(item, models) for key, item in value.items()}
        return lambda vectors: {key: fill(vectors) for key, fill in entries.items()}
    return lambda _: value


class ServerCall:
    """A call of `function(*positional, **named)`, to be made with the vectors of its models.

    models: those among the arguments, in order; call this object with as many vectors. arguments: (positional, named).
    """

    def __init__(self, function: Callable[..., Any], positional: Sequence[Any], named: Mapping[str, Any]) -> None:
        self.__qualname__: str = getattr(function, "__qualname__", type(function).__qualname__)
        self.models: list[Model] = []
        self.function, self.arguments = function, (positional, named)
        self._positional, self._named = split(positional, self.models), split(named, self.models)

    def __call__(self, *vectors: Any) -> Any:
        return self.function(*self._positional(vectors), **self._named(vectors))
