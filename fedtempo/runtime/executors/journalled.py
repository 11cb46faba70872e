"""An executor whose operations are journalled, so that a run that was killed can go on, bit for bit.

Operations are numbered in the order in which they are asked for, which is the same every time that a run happens. A
resumed run happens again from its start: operations that the journal holds are answered from it, those that nobody
wanted any more go unanswered, those that were in progress are done again, and after the last that had been asked for
all goes on as if nothing had been. No strategy knows of it.

A checkpoint (1) writes the models that something can still reach, (2) waits until they are on the disk, (3) adds to the
journal what was done since the last one, at once or not at all, (4) deletes the models that neither this nor the last
checkpoint needs: a journal that loses its end falls back on the last one. From (2) on another thread does it, and the
run goes on. While a run is answered from its journal a model is a name; it is read from its file
where an operation needs its parameters.
"""

from __future__ import annotations

import contextlib
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from fedtempo.errors import FedtempoError, RunError
from fedtempo.record.journal import Journal
from fedtempo.record.models import ModelFiles
from fedtempo.runtime.executors import Evaluation, Executor, Pending, Rows, Trained, Vector
from fedtempo.runtime.executors.arithmetic import Statistics
from fedtempo.runtime.executors.codec import decode, encode
from fedtempo.runtime.executors.none import Done

if TYPE_CHECKING:
    from fedtempo.learning.training import Training

T = TypeVar("T")
Asked = tuple[str, list[Any], list[int]]
"""What an operation is: its kind, what it is told, the numbers of the operations that made the models it is given."""

_SHARE = 0.01
"""Checkpoints take no more than this share of the time, however large the models are."""

_PATIENCE_S = 1.0
"""An interrupted run ends at once, without a checkpoint that takes as long as this."""


class Location:
    """One model. number: of the operation that made it. held: where the executor has it; None: it is not there yet.

    sha256: what its file is called; None where it has none.
    """

    __slots__ = ("__weakref__", "held", "number", "sha256")

    def __init__(self, number: int, held: Any = None, sha256: str | None = None) -> None:
        self.number, self.held, self.sha256 = number, held, sha256


class _Asked(Generic[T]):
    """A pending operation that the executor was asked for."""

    __slots__ = ("__weakref__", "_answer", "_owner", "asked", "inputs", "number", "pending")

    def __init__(
        self, owner: Journalled, number: int, asked: Asked, inputs: Sequence[Location], pending: Pending[Any]
    ) -> None:
        self._owner, self.number, self.asked, self._answer = owner, number, asked, None
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


class _Unwanted:
    """An operation that nobody waited for when the run was recorded."""

    def __init__(self, number: int) -> None:
        self._number = number

    def result(self) -> Any:
        raise RunError(
            f"operation {self._number}: its result is wanted now and was not when the run was recorded: the strategy "
            "depends on something besides its seed and what the federation returns, and cannot be resumed"
        )

    def done(self) -> bool:
        return False


