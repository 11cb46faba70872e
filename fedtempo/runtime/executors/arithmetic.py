"""Calls of functions on models' vectors: models are given and returned as locations."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fedtempo.learning.aggregation import average
from fedtempo.learning.sections import Sections, within_hull
from fedtempo.runtime.executors import Vector


@dataclass(frozen=True)
class Statistics:
    """Source of new models' running statistics: `combine` applied to those of the models at `locations`.

    combine: an average of any kind; its results are clipped to the models' hull.
    """

    locations: Sequence[Any]
    combine: Callable[[Sequence[Any]], Any] = average

    def mapped(self, locate: Callable[[Any], Any]) -> Statistics:
        """Return the same source with each location replaced by `locate(location)`."""
        return replace(self, locations=list(map(locate, self.locations)))


def apply(
    function: Callable[..., Any],
    locations: Sequence[Any],
    statistics: Statistics | None,
    *,
    sections: Sections,
    read: Callable[[Any], Vector],
    store: Callable[[Vector], Any],
) -> Any:
    """Call `function` on the models at `locations`, see `Executor.apply`.

    read: returns the read-only vector at a location. store: puts a vector at a new location and returns it.
    """

    def parameters(location: Any) -> Vector:
        vector = read(location)
        return vector[: sections.trainable] if sections.statistics else vector

    @functools.cache
    def untrained() -> Vector:
        """Return the running statistics of the returned models."""
        source = statistics or Statistics(locations)
        return within_hull([read(location)[sections.trainable :] for location in source.locations], source.combine)

    def stored(value: Any) -> Any:
        if isinstance(value, np.ndarray) and value.shape == (sections.trainable,) and value.dtype.kind == "f":
            return store(np.concatenate([value.astype(np.float32), untrained()]) if sections.statistics else value)
        if isinstance(value, tuple):
            return tuple(stored(item) for item in value)
        return value

    return stored(function(*map(parameters, locations)))


def read_only(vector: Vector) -> Vector:
    """Return a read-only view of `vector`."""
    view = vector.view()
    view.flags.writeable = False
    return view


def whole(exchanged: Vector, fixed: Vector) -> Vector:
    """Return a whole flat vector, read-only, from what travels and what does not; not a copy if all travels."""
    return read_only(np.concatenate([exchanged, fixed])) if len(fixed) else exchanged
