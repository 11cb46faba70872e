"""What came to a run on real clients from outside, written down before anything follows from it.

A killed run is its strategy once more, from its start, with the instants of its journal: the same readings of the
clock, the same replies. Replies' models lie in files named by their hash, as all models of a journal do; what the
server made of them is in the journal's checkpoints.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fedtempo.deploy.live.loop import Instant
from fedtempo.deploy.live.messages import Answer, Failure, Sent
from fedtempo.errors import RunError
from fedtempo.record.journal import Journal
from fedtempo.record.models import ModelFiles
from fedtempo.runtime.executors import Evaluation, Vector
from fedtempo.runtime.executors.codec import decode, encode
from fedtempo.runtime.executors.journalled import Journalled


@dataclass(frozen=True)
class Ended:
    """Operation `number` is over. result: an Answer, an Evaluation, or a Sent of the server's own; or an exception."""

    number: int
    result: Any


@dataclass(frozen=True)
class Named:
    """The call that is operation `number` was sent, and has this name at the grid."""

    number: int
    name: str


@dataclass(frozen=True)
class Seen:
    """These nodes are there now; None: the same as before."""

    nodes: tuple[int, ...] | None


class Kept:
    """A model that came from outside. sha256: its file's name where the run has a journal."""

    __slots__ = ("__weakref__", "_files", "_vector", "sha256")

    def __init__(self, files: ModelFiles | None, sha256: str | None, vector: Vector | None) -> None:
        self._files, self.sha256, self._vector = files, sha256, vector

    def read(self) -> Vector:
        """The model. Raises RunError where its file is missing or damaged."""
        if self._vector is None:
            assert self._files is not None
            assert self.sha256 is not None
            self._vector = self._files.read(self.sha256)
        return self._vector