class Journalled:
    """`executor`, its operations in `journal`, its models in `models`. It closes neither; `settle` before they are.

    every_s: seconds between two checkpoints; more where they take long. wall_s: seconds that the run took so far.
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
        self.size_bytes, self.trains, self.sections = executor.size_bytes, executor.trains, executor.sections
        self._executor, self._journal, self._models = executor, journal, models
        self._every_s, self._wall_s = every_s, wall_s
        self._initial = Location(0, executor.initial())
        self._number = 0
        self._answers = dict(journal.rows)
        journal.rows.clear()
        self._rows: list[tuple[dict[str, Any], list[weakref.ref[Location]]]] = []
        self._asked: weakref.WeakValueDictionary[int, _Asked[Any]] = weakref.WeakValueDictionary()
        self._live: weakref.WeakSet[Location] = weakref.WeakSet()
        self._kept = models.names()
        self._journalling = True
        self._due = time.monotonic() + every_s
        self._took_s = 0.0
        self._thread = ThreadPoolExecutor(1, "checkpoint")
        self._writing: Future[None] | None = None

    def initial(self) -> Location:
        return self._initial

    def train(self, location: Location, client: int, visit: int, training: Training) -> Pending[Trained]:
        return self._submit(
            "train", [client, visit], location, lambda held: self._executor.train(held, client, visit, training)
        )

    def train_rows(self, location: Location, rows: Rows, visit: int, training: Training) -> Pending[Trained]:
        return self._submit(
            "train_rows",
            [visit, len(rows)],
            location,
            lambda held: self._executor.train_rows(held, rows, visit, training),
        )

    def evaluate(self, location: Location) -> Pending[Evaluation]:
        return self._submit("evaluate", [], location, self._executor.evaluate)

    def apply(
        self,
        function: Callable[..., Any],
        locations: Sequence[Location],
        statistics: Statistics | None = None,
    ) -> Any:
        name = getattr(function, "__qualname__", type(function).__qualname__)
        return self._at_once(
            ("apply", [name], [location.number for location in locations]),
            lambda: self._executor.apply(
                function,
                [self._held(location) for location in locations],
                statistics and statistics.mapped(self._held),
            ),
        )

    def place(self, read: Callable[[], Vector]) -> Any:
        return self._at_once(("place", [], []), lambda: self._executor.place(read))

    def _at_once(self, asked: Asked, do: Callable[[], Any]) -> Any:
        """What `do` returns, or returned when the run was recorded."""
        self._checkpoint_if_due()
        number, row = self._next(asked)
        if row is not None:
            return decode(row["out"], self._recalled(row))
        answer = self._with_locations(number, do())
        self._record(number, asked, answer)
        return answer

    def is_location(self, value: object) -> bool:
        return isinstance(value, Location)

    def vector(self, location: Location) -> Vector:
        return self._executor.vector(self._held(location))

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
        """Whether a resumed run is not yet where it was."""
        return self._number < self._journal.submitted

    def interrupt(self) -> None:
        """The run is interrupted here: a last checkpoint, unless that takes long."""
        self.settle()
        if self._took_s < _PATIENCE_S:
            self._last_checkpoint()
        self.stop()

    def stop(self) -> None:
        """Journal nothing any more: what tasks ask for while they are unwound is no part of the run."""
        self._journalling = False

    # Operations -----------------------------------------------------------------------------------------------------

    def _submit(
        self, kind: str, told: list[Any], location: Location, ask: Callable[[Any], Pending[Any]]
    ) -> Pending[Any]:
        self._checkpoint_if_due()
        asked: Asked = (kind, told, [location.number])
        number, row = self._next(asked)
        if row is not None:
            return Done(self._recalled_answer(kind, row))
        if number <= self._journal.submitted and number not in self._journal.unanswered:
            return _Unwanted(number)
        operation: _Asked[Any] = _Asked(self, number, asked, [location], ask(self._held(location)))
        self._asked[number] = operation
        return operation

    def _next(self, asked: Asked) -> tuple[int, Mapping[str, Any] | None]:
        """The number of the operation that is asked for now, and its row, where the journal has it."""
        self._number += 1
        row = self._answers.pop(self._number, None)
        if row is not None and (recorded := (row["op"], row["told"], row["in"])) != asked:
            raise RunError(
                f"operation {self._number} was {recorded} when the run was recorded and is {asked} now: the strategy "
                "depends on something besides its seed and what the federation returns, and cannot be resumed"
            )
        return self._number, row

    def _finish(self, operation: _Asked[Any]) -> None:
        """Wait for an operation's result."""
        try:
            self._take(operation)
        except FedtempoError:
            self._last_checkpoint()
            self.stop()
            raise
        self._checkpoint_if_due()

    def _take(self, operation: _Asked[Any]) -> None:
        assert operation.pending is not None
        result = operation.pending.result()
        if isinstance(result, Trained):
            result = Trained(self._new_location(operation.number, result.location), result.statistics, result.flaw)
        operation.answered(result)
        self._asked.pop(operation.number, None)
        self._record(operation.number, operation.asked, result)

    def _record(self, number: int, asked: Asked, answer: Any) -> None:
        """What an operation returned is written down now: what its receiver makes of it later is no matter."""
        if not self._journalling:
            return
        made: list[Location] = []

        def model(value: Any) -> int | None:
            if not isinstance(value, Location):
                return None
            made.append(value)
            return len(made) - 1

        kind, told, given = asked
        try:
            if isinstance(answer, Trained):
                out = encode((answer.location, answer.statistics, answer.flaw), model)
            elif isinstance(answer, Evaluation):
                out = encode((answer.accuracy, answer.loss, answer.mae), model)
            else:
                out = encode(answer, model)
        except TypeError as error:
            raise RunError(
                f"on_server({told[0]}): {error}: return numbers, text, arrays, or lists, tuples and dicts of them, or "
                "set run.checkpoint_every = 0, without which a run begins from its start when it is resumed"
            ) from error
        row = {"n": number, "op": kind, "told": told, "in": given, "out": out}
        self._rows.append((row, [weakref.ref(location) for location in made]))

    def _recalled_answer(self, kind: str, row: Mapping[str, Any]) -> Trained | Evaluation:
        answer = decode(row["out"], self._recalled(row))
        return Evaluation(*answer) if kind == "evaluate" else Trained(*answer)

    # Models ---------------------------------------------------------------------------------------------------------

    def _new_location(self, number: int, held: Any = None, sha256: str | None = None) -> Location:
        location = Location(number, held, sha256)
        self._live.add(location)
        return location

    def _recalled(self, row: Mapping[str, Any]) -> list[Location]:
        """The models that a row's operation made, as names."""
        return [self._new_location(row["n"], None, sha256) for sha256 in row["models"]]

    def _held(self, location: Location) -> Any:
        """Where the executor has a model; it is read from its file where that is not yet so."""
        if location.held is None:
            if location.sha256 is None:
                raise RunError(
                    f"the model that operation {location.number} made is needed and was not when the run was recorded"
                )
            vector = self._models.read(location.sha256)
            location.held = self._executor.place(lambda: vector)
        return location.held

    def _with_locations(self, number: int, value: Any) -> Any:
        """What the executor returned, its locations replaced by ours."""
        if self._executor.is_location(value):
            return self._new_location(number, value)
        if isinstance(value, tuple):
            return tuple(self._with_locations(number, item) for item in value)
        return value

    # Checkpoints ----------------------------------------------------------------------------------------------------

    def settle(self) -> None:
        """Wait until the checkpoint that is being written is on the disk. Raises RunError where it cannot be."""
        if (writing := self._writing) is None:
            return
        try:
            writing.result()
        except BaseException:  # what is on the disk is whole, and no longer goes with what is here
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
            self._due = ended + max(self._every_s, self._took_s / _SHARE)

        self._writing = self._thread.submit(timed)

    def _write(self) -> Callable[[], None]:
        """Write the models; returns what remains to be done, and needs nothing of what goes on changing."""
        for operation in [operation for operation in self._asked.values() if operation.done()]:
            with contextlib.suppress(FedtempoError):  # raised where the result is asked for
                self._take(operation)
        needed = set()
        for location in list(self._live):
            if location.sha256 is None and location.held is not None:
                location.sha256 = self._models.add(self._executor.vector(location.held))
            if location.sha256 is not None:
                needed.add(location.sha256)
        rows = [{**row, "models": list(map(_sha256, made))} for row, made in self._rows]
        number, unanswered, wall_s, kept = self._number, list(self._asked), self._wall_s(), needed | self._kept
        self._rows, self._kept = [], needed

        def finish() -> None:
            self._models.sync()
            self._journal.checkpoint(rows, number, unanswered, wall_s)
            self._models.keep(kept)

        return finish


def _sha256(reference: weakref.ref[Location]) -> str | None:
    location = reference()
    return None if location is None else location.sha256
