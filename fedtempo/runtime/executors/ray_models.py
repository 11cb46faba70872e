"""Models in the object stores of a Ray cluster, and recipes to recompute those of lost nodes."""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import Any

from fedtempo.runtime.executors.workers import Task


@dataclass(frozen=True, slots=True)
class Recipe:
    """The visit that made a model: the task's name, the model that it trained, and its other arguments."""

    name: str
    source: Parameters
    arguments: tuple[Any, ...]


class Parameters:
    """Reference to one model's parameters, and the recipe to recompute them.

    ref: Ray's reference; None if they do not exist yet, are lost, or were released. coming: the future reference.
    recipe: None if this process's own node has the parameters, which then stay while descendants need them. visits:
    number of visits in a row since such a model. locations: number of Locations of the model. remake: the visit that
    recomputes them, if one is queued; waiting: the tasks that wait for it.
    """

    __slots__ = ("__weakref__", "coming", "locations", "recipe", "ref", "remake", "visits", "waiting")

    def __init__(self, ref: Any = None, recipe: Recipe | None = None) -> None:
        self.ref, self.recipe = ref, recipe
        self.coming: Any = None
        self.visits: int = 0 if recipe is None else recipe.source.visits + 1
        self.locations = 0
        self.remake: Task | None = None
        self.waiting: list[weakref.ref[Task]] = []

    def arrive(self) -> None:
        """Note that a visit has made the parameters."""
        self.ref, self.coming = self.coming, None
        self.free_unless_wanted()

    def free_unless_wanted(self) -> None:
        """Release parameters without Locations if they can be recomputed."""
        if not self.locations and self.recipe is not None:
            self.ref = None


class Location:
    """Location of a model. The parameters are released when the last Location is gone and no task reads them."""

    __slots__ = ("parameters",)

    def __init__(self, parameters: Parameters) -> None:
        self.parameters = parameters
        parameters.locations += 1

    def __del__(self) -> None:
        self.parameters.locations -= 1
        self.parameters.free_unless_wanted()
