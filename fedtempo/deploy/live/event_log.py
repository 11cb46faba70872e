"""The log of events from outside the event loop of a run on real clients, written before anything follows from them.

A killed run is resumed by running its strategy again from the start with the instants of its journal: the same readings
of the clock and the same replies. The models in replies are stored in files named by their hash, as are all models of a
journal; what the server computed from them is in the journal's checkpoints.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fedtempo.deploy.live.loop import Instant
from fedtempo.deploy.live.messages import Answer, Failure, TrainingResult
from fedtempo.errors import RunError
from fedtempo.record.journal import Journal
from fedtempo.record.models import ModelFiles
from fedtempo.runtime.executors import Evaluation, Vector
from fedtempo.runtime.executors.codec import decode, encode
from fedtempo.runtime.executors.journalled import Journalled


@dataclass(frozen=True)
class OperationEnded:
    """The end of operation `number`.

    result: an Answer, an Evaluation, a TrainingResult of the server's own training, or an exception.
    """

    number: int
    result: Any


@dataclass(frozen=True)
class CallSent:
    """The call of operation `number` was sent; `name` identifies it at the grid."""

    number: int
    name: str


@dataclass(frozen=True)
class NodesOnline:
    """The nodes now online; None if they have not changed."""

    nodes: tuple[int, ...] | None


class ReceivedModel:
    """A model received from a client or from the server's own training.

    sha256: the name of its file, if the run has a journal.
    """

    __slots__ = ("__weakref__", "_files", "_vector", "sha256")

    def __init__(self, files: ModelFiles | None, sha256: str | None, vector: Vector | None) -> None:
        self._files, self.sha256, self._vector = files, sha256, vector

    def read(self) -> Vector:
        """Return the model's vector. Raises RunError if its file is missing or damaged."""
        if self._vector is None:
            assert self._files is not None
            assert self.sha256 is not None
            self._vector = self._files.read(self.sha256)
        return self._vector


