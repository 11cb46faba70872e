"""No training: schedules only, at millions of visits a minute, without PyTorch."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from fedtempo.learning.naming import Naming
from fedtempo.learning.sections import Sections
from fedtempo.runtime.executors import Carried, Evaluation, On, Rows, Trained, Vector
from fedtempo.runtime.executors.arithmetic import Statistics, apply

if TYPE_CHECKING:
    from fedtempo.learning.training import Training

T = TypeVar("T")


class Empty:
    """Location of all models, which have no parameters; one per executor."""

    __slots__ = ()


class Done(Generic[T]):
    """An operation that is already done."""

    __slots__ = ("_result",)

    def __init__(self, result: T) -> None:
        self._result = result

    def result(self) -> T:
        return self._result

    def done(self) -> bool:
        return True


class NoTraining:
    """Executor whose models are empty vectors.

    size_bytes: assumed size of a model when it is sent. base_bytes: of what a client receives once. vector_bytes: of a
    vector that travels besides a model (default: like a model).
    """

    trains = False
    sections = Sections(0)
    naming = Naming(0, (), {})

    def __init__(self, size_bytes: int, base_bytes: int = 0, vector_bytes: int | None = None) -> None:
        self.size_bytes, self.base_bytes = size_bytes, base_bytes
        self.vector_bytes = size_bytes if vector_bytes is None else vector_bytes
        self._location = Empty()
        self._vector = np.empty(0, dtype=np.float32)
        self._vector.flags.writeable = False
        self._trained = Done(Trained(self._location, {}))
        self._evaluation = Done(Evaluation(math.nan, math.nan))

    def initial(self) -> Empty:
        return self._location

    def train(
        self, location: Empty, client: int, visit: int, training: Training, carried: Carried | None = None
    ) -> Done[Trained]:
        if carried is None or not carried.returns:
            return self._trained
        return Done(Trained(self._location, {}, sent=(self._location,) * carried.returns))

    def train_rows(self, location: Empty, rows: Rows, visit: int, training: Training) -> Done[Trained]:
        return self._trained

    def evaluate(self, location: Empty, state: Any = None, on: On = "test") -> Done[Evaluation]:
        return self._evaluation

    def apply(
        self,
        function: Callable[..., Any],
        locations: Sequence[Empty],
        statistics: Statistics | None = None,
    ) -> Any:
        return apply(
            function,
            locations,
            statistics,
            sections=self.sections,
            read=self.vector,
            store=lambda _: self._location,
        )

    def place(self, read: Callable[[], Vector]) -> Empty:
        return self._location

    def place_state(self, read: Callable[[], bytes]) -> None:
        return None

    def state(self, location: Any) -> bytes:
        return b""

    def is_location(self, value: object) -> bool:
        return isinstance(value, Empty)

    def exchanged(self, location: Empty) -> Vector:
        return self._vector

    def vector(self, location: Empty) -> Vector:
        return self._vector

    def facts(self) -> dict[str, int]:
        return {}

    def close(self) -> None:
        """Do nothing: there is nothing to free."""

    def __enter__(self) -> NoTraining:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
