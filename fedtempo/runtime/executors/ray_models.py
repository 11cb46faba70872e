"""Models in the object stores of a Ray cluster, and how one that a lost node had is made again."""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import Any

from fedtempo.runtime.executors.workers import Task


@dataclass(frozen=True, slots=True)
class Recipe:
    """The visit that made a model: which training, of which model, and what else it was told."""

    name: str
    source: Parameters
    arguments: tuple[Any, ...]


class Parameters:
    """One model: where its parameters lie, and how they are made again.

    ref: Ray's reference to them; None where they are not there yet, are lost, or are free. coming: what the reference
    will be. recipe: None where this process's own node has them, which are then kept as long as models that descend
    from it need them. visits: in a row, since such a model. locations: how many want the parameters. remake: the
    visit that makes them again; waiting: the tasks that wait for it.
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
        """A visit has made them."""
        self.ref, self.coming = self.coming, None
        self.free_unless_wanted()

    def free_unless_wanted(self) -> None:
        """Let go of parameters that can be made again and that nobody wants."""
        if not self.locations and self.recipe is not None:
            self.ref = None


class Location:
    """Location of a model. Its parameters' memory is free when the last one is gone and nothing reads it any more."""

    __slots__ = ("parameters",)

    def __init__(self, parameters: Parameters) -> None:
        self.parameters = parameters
        parameters.locations += 1

    def __del__(self) -> None:
        self.parameters.locations -= 1
        self.parameters.free_unless_wanted()
