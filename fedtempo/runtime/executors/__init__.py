"""Who does the real training: nobody, this process, or worker processes. Each implements `Executor`.

A *location* is where one model's parameters lie. It owns that memory: when the last reference to it is gone, the
memory is free again; an operation in progress keeps its inputs. Locations of one executor mean nothing to another.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np

if TYPE_CHECKING:
    from fedtempo.learning.sections import Sections
    from fedtempo.learning.training import Training
    from fedtempo.runtime.executors.arithmetic import Statistics

T_co = TypeVar("T_co", covariant=True)
Vector = np.ndarray[Any, np.dtype[np.float32]]
Rows = np.ndarray[Any, np.dtype[np.integer[Any]]]


class Pending(Protocol[T_co]):
    """An operation that was asked for."""

    def result(self) -> T_co:
        """What came out, once it is there.

        Raises UserCodeError if a user's code failed, WorkerError if anything else did or a worker died, and errors such
        as ConfigError as they were raised.
        """
        ...

    def done(self) -> bool:
        """Whether `result` would return at once. An operation that is done only when asked for is not done before."""
        ...


@dataclass(frozen=True, slots=True)
class Trained:
    """What a visit's training left: where the parameters lie, and `fedtempo.learning.local.train`'s statistics.

    flaw: why it is no update that a server could use (see `screening`); None where it is one.
    """

    location: Any
    statistics: dict[str, float]
    flaw: str | None = None


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Means over test examples, see `fedtempo.learning.evaluation`. mae: of numbers; None for what are none."""

    accuracy: float
    loss: float
    mae: float | None = None


class Evaluator(Protocol):
    """Tests models. Used from one thread."""

    @property
    def trains(self) -> bool:
        """False where models are empty and nothing is computed."""
        ...

    def evaluate(self, location: Any) -> Pending[Evaluation]:
        """Test the model at `location`; visits go first."""
        ...

    def vector(self, location: Any) -> Vector:
        """The parameters as a read-only flat vector, which stays valid whatever happens to the location."""
        ...


class Executor(Evaluator, Protocol):
    """Trains and tests models. Results depend on the arguments alone, never on what else is in progress.

    Used from one thread. A context manager: leaving the block closes it.
    """

    @property
    def size_bytes(self) -> int:
        """What sending one model takes: four bytes a parameter."""
        ...

    @property
    def sections(self) -> Sections:
        """What lies where in a model's flat vector; empty where models are."""
        ...

    def initial(self) -> Any:
        """Location of the initial global model."""
        ...

    def train(self, location: Any, client: int, visit: int, training: Training) -> Pending[Trained]:
        """Train the model at `location` on a client's examples. visit: its number at that client, for random draws."""
        ...

    def train_rows(self, location: Any, rows: Rows, visit: int, training: Training) -> Pending[Trained]:
        """Train the model at `location` on these rows of the run's training examples, each as often as it is named.

        visit: number of this training at the server, for random draws.
        """
        ...

    def apply(
        self,
        function: Callable[..., Any],
        locations: Sequence[Any],
        statistics: Statistics | None = None,
    ) -> Any:
        """Call `function(*vectors)` in this process, on read-only flat float32 vectors.

        The vectors hold only the trainable parameters (`sections`) of the models at `locations`. A returned vector of
        that length becomes the location of a whole model, a tuple of such vectors a tuple of locations; any other value
        is returned unchanged. statistics: the source of such models' running statistics (default: the plain mean of
        those of the models at `locations`).
        """
        ...

    def place(self, read: Callable[[], Vector]) -> Any:
        """Put a whole flat vector, which `read` returns, at a new location."""
        ...

    def is_location(self, value: object) -> bool:
        """Whether `value` is a location of this executor's kind."""
        ...

    def facts(self) -> Mapping[str, Any]:
        """Return what a run's records say of the executor; empty if there is nothing to say."""
        ...

    def close(self) -> None:
        """Give up what is in progress, end workers, free memory. Closing again does nothing."""
        ...

    def __enter__(self) -> Executor: ...
    def __exit__(self, *exception: object) -> None: ...
