"""An executor with a journal of its operations, so that a killed run can be resumed bit for bit.

Operations are numbered in the order of requests, which is the same every time a run is repeated. A resumed run starts
again from the beginning: operations in the journal are answered from it, abandoned ones are skipped, those that were
in progress are executed again, and after the last recorded request the run continues normally. Strategies do not
notice.

A checkpoint (1) writes the models that are still reachable, (2) waits until they are on disk, (3) appends the
operations since the last checkpoint to the journal atomically, (4) deletes the models that neither this nor the last
checkpoint needs: a journal that loses its end falls back on the last one. Steps 2 to 4 happen in another thread while
the run continues. During a replay, a model is only a name; it is read from its file if an operation needs its
parameters.
"""

from __future__ import annotations

import contextlib
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from fedtempo.errors import FedtempoError, RunError
from fedtempo.record.journal import Journal
from fedtempo.record.models import ModelFiles
from fedtempo.runtime.executors import Carried, Evaluation, Executor, On, Pending, Rows, Trained, Vector
from fedtempo.runtime.executors.arithmetic import Statistics
from fedtempo.runtime.executors.codec import decode, encode
from fedtempo.runtime.executors.none import Done

if TYPE_CHECKING:
    from fedtempo.learning.training import Training

T = TypeVar("T")
Request = tuple[str, list[Any], list[int]]
"""An operation's kind, its arguments, and the numbers of the operations that made its input models."""

_MAX_SHARE = 0.01
"""Largest share of the time spent on checkpoints, however large the models are."""

_PATIENCE_S = 1.0
"""An interrupted run makes no last checkpoint if that takes longer than this, seconds."""


class Location:
    """One model, or what one client keeps.

    number: of the operation that made it. held: the executor's location of it; None if it has not been loaded. sha256:
    name of its file; None if it has none. is_state: whether it is what a client keeps.
    """

    __slots__ = ("__weakref__", "held", "is_state", "number", "sha256")

    def __init__(self, number: int, held: Any = None, sha256: str | None = None, is_state: bool = False) -> None:
        self.number, self.held, self.sha256, self.is_state = number, held, sha256, is_state


class _Operation(Generic[T]):
    """An operation that the executor is working on."""

    __slots__ = ("__weakref__", "_answer", "_owner", "inputs", "number", "pending", "request")

    def __init__(
        self, owner: Journalled, number: int, request: Request, inputs: Sequence[Location], pending: Pending[Any]
    ) -> None:
        self._owner, self.number, self.request, self._answer = owner, number, request, None
        self.inputs: Sequence[Location] | None = inputs
        self.pending: Pending[Any] | None = pending

    def result(self) -> T:
        if self.pending is not None:
            self._owner._finish(self)
        answer: Any = self._answer
        return answer  # type: ignore[no-any-return]

    def answered(self, answer: Any) -> None:
        self._answer, self.pending, self.inputs = answer, None, None

    def done(self) -> bool:
        return self.pending is None or self.pending.done()


class _Abandoned:
    """An operation that was abandoned when the run was recorded."""

    def __init__(self, number: int) -> None:
        self._number = number

    def result(self) -> Any:
        raise RunError(
            f"operation {self._number}: its result is needed now but was not when the run was recorded: the strategy "
            "depends on something besides its seed and what the federation returns, and cannot be resumed"
        )

    def done(self) -> bool:
        return False


