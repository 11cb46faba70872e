"""Steps of `server.optimizer`: each commit of a run is made from one of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fedtempo.errors import ConfigError
from fedtempo.federation import Model
from fedtempo.learning.server_optimizers import ServerOptimizer
from fedtempo.runtime.handles import ServerCall


class ServerSteps:
    """The steps of one run, with the optimiser's state as models.

    A step begins at the global model and leads towards the model of a round or of a buffer. So there must be one before
    each commit, and not two: the first of two would have no effect on the model, but would on the optimiser's state.
    """

    def __init__(self, optimizer: ServerOptimizer) -> None:
        self.function: Callable[..., Any] = optimizer.step
        self._state: tuple[Model, ...] = ()
        self._stepped_from: int | None = None

    def begin(self, current: Model, average: Model) -> ServerCall:
        """Return the call that takes a step from the global model towards `average`; its result is for `take`.

        Raises ConfigError for a second step from the same global model.
        """
        if self._stepped_from == current.version:
            raise ConfigError(
                "server.optimizer: this strategy averages twice before it commits, and each time takes a step; "
                "average groups with fed.on_server, or remove server.optimizer"
            )
        self._stepped_from = current.version
        return ServerCall(self.function, [current, average, *self._state], {})

    def take(self, result: Any) -> Model:
        """Return a step's model, and keep the rest for the next step. Raises ConfigError for anything else."""
        models = result if isinstance(result, tuple) else (result,)
        if not models or not all(isinstance(model, Model) for model in models):
            raise ConfigError(
                f"server.optimizer: {self.function.__qualname__} must return a tuple of vectors like the model's"
            )
        self._state = models[1:]
        first: Model = models[0]
        return first

    def may_commit(self, current: Model) -> None:
        """Raise ConfigError unless a step was taken from the global model."""
        if self._stepped_from != current.version:
            raise ConfigError(
                "server.optimizer: this strategy commits single results, which make no step; choose one that trains in "
                "rounds or with a buffer (your own: call fed.average or fed.server_step before each fed.commit)"
            )