class LiveFiles(ModelFiles):
    """The models of a deployment: to be used from several threads.

    A checkpoint deletes none that nobody took up yet, nor any that came since the checkpoint before: the instants that
    brought them may be all that is left of a journal that lost its end.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._lock = threading.RLock()
        self._known: weakref.WeakSet[Kept] = weakref.WeakSet()
        self._arrived: set[str] = set()

    def add(self, model: Vector) -> str:
        with self._lock:
            return super().add(model)

    def sync(self) -> None:
        with self._lock:
            super().sync()

    def arrived(self, model: Vector) -> Kept:
        """Put a model that has just come on the disk."""
        with self._lock:
            sha256 = self.add(model)
            self.sync()
            self._arrived.add(sha256)
            return self.known(sha256, model)

    def known(self, sha256: str, model: Vector | None = None) -> Kept:
        """A model that came, now or before."""
        with self._lock:
            kept = Kept(self, sha256, model)
            self._known.add(kept)
            return kept

    def keep(self, hashes: Collection[str]) -> None:
        with self._lock:
            waiting = {kept.sha256 for kept in self._known if kept.sha256 is not None}
            super().keep({*hashes, *self._arrived, *waiting})
            self._arrived.clear()


class Chronicle:
    """The instants of a run, in its journal where it has one. past: those of a run that was resumed; whoever lets them
    happen again takes them.

    ended: numbers of operations that are over in the past.
    """

    def __init__(self, journal: Journal | None = None, files: LiveFiles | None = None) -> None:
        self._journal, self._files = journal, files
        self._rows: list[Mapping[str, Any]] = []
        self._written = 0
        self.past: list[Instant] = []
        if journal is not None:
            self.past = [self._read(row) for row in journal.came]
            self._written = len(self.past)
            journal.came.clear()
        events = [event for instant in self.past for event in instant.events]
        self.ended = frozenset(event.number for event in events if isinstance(event, Ended))

    def add(self, instant: Instant) -> None:
        """A new instant; on the disk when this returns, if anything came in it."""
        if self._journal is None:
            return
        self._written += 1
        events = [row for event in instant.events if (row := self._event(event)) is not None]
        self._rows.append({"n": self._written, "t": instant.time, "came": events})
        if events:
            self.flush()

    def flush(self) -> None:
        """All instants so far are on the disk; needed before anything leaves that follows from them."""
        if self._journal is not None and self._rows:
            if self._files is not None:
                self._files.sync()
            self._journal.add(self._rows)
            self._rows.clear()

    def stop(self) -> None:
        """Write down nothing any more."""
        self._journal = None

    def keep(self, sent: Any) -> Any:
        """What a client sent, its model on the disk where the run has a journal. From any thread."""
        if not isinstance(sent, Sent) or sent.model is None:
            return sent
        files = self._files
        return replace(sent, model=Kept(None, None, sent.model) if files is None else files.arrived(sent.model))

    # As rows --------------------------------------------------------------------------------------------------------

    def _event(self, event: Any) -> list[Any] | None:
        """An event as JSON values; None for what is in no record, since it ends the run or is done again."""
        match event:
            case Ended(number, Answer() as answer):
                sent, models = _packed(answer.sent)
                failure = None if answer.failure is None else [answer.failure.kind, answer.failure.reason]
                return ["answer", number, sent, models, answer.refusal, answer.flaw, failure]
            case Ended(number, Evaluation(accuracy, loss, mae)):
                return ["evaluation", number, *(encode(value, _no_model) for value in (accuracy, loss, mae))]
            case Ended(number, Sent() as trained):
                return ["trained", number, *_packed(trained)]
            case Named(number, name):
                return ["named", number, name]
            case Seen(nodes):
                return ["seen", nodes]
        return None

    def _read(self, row: Mapping[str, Any]) -> Instant:
        try:
            return Instant(row["t"], tuple(map(self._read_event, row["came"])))
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise RunError(f"the journal's instant {row.get('n')} cannot be read: {error!r}") from error

    def _read_event(self, row: list[Any]) -> Any:
        match row:
            case ["answer", number, sent, models, refusal, flaw, failure]:
                failed = None if failure is None else Failure(*failure)
                return Ended(number, Answer(self._unpacked(sent, models), refusal, flaw, failed))
            case ["evaluation", number, *scores]:
                return Ended(number, Evaluation(*(decode(score, []) for score in scores)))
            case ["trained", number, sent, models]:
                return Ended(number, self._unpacked(sent, models))
            case ["named", number, name]:
                return Named(number, name)
            case ["seen", nodes]:
                return Seen(None if nodes is None else tuple(nodes))
        raise ValueError(f"there is no event {row[0]!r}")

    def _unpacked(self, sent: Any, models: list[str]) -> Any:
        assert self._files is not None
        value = decode(sent, list(map(self._files.known, models)))
        match value:
            case ("training", statistics, compute_s, model):
                return Sent(statistics, compute_s, model)
            case ("other", other):
                return other
        raise ValueError(f"{value!r} is nothing that a client sends")


def _packed(sent: Any) -> tuple[Any, list[str]]:
    """What a client sent as JSON values, and the models in it."""
    models: list[str] = []

    def model(value: Any) -> int | None:
        if not isinstance(value, Kept):
            return None
        assert value.sha256 is not None
        models.append(value.sha256)
        return len(models) - 1

    value = ("training", sent.statistics, sent.compute_s, sent.model) if isinstance(sent, Sent) else ("other", sent)
    return encode(value, model), models


def _no_model(value: Any) -> None:
    return None


class Interruption:
    """Who must know that a deployment ends before its end; see `fedtempo.runtime.runner.Interruptible`."""

    def __init__(self, chronicle: Chronicle, arithmetic: Journalled) -> None:
        self._chronicle, self._arithmetic = chronicle, arithmetic

    @property
    def replays(self) -> bool:
        return self._arithmetic.replays

    def interrupt(self) -> None:
        self._chronicle.flush()
        self._arithmetic.interrupt()
        self.stop()

    def stop(self) -> None:
        self._chronicle.stop()
        self._arithmetic.stop()