class Journalled:
    """Wraps `executor`: its operations are recorded in `journal`, its models in `models`.

    It closes neither; call `settle` before closing them. every_s: seconds between two checkpoints; longer if they take
    long. wall_s: returns the seconds that the run has taken so far.
    """

    def __init__(
        self,
        executor: Executor,
        journal: Journal,
        models: ModelFiles,
        *,
        every_s: float,
        wall_s: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self.size_bytes, self.base_bytes, self.vector_bytes = (
            executor.size_bytes,
            executor.base_bytes,
            executor.vector_bytes,
        )
        self.trains, self.sections, self.naming = executor.trains, executor.sections, executor.naming
        self._executor, self._journal, self._models = executor, journal, models
        self._every_s, self._wall_s = every_s, wall_s
        self._initial = Location(0, executor.initial())
        self._number = 0
        self._answers = dict(journal.rows)
        journal.rows.clear()
        self._rows: list[tuple[dict[str, Any], list[weakref.ref[Location]]]] = []
        self._in_progress: weakref.WeakValueDictionary[int, _Operation[Any]] = weakref.WeakValueDictionary()
        self._live: weakref.WeakSet[Location] = weakref.WeakSet()
        self._needed_before = models.names()
        self._journalling = True
        self._due = time.monotonic() + every_s
        self._took_s = 0.0
        self._thread = ThreadPoolExecutor(1, "checkpoint")
        self._writing: Future[None] | None = None

    def initial(self) -> Location:
        return self._initial

    def train(
        self, location: Location, client: int, visit: int, training: Training, carried: Carried | None = None
    ) -> Pending[Trained]:
        if carried is None:
            return self._submit(
                "train", [client, visit], [location], lambda held: self._executor.train(held, client, visit, training)
            )
        state = [] if carried.state is None else [carried.state]

        def start(held: Any, *others: Any) -> Pending[Trained]:
            payload = others[: len(carried.payload)]
            kept = replace(carried, payload=payload, state=others[-1] if state else None)
            return self._executor.train(held, client, visit, training, kept)

        numbers = [] if carried.numbers is None else [dict(carried.numbers)]
        arguments = [client, visit, carried.procedure, len(carried.payload), carried.returns, *numbers]
        return self._submit("train", arguments, [location, *carried.payload, *state], start)

    def train_rows(self, location: Location, rows: Rows, visit: int, training: Training) -> Pending[Trained]:
        return self._submit(
            "train_rows",
            [visit, len(rows)],
            [location],
            lambda held: self._executor.train_rows(held, rows, visit, training),
        )

    def evaluate(self, location: Location, state: Location | None = None, on: On = "test") -> Pending[Evaluation]:
        locations = [location] if state is None else [location, state]
        arguments = [] if on == "test" else [on]

        def start(held: Any, kept: Any = None) -> Pending[Evaluation]:
            return self._executor.evaluate(held, kept, on)

        return self._submit("evaluate", arguments, locations, start)

    def apply(
        self,
        function: Callable[..., Any],
        locations: Sequence[Location],
        statistics: Statistics | None = None,
    ) -> Any:
        name = getattr(function, "__qualname__", type(function).__qualname__)
        return self._now(
            ("apply", [name], [location.number for location in locations]),
            lambda: self._executor.apply(
                function,
                [self._held(location) for location in locations],
                statistics and statistics.mapped(self._held),
            ),
        )

    def place(self, read: Callable[[], Vector]) -> Any:
        return self._now(("place", [], []), lambda: self._executor.place(read))

    def _now(self, request: Request, do: Callable[[], Any]) -> Any:
        """Return the result of `do`, or the result recorded for it."""
        self._checkpoint_if_due()
        number, row = self._next(request)
        if row is not None:
            return decode(row["out"], self._recalled(row))
        answer = self._with_locations(number, do())
        self._record(number, request, answer)
        return answer

    def is_location(self, value: object) -> bool:
        return isinstance(value, Location)

    def exchanged(self, location: Location) -> Vector:
        return self._executor.exchanged(self._held(location))

    def vector(self, location: Location) -> Vector:
        return self._executor.vector(self._held(location))

    def place_state(self, read: Callable[[], bytes]) -> Any:
        return self._new_location(self._number, self._executor.place_state(read), is_state=True)

    def state(self, location: Location) -> bytes:
        return self._executor.state(self._held(location))

    def facts(self) -> Mapping[str, Any]:
        return self._executor.facts()

    def close(self) -> None:
        self._executor.close()

    def __enter__(self) -> Journalled:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    @property
    def replays(self) -> bool:
        """Whether a resumed run is still being replayed."""
        return self._number < self._journal.submitted

    def interrupt(self) -> None:
        """Make a last checkpoint, unless that takes long, and stop recording."""
        self.settle()
        if self._took_s < _PATIENCE_S:
            self._last_checkpoint()
        self.stop()

    def conclude(self) -> None:
        """Make a last checkpoint at the run's end, for a run that goes on from there, and stop recording."""
        self._last_checkpoint()
        if self._journalling:
            self._models.keep(self._needed_before)  # of the last checkpoint, which is on disk
        self.stop()

    def stop(self) -> None:
        """Stop recording: requests of tasks that are being cancelled are not part of the run."""
        self._journalling = False

    # Operations -----------------------------------------------------------------------------------------------------

    def _submit(
        self, kind: str, arguments: list[Any], locations: Sequence[Location], start: Callable[..., Pending[Any]]
    ) -> Pending[Any]:
        self._checkpoint_if_due()
        request: Request = (kind, arguments, [location.number for location in locations])
        number, row = self._next(request)
        if row is not None:
            return Done(self._recalled_answer(kind, row))
        if number <= self._journal.submitted and number not in self._journal.unanswered:
            return _Abandoned(number)
        operation: _Operation[Any] = _Operation(self, number, request, locations, start(*map(self._held, locations)))
        self._in_progress[number] = operation
        return operation

    def _next(self, request: Request) -> tuple[int, Mapping[str, Any] | None]:
        """Return the number of a new operation, and its row if the journal has it."""
        self._number += 1
        row = self._answers.pop(self._number, None)
        if row is not None and (recorded := (row["op"], row["told"], row["in"])) != request:
            raise RunError(
                f"operation {self._number} was {recorded} when the run was recorded and is {request} now: the strategy "
                "depends on something besides its seed and what the federation returns, and cannot be resumed"
            )
        return self._number, row

    def _finish(self, operation: _Operation[Any]) -> None:
        """Wait for an operation's result."""
        try:
            self._take(operation)
        except FedtempoError:
            self._last_checkpoint()
            self.stop()
            raise
        self._checkpoint_if_due()

    def _take(self, operation: _Operation[Any]) -> None:
        assert operation.pending is not None
        result = operation.pending.result()
        if isinstance(result, Trained):
            result = self._with_locations_of(operation.number, result)
        operation.answered(result)
        self._in_progress.pop(operation.number, None)
        self._record(operation.number, operation.request, result)

    def _record(self, number: int, request: Request, answer: Any) -> None:
        """Record an operation's result as it is now: the receiver may change it later."""
        if not self._journalling:
            return
        new: list[Location] = []

        def model(value: Any) -> int | None:
            if not isinstance(value, Location):
                return None
            new.append(value)
            return len(new) - 1

        kind, arguments, inputs = request
        try:
            if isinstance(answer, Trained):
                more = (answer.state, answer.sent) if answer.state is not None or answer.sent else ()
                out = encode((answer.location, answer.statistics, answer.flaw, *more), model)
            elif isinstance(answer, Evaluation):
                out = encode(answer.as_values(), model)
            else:
                out = encode(answer, model)
        except TypeError as error:
            raise RunError(
                f"on_server({arguments[0]}): {error}: return numbers, text, arrays, or lists, tuples and dicts of "
                "them, or set run.checkpoint_every = 0 (a resumed run then starts over)"
            ) from error
        row = {"n": number, "op": kind, "told": arguments, "in": inputs, "out": out}
        self._rows.append((row, [weakref.ref(location) for location in new]))

    def _recalled_answer(self, kind: str, row: Mapping[str, Any]) -> Trained | Evaluation:
        answer = decode(row["out"], self._recalled(row))
        if kind == "evaluate":
            return Evaluation(*answer)
        trained = Trained(*answer)
        if trained.state is not None:
            trained.state.is_state = True
        return trained

    # Models ---------------------------------------------------------------------------------------------------------

    def _new_location(
        self, number: int, held: Any = None, sha256: str | None = None, *, is_state: bool = False
    ) -> Location:
        location = Location(number, held, sha256, is_state)
        self._live.add(location)
        return location

    def _recalled(self, row: Mapping[str, Any]) -> list[Location]:
        """Return the models that a row's operation made, without their parameters."""
        return [self._new_location(row["n"], None, sha256) for sha256 in row["models"]]

    def _held(self, location: Location) -> Any:
        """Return the executor's location of a model, which is loaded from its file if necessary."""
        if location.held is None:
            if location.sha256 is None:
                raise RunError(f"the model of operation {location.number} is needed now but was not when recorded")
            vector = self._models.read(location.sha256)
            if location.is_state:
                location.held = self._executor.place_state(lambda: from_vector(vector))
            else:
                location.held = self._executor.place(lambda: vector)
        return location.held

    def _with_locations_of(self, number: int, trained: Trained) -> Trained:
        """Return a training's result with its locations replaced by Locations."""
        state = trained.state
        return Trained(
            self._new_location(number, trained.location),
            trained.statistics,
            trained.flaw,
            None if state is None else self._new_location(number, state, is_state=True),
            tuple(self._new_location(number, sent) for sent in trained.sent),
        )

    def _with_locations(self, number: int, value: Any) -> Any:
        """Return the executor's result with its locations replaced by Locations."""
        if self._executor.is_location(value):
            return self._new_location(number, value)
        if isinstance(value, tuple):
            return tuple(self._with_locations(number, item) for item in value)
        return value

    # Checkpoints ----------------------------------------------------------------------------------------------------

    def settle(self) -> None:
        """Wait until a checkpoint in progress is on disk. Raises RunError if it cannot be written."""
        if (writing := self._writing) is None:
            return
        try:
            writing.result()
        except BaseException:  # the checkpoint on disk is complete but no longer matches this process
            self.stop()
            raise
        finally:
            if writing.done():
                self._writing = None

    def _checkpoint_if_due(self) -> None:
        if self._writing is not None:
            if not self._writing.done():
                return
            self.settle()
        if self._journalling and time.monotonic() >= self._due and not self.replays:
            self._checkpoint()

    def _last_checkpoint(self) -> None:
        self.settle()
        if self._journalling and not self.replays:
            self._checkpoint()
            self.settle()

    def _checkpoint(self) -> None:
        began = time.monotonic()
        try:
            finish = self._write()
        except BaseException:
            self.stop()
            raise

        def timed() -> None:
            finish()
            ended = time.monotonic()
            self._took_s = ended - began
            self._due = ended + max(self._every_s, self._took_s / _MAX_SHARE)

        self._writing = self._thread.submit(timed)

    def _content(self, location: Location) -> Vector:
        """Return what to store of a model, or of what a client keeps."""
        if location.is_state:
            return as_vector(self._executor.state(location.held))
        return self._executor.exchanged(location.held)

    def _write(self) -> Callable[[], None]:
        """Write the models; return a function for the remaining steps, which is independent of the running run."""
        for operation in [operation for operation in self._in_progress.values() if operation.done()]:
            with contextlib.suppress(FedtempoError):  # raised by `result`
                self._take(operation)
        needed = set()
        for location in list(self._live):
            if location.sha256 is None and location.held is not None:
                location.sha256 = self._models.add(self._content(location))
            if location.sha256 is not None:
                needed.add(location.sha256)
        rows = [{**row, "models": list(map(_sha256, new))} for row, new in self._rows]
        number, unanswered, wall_s = self._number, list(self._in_progress), self._wall_s()
        keep = needed | self._needed_before
        self._rows, self._needed_before = [], needed

        def finish() -> None:
            self._models.sync()
            self._journal.checkpoint(rows, number, unanswered, wall_s)
            self._models.keep(keep)

        return finish


def as_vector(data: bytes) -> Vector:
    """Return bytes as a vector that a model's file can hold: their number, they themselves, and zeros."""
    return np.frombuffer(len(data).to_bytes(8, "little") + data + bytes(-len(data) % 4), dtype="<f4")


def from_vector(vector: Vector) -> bytes:
    """Return the bytes that `as_vector` was given. Raises RunError."""
    data = np.ascontiguousarray(vector, dtype="<f4").tobytes()
    length = int.from_bytes(data[:8], "little")
    if not len(data) - 12 < length + 8 <= len(data):
        raise RunError(f"a client's state is damaged: it has {len(data)} bytes and should have {length}")
    return data[8 : 8 + length]


def _sha256(reference: weakref.ref[Location]) -> str | None:
    location = reference()
    return None if location is None else location.sha256
