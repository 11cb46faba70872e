"""A model that stays on a device and makes visits there, one after another, in a stream."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedtempo.learning.augmentation import Augmentation
from fedtempo.learning.course import Course, pieces
from fedtempo.learning.evaluation import outcome
from fedtempo.learning.examples import Examples
from fedtempo.learning.local import batches
from fedtempo.learning.losses import loss_of
from fedtempo.learning.measuring import rows_to_evaluate, sums_over
from fedtempo.learning.metrics import Gathers
from fedtempo.learning.numerics import torch_seed
from fedtempo.learning.recordable import obstacle
from fedtempo.learning.state import FlatModel
from fedtempo.learning.training import Training
from fedtempo.runtime.executors.streams import Mark, Stream

Rows = np.ndarray[Any, np.dtype[np.integer[Any]]]
"""Row numbers, int64."""

MAX_COURSES = 8
"""Number of training settings whose recordings a stream keeps (least recently used are dropped)."""

MAX_RECORDINGS = 64
"""Number of recordings that a stream keeps for each of them (likewise)."""

_log = logging.getLogger(__name__)


class Recordings:
    """Decides which visits are recorded, and counts recordings. wanted: False to record none.

    Counts over all streams: made (recordings), repeated (pieces of visits done by a recording), plain (pieces done step
    by step: a stream does each kind of piece once before it records it).
    """

    def __init__(self, wanted: bool) -> None:
        self._wanted = wanted
        self._obstacles: dict[Training | None, str | None] = {}
        self.made = self.repeated = self.plain = 0

    def allowed(self, settings: Training, find_obstacle: Callable[[], str | None]) -> bool:
        """Return whether visits with these settings are recorded.

        find_obstacle: returns why such a step cannot be recorded, if so; called the first time.
        """
        if not self._wanted:
            return False
        if settings not in self._obstacles:
            reason = find_obstacle()
            if reason is not None and reason not in self._obstacles.values():
                self._warn(reason)
            self._obstacles[settings] = reason
        return self._obstacles[settings] is None

    def failed(self, error: Exception) -> None:
        """Record nothing from now on: the device failed to record a step that seemed recordable."""
        self._wanted = False
        cause = error.__context__ or error
        reason = self._obstacles[None] = f"recording failed: {str(cause).strip().splitlines()[0]}"
        self._warn(reason)

    @property
    def obstacles(self) -> list[str]:
        return sorted({reason for reason in self._obstacles.values() if reason is not None})

    def _warn(self, reason: str) -> None:
        _log.warning("training runs step by step, without CUDA graphs: %s", reason)


@dataclass(frozen=True)
class Started:
    """A visit in progress: its resulting model and measurements, valid once `mark` is passed."""

    out: Tensor
    outcome: Tensor
    used: int
    mark: Mark


class _Recording:
    """Recorded steps on the rows that the tensor `rows` holds when `repeat` is called."""

    __slots__ = ("repeat", "rows")

    def __init__(self, rows: Tensor, repeat: Callable[[], None]) -> None:
        self.rows, self.repeat = rows, repeat


class _Recorded:
    """A course and its recordings by (method, batch size, number of batches); None for a piece done once so far."""

    def __init__(self, course: Course) -> None:
        self.course = course
        self.recordings: OrderedDict[tuple[str, int, int], _Recording | None] = OrderedDict()


class Resident:
    """One model in one stream. examples and recordings are shared by all streams of the device."""

    def __init__(
        self,
        stream: Stream,
        model: FlatModel,
        examples: Examples,
        recordings: Recordings,
        augment: str | None = None,
    ) -> None:
        """augment: the user's function that changes each training batch (`data.augment`), which is never recorded."""
        self.stream = stream
        self._augment = None if augment is None else Augmentation(augment)
        self._model, self._examples = model, examples
        self._recordings = recordings
        self._courses: OrderedDict[Training, _Recorded] = OrderedDict()

    def train(self, received: Tensor, rows: Rows, rng: np.random.Generator, training: Training) -> Started:
        """Start a visit from `received` on these rows (at least one), in the order of `local.train`."""
        with self.stream.active():
            seed = int(rng.integers(2**63))
            owned = torch.from_numpy(rows)
            visit_batches = list(batches(owned, training, rng))
            order = self.stream.sent(torch.cat(visit_batches).numpy())
            recorded, allowed = self._recorded(training, order[: len(visit_batches[0])])
            course = recorded.course

            def seeded() -> Any:
                return nullcontext() if allowed else torch_seed(seed, self.stream.device)

            if course.measures:
                sizes = _sizes(torch.split(owned, training.batch_size))
                with seeded():
                    course.begin_measuring(received)
                    self._do("measure", recorded, self.stream.sent(rows), sizes, allowed)
            with seeded():
                course.begin(received, training.lr, seed)
                self._do("step", recorded, order, _sizes(visit_batches), allowed)
            self._model.restore_frozen()
            outcome = self.stream.fetched(course.outcome())
            return Started(self._model.sent.clone(), outcome, len(order), self.stream.mark())

    def measure(self, received: Tensor, rows: Rows, rng: np.random.Generator, training: Training) -> Started:
        """Start measuring `received` on these rows, or on some of them (`measuring.rows_to_evaluate`)."""
        with self.stream.active():
            order = self.stream.sent(rows_to_evaluate(torch.from_numpy(rows), training, rng).numpy())
            self._model.load(received)
            loss = loss_of(training, self._model.vector.dtype, self._examples.labels)
            outcome = self.stream.fetched(sums_over(self._model, self._examples, loss, order))
            return Started(self._model.sent.clone(), outcome, len(order), self.stream.mark())

    def evaluate(
        self, received: Tensor, test: Examples, batches: Sequence[tuple[int, int]], gathers: Gathers
    ) -> tuple[list[tuple[Tensor, Tensor | None]], Mark]:
        """Start an evaluation on these batches of `test`, as (start, stop).

        The results (`evaluation.outcome`) are in this process's memory, and valid after the mark.
        """
        with self.stream.active():
            self._model.load(received)
            results = [outcome(self._model, test, start, stop, gathers) for start, stop in batches]
            if results:
                sums = self.stream.fetched(torch.stack([each for each, _ in results]))
                gathered = [None if each is None else self.stream.fetched(each) for _, each in results]
                return list(zip(sums, gathered, strict=True)), self.stream.mark()
            return [], self.stream.mark()

    def _recorded(self, training: Training, batch: Tensor) -> tuple[_Recorded, bool]:
        """Return the course for a visit, and whether it is recorded. batch: rows of the visit's first batch."""
        settings = _without_step_size(training)
        recorded = self._courses.get(settings)
        if recorded is None:
            recorded = self._courses[settings] = _Recorded(Course(self._model, self._examples, settings, self._augment))
            if len(self._courses) > MAX_COURSES:
                self._courses.popitem(last=False)
        self._courses.move_to_end(settings)
        course = recorded.course

        def example() -> None:
            with torch_seed(0, self.stream.device):
                course.begin(self._model.vector.clone(), 1.0)
                course.step(batch)

        def find_obstacle() -> str | None:
            return obstacle(example) if self._augment is None else "data.augment is a function of yours"

        return recorded, self._recordings.allowed(settings, find_obstacle)

    def _do(self, method: str, recorded: _Recorded, order: Tensor, sizes: Sequence[int], allowed: bool) -> None:
        """Call a method of the course for each batch of `order`, piece by piece."""
        for_batch: Callable[[Tensor], None] = getattr(recorded.course, method)
        start = 0
        for size, steps in pieces(sizes):
            rows = order[start : start + size * steps]
            start += size * steps
            recording = self._recording((method, size, steps), recorded, for_batch, rows) if allowed else None
            if recording is None:
                _each(for_batch, rows, size)
                self._recordings.plain += 1
            else:
                recording.rows.copy_(rows)
                recording.repeat()
                self._recordings.repeated += 1

    def _recording(
        self, key: tuple[str, int, int], recorded: _Recorded, for_batch: Callable[[Tensor], None], rows: Tensor
    ) -> _Recording | None:
        """Return the recording of a piece; None the first time, since the first execution sets everything up for it."""
        recordings, (_, size, _) = recorded.recordings, key
        if key not in recordings:
            recordings[key] = None
            if len(recordings) > MAX_RECORDINGS:
                recordings.popitem(last=False)
            return None
        recordings.move_to_end(key)
        if recordings[key] is None:
            buffer = rows.clone()
            try:
                repeat = self.stream.recorded(lambda: _each(for_batch, buffer, size))
            except RuntimeError as error:
                self._recordings.failed(error)
                return None
            recordings[key] = _Recording(buffer, repeat)
            self._recordings.made += 1
        return recordings[key]


def _sizes(batches: Sequence[Tensor]) -> list[int]:
    return [batch.numel() for batch in batches]


def _each(for_batch: Callable[[Tensor], None], rows: Tensor, size: int) -> None:
    for batch in torch.split(rows, size):
        for_batch(batch)


@lru_cache(maxsize=1024)
def _without_step_size(training: Training) -> Training:
    """Return the settings without their step size, which some strategies decrease from round to round."""
    return replace(training, lr=1.0)
