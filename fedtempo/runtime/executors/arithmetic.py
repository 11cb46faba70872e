"""Calling a function on models' vectors: locations in, locations out."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fedtempo.learning.aggregation import average
from fedtempo.learning.sections import Sections, within_hull
from fedtempo.runtime.executors import Vector
from fedtempo.runtime.handles import are_numbers


@dataclass(frozen=True)
class Statistics:
    """Where the running statistics of new models come from: `combine` of those of the models at `locations`.

    combine: an average of any kind; its results are kept within the models' hull.
    """

    locations: Sequence[Any]
    combine: Callable[[Sequence[Any]], Any] = average

    def moved(self, where: Callable[[Any], Any]) -> Statistics:
        """The same rule with each location replaced by `where(location)`."""
        return replace(self, locations=list(map(where, self.locations)))


def apply(
    function: Callable[..., Any],
    locations: Sequence[Any],
    arguments: Mapping[str, Any],
    statistics: Statistics | None,
    *,
    location_type: type,
    sections: Sections,
    frozen: Vector,
    read: Callable[[Any], Vector],
    store: Callable[[Vector], Any],
) -> Any:
    """See `Executor.apply`. read: the read-only vector at a location; store: puts a vector at a new location.

    frozen: the frozen parameters, which are the same in every model.
    """

    def parameters(location: Any) -> Vector:
        vector = read(location)
        return vector if sections.all_trainable else vector[: sections.trainable]

    def resolved(value: Any) -> Any:
        if isinstance(value, location_type):
            return parameters(value)
        if isinstance(value, list | tuple):
            if are_numbers(value):
                return list(value)
            return [parameters(item) if isinstance(item, location_type) else resolved(item) for item in value]
        if isinstance(value, Mapping):
            return {key: resolved(item) for key, item in value.items()}
        return value

    @functools.cache
    def rest() -> Vector:
        """Running statistics and frozen parameters of the models that are returned."""
        if not sections.statistics:
            return frozen
        rule = statistics or Statistics([*locations, *locations_in(arguments, location_type)])
        of_models = [read(location)[sections.trainable : sections.moving] for location in rule.locations]
        return np.concatenate([within_hull(of_models, rule.combine), frozen])

    def stored(value: Any) -> Any:
        if isinstance(value, np.ndarray) and value.shape == (sections.trainable,) and value.dtype.kind == "f":
            return store(value if sections.all_trainable else np.concatenate([value.astype(np.float32), rest()]))
        if isinstance(value, tuple):
            return tuple(stored(item) for item in value)
        return value

    vectors = [parameters(location) for location in locations]
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