class ReceivedModelFiles(ModelFiles):
    """The model files of a deployment; safe to use from several threads.

    A checkpoint deletes neither models that are still referenced nor models received since the previous checkpoint: if
    a journal loses its end, the instants in which they were received may be all that is left.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._lock = threading.RLock()
        self._referenced: weakref.WeakSet[ReceivedModel] = weakref.WeakSet()
        self._since_checkpoint: set[str] = set()

    def add(self, model: Vector) -> str:
        with self._lock:
            return super().add(model)

    def sync(self) -> None:
        with self._lock:
            super().sync()

    def receive(self, model: Vector) -> ReceivedModel:
        """Write a model that was just received to disk."""
        with self._lock:
            sha256 = self.add(model)
            self.sync()
            self._since_checkpoint.add(sha256)
            return self.reference(sha256, model)

    def reference(self, sha256: str, model: Vector | None = None) -> ReceivedModel:
        """Return a received model by its hash; its file is kept while the result exists."""
        with self._lock:
            received = ReceivedModel(self, sha256, model)
            self._referenced.add(received)
            return received

    def keep(self, hashes: Collection[str]) -> None:
        with self._lock:
            referenced = {model.sha256 for model in self._referenced if model.sha256 is not None}
            super().keep({*hashes, *self._since_checkpoint, *referenced})
            self._since_checkpoint.clear()


class EventLog:
    """The instants of a run, written to its journal if it has one.

    past: instants of a resumed run that are still to be replayed; the replayer takes them out. ended: numbers of the
    operations that ended in the past. failed: whether the instants so far could not be written.
    """

    def __init__(self, journal: Journal | None = None, files: ReceivedModelFiles | None = None) -> None:
        self._journal, self._files = journal, files
        self._rows: list[Mapping[str, Any]] = []
        self._written = 0
        self.failed = False
        self.past: list[Instant] = []
        if journal is not None:
            self.past = [self._read(row) for row in journal.came]
            self._written = len(self.past)
            journal.came.clear()
        events = [event for instant in self.past for event in instant.events]
        self.ended = frozenset(event.number for event in events if isinstance(event, OperationEnded))

    def add(self, instant: Instant) -> None:
        """Add a new instant. If it has events, it is on disk when this returns."""
        if self._journal is None:
            return
        self._written += 1
        events = [row for event in instant.events if (row := self._event(event)) is not None]
        self._rows.append({"n": self._written, "t": instant.time, "came": events})
        if events:
            self.flush()

    def flush(self) -> None:
        """Write all instants so far to disk; required before sending anything that follows from them."""
        if self._journal is not None and self._rows:
            self.failed = True  # until it is done
            if self._files is not None:
                self._files.sync()
            self._journal.add(self._rows)
            self.failed = False
            self._rows.clear()

    def stop(self) -> None:
        """Write nothing from now on."""
        self._journal = None

    def store(self, result: Any) -> Any:
        """Return a result with its model, and what came with it, as ReceivedModels. Thread-safe.

        They are on disk if the run has a journal.
        """
        if not isinstance(result, TrainingResult) or result.model is None:
            return result
        return replace(result, model=self._received(result.model), sent=tuple(map(self._received, result.sent)))

    def _received(self, vector: Vector) -> ReceivedModel:
        return ReceivedModel(None, None, vector) if self._files is None else self._files.receive(vector)

    # As rows --------------------------------------------------------------------------------------------------------

    def _event(self, event: Any) -> list[Any] | None:
        """Return an event as JSON values; None if it is not recorded since it ends the run or happens again anyway."""
        match event:
            case OperationEnded(number, Answer() as answer):
                result, models = _packed(answer.result)
                failure = None if answer.failure is None else [answer.failure.kind, answer.failure.reason]
                return ["answer", number, result, models, answer.refusal, answer.flaw, failure]
            case OperationEnded(number, Evaluation() as evaluation):
                return ["evaluation", number, *(encode(value, _no_model) for value in evaluation.as_values())]
            case OperationEnded(number, TrainingResult() as trained):
                return ["trained", number, *_packed(trained)]
            case CallSent(number, name):
                return ["named", number, name]
            case NodesOnline(nodes):
                return ["seen", nodes]
        return None

    def _read(self, row: Mapping[str, Any]) -> Instant:
        try:
            return Instant(row["t"], tuple(map(self._read_event, row["came"])))
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise RunError(f"the journal's instant {row.get('n')} cannot be read: {error!r}") from error

    def _read_event(self, row: list[Any]) -> Any:
        match row:
            case ["answer", number, result, models, refusal, flaw, failure]:
                failed = None if failure is None else Failure(*failure)
                return OperationEnded(number, Answer(self._unpacked(result, models), refusal, flaw, failed))
            case ["evaluation", number, *scores]:
                return OperationEnded(number, Evaluation(*(decode(score, []) for score in scores)))
            case ["trained", number, result, models]:
                return OperationEnded(number, self._unpacked(result, models))
            case ["named", number, name]:
                return CallSent(number, name)
            case ["seen", nodes]:
                return NodesOnline(None if nodes is None else tuple(nodes))
        raise ValueError(f"unknown event {row[0]!r}")

    def _unpacked(self, packed: Any, models: list[str]) -> Any:
        assert self._files is not None
        value = decode(packed, list(map(self._files.reference, models)))
        match value:
            case ("training", statistics, compute_s, lengths, model, *sent):
                return TrainingResult(statistics, compute_s, model, tuple(sent), lengths)
            case ("other", other):
                return other
        raise ValueError(f"unknown kind of result: {value!r}")


def _packed(result: Any) -> tuple[Any, list[str]]:
    """Return an operation's result as JSON values, and the hashes of the models in it."""
    models: list[str] = []

    def model(value: Any) -> int | None:
        if not isinstance(value, ReceivedModel):
            return None
        assert value.sha256 is not None
        models.append(value.sha256)
        return len(models) - 1

    if isinstance(result, TrainingResult):
        numbers = (result.statistics, result.compute_s, result.lengths)
        return encode(("training", *numbers, result.model, *result.sent), model), models
    return encode(("other", result), model), models


def _no_model(value: Any) -> None:
    return None


def online_at_the_end(rows: Iterable[Mapping[str, Any]]) -> int | None:
    """Return how many nodes were online when a journal ended; None if they had not been looked up yet.

    rows: its instants. Raises RunError if a row cannot be read.
    """
    nodes: Sequence[int] | None = None
    for row in rows:
        try:
            seen = [event[1] for event in row["came"] if event[0] == "seen" and event[1] is not None]
            nodes = list(seen[-1]) if seen else nodes
        except (KeyError, TypeError, IndexError) as error:
            raise RunError(f"the journal's instant {row.get('n')} cannot be read: {error!r}") from error
    return None if nodes is None else len(nodes)


class Interruption:
    """Notified before an interrupted deployment is cancelled; see `fedtempo.runtime.runner.Interruptible`."""

    def __init__(self, event_log: EventLog, arithmetic: Journalled) -> None:
        self._event_log, self._arithmetic = event_log, arithmetic

    @property
    def replays(self) -> bool:
        return self._arithmetic.replays

    def interrupt(self) -> None:
        if not self._event_log.failed:  # else that has already ended the run with an error
            self._event_log.flush()
            self._arithmetic.interrupt()
        self.stop()

    def conclude(self) -> None:
        """Do nothing: a deployment's state is not kept."""

    def stop(self) -> None:
        self._event_log.stop()
        self._arithmetic.stop()
