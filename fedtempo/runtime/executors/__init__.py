"""Executors do the real training: in this process, in worker processes, on a cluster or device, or not at all.

A *location* stands for the place of one model's parameters and owns that memory: the memory is freed when the last
reference to the location is gone. Operations in progress keep their inputs. Locations are valid for one executor only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np

if TYPE_CHECKING:
    from fedtempo.learning.naming import Naming
    from fedtempo.learning.sections import Sections
    from fedtempo.learning.training import Training
    from fedtempo.runtime.executors.arithmetic import Statistics

T_co = TypeVar("T_co", covariant=True)
Vector = np.ndarray[Any, np.dtype[np.float32]]
Rows = np.ndarray[Any, np.dtype[np.integer[Any]]]
On = str | int
"""What a model is evaluated on: the test or validation set ("test", "validation"), all clients' own test sets in one
pass ("clients"), or that of one client. If examples change during the run, sets have a phase
(`fedtempo.data.phases.in_phase`), and the number of a client is that of `Phases.holder`."""


class Pending(Protocol[T_co]):
    """An operation in progress."""

    def result(self) -> T_co:
        """Wait for the result and return it.

        Raises UserCodeError if a user's code failed, WorkerError if anything else failed or a worker died; errors such
        as ConfigError are raised unchanged.
        """
        ...

    def done(self) -> bool:
        """Return whether `result` would return immediately; a deferred operation is not done before `result`."""
        ...


@dataclass(frozen=True, slots=True)
class Trained:
    """Result of a visit's training: the new model's location and the statistics of `fedtempo.learning.local.train`.

    flaw: why the server cannot use the update (see `screening`); None if it can. state: location of what the client
    keeps now, if it keeps anything. sent: locations of the vectors that it sends besides the model.
    """

    location: Any
    statistics: dict[str, float]
    flaw: str | None = None
    state: Any = None
    sent: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class Carried:
    """What a visit needs besides the model, if the client keeps something between visits.

    state: location of what the client has kept so far; None: nothing yet. procedure: see `learning.procedures`.
    payload: locations of models whose vectors the server sends along. returns: number of vectors expected in return.
    numbers: settings of the procedure.
    """

    state: Any = None
    procedure: str | None = None
    payload: tuple[Any, ...] = ()
    returns: int = 0
    numbers: Mapping[str, float] | None = None


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Means over test examples, see `fedtempo.learning.evaluation`. mae: for numeric labels, else None.

    metrics: further metrics (`run.metrics`), as `learning.metrics.Metrics.of` returns them. clients: of an evaluation
    on clients' own test sets, the means over each client's examples, (clients, 2 or 3).
    """

    accuracy: float
    loss: float
    mae: float | None = None
    metrics: Mapping[str, Any] = field(default_factory=dict, compare=False)
    clients: np.ndarray[Any, Any] | None = field(default=None, compare=False)

    def as_values(self) -> tuple[Any, ...]:
        """Return the fields for a journal: those before `metrics`, and the others if there are any."""
        more = (dict(self.metrics), self.clients) if self.metrics or self.clients is not None else ()
        return (self.accuracy, self.loss, self.mae, *more)


class Evaluator(Protocol):
    """Evaluates models. Used from one thread."""

    @property
    def trains(self) -> bool:
        """False if models are empty and nothing is computed."""
        ...

    def evaluate(self, location: Any, state: Any = None, on: On = "test") -> Pending[Evaluation]:
        """Start evaluating the model at `location`; visits have priority.

        state: location of what a client keeps, whose local values the model gets (default: the first values). on: the
        examples; a client's number stands for its own, before which the model is tuned if the run personalises.
        """
        ...

    def vector(self, location: Any) -> Vector:
        """Return the whole state as a read-only flat vector, which stays valid after the location is gone.

        What does not travel has its first values.
        """
        ...


class Executor(Evaluator, Protocol):
    """Trains and evaluates models. Results depend only on the arguments, never on other operations in progress.

    Used from one thread. A context manager: leaving the block closes it.
    """

    @property
    def size_bytes(self) -> int:
        """Size of a model when it is sent: four bytes per number that travels."""
        ...

    @property
    def base_bytes(self) -> int:
        """Size of what does not travel, which a client receives once, with its first model."""
        ...

    @property
    def vector_bytes(self) -> int:
        """Size of a vector of trainable parameters that travels besides a model (`Carried`)."""
        ...

    @property
    def sections(self) -> Sections:
        """Sections of a model's flat vector; empty if models are empty."""
        ...

    @property
    def naming(self) -> Naming:
        """Names of the parts of a model's flat vector; empty if models are empty."""
        ...

    def initial(self) -> Any:
        """Return the location of the initial global model."""
        ...

    def train(
        self, location: Any, client: int, visit: int, training: Training, carried: Carried | None = None
    ) -> Pending[Trained]:
        """Start training the model at `location` on a client's examples.

        client: its number, or that of its examples in a phase (`fedtempo.data.phases.Phases.holder`). visit: number of
        this visit at the client, for random draws. carried: None if the client keeps nothing.
        """
        ...

    def train_rows(self, location: Any, rows: Rows, visit: int, training: Training) -> Pending[Trained]:
        """Start training the model at `location` on these rows of the run's training examples; rows may repeat.

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
        """Return a new location for the flat vector that `read` returns, of which only what travels is stored."""
        ...

    def exchanged(self, location: Any) -> Vector:
        """Return the part of a model that travels, read-only, valid after the location is gone."""
        ...

    def place_state(self, read: Callable[[], bytes]) -> Any:
        """Return a new location for what a client keeps, as `read` returns it (`learning.kept`)."""
        ...

    def state(self, location: Any) -> bytes:
        """Return what a client keeps, see `place_state`."""
        ...

    def is_location(self, value: object) -> bool:
        """Return whether `value` is a location of this executor's kind."""
        ...

    def facts(self) -> Mapping[str, Any]:
        """Return the executor's facts for a run's records; may be empty."""
        ...

    def close(self) -> None:
        """Abandon operations in progress, end workers and free memory. Closing again does nothing."""
        ...

    def __enter__(self) -> Executor: ...
    def __exit__(self, *exception: object) -> None: ...
