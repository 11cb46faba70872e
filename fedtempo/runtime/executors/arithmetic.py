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
    frozen: Vector,
    read: Callable[[Any], Vector],
    store: Callable[[Vector], Any],
) -> Any:
    """Call `function` on the models at `locations`, see `Executor.apply`.

    read: returns the read-only vector at a location. store: puts a vector at a new location and returns it. frozen: the
    frozen parameters, which are the same in every model.
    """

    def parameters(location: Any) -> Vector:
        vector = read(location)
        return vector if sections.all_trainable else vector[: sections.trainable]

    @functools.cache
    def untrained() -> Vector:
        """Return the running statistics and frozen parameters of the returned models."""
        if not sections.statistics:
            return frozen
        source = statistics or Statistics(locations)
        of_models = [read(location)[sections.trainable : sections.moving] for location in source.locations]
        return np.concatenate([within_hull(of_models, source.combine), frozen])

    def stored(value: Any) -> Any:
        if isinstance(value, np.ndarray) and value.shape == (sections.trainable,) and value.dtype.kind == "f":
            return store(value if sections.all_trainable else np.concatenate([value.astype(np.float32), untrained()]))
        if isinstance(value, tuple):
            return tuple(stored(item) for item in value)
        return value

    return stored(function(*map(parameters, locations)))


def read_only(vector: Vector) -> Vector:
    """Return a read-only view of `vector`."""
    view = vector.view()
    view.flags.writeable = False
    return view
