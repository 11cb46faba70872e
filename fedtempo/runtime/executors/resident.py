"""A model that stays on a device and the visits that it does there, one after the other, in a lane."""

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

from fedtempo.learning.course import Course, pieces
from fedtempo.learning.evaluation import parts, sums
from fedtempo.learning.examples import Examples
from fedtempo.learning.local import batches
from fedtempo.learning.numerics import torch_seed
from fedtempo.learning.recordable import obstacle
from fedtempo.learning.state import FlatModel
from fedtempo.learning.training import Training
from fedtempo.runtime.executors.streams import Lane, Mark

Rows = np.ndarray[Any, np.dtype[np.integer[Any]]]
"""Row numbers, int64."""

MOST_COURSES = 8
"""Settings whose recordings a lane keeps; those used last stay."""

MOST_RECORDINGS = 64
"""Recordings of one of them that a lane keeps, likewise."""

_log = logging.getLogger(__name__)


class Recordings:
    """Which visits are recorded, and what became of them. wanted: False where none is.

    Counts, over all lanes: made (recordings), repeated (pieces of visits done by a recording), plain (pieces done step
    by step: each lane does each once before it records it).
    """

    def __init__(self, wanted: bool) -> None:
        self._wanted = wanted
        self._obstacles: dict[Training | None, str | None] = {}
        self.made = self.repeated = self.plain = 0

    def allowed(self, settings: Training, example: Callable[[], object]) -> bool:
        """Whether visits with these settings are recorded; `example` does such a step, and is called the first time."""
        if not self._wanted:
            return False
        if settings not in self._obstacles:
            found = obstacle(example)
            if found is not None and found not in self._obstacles.values():
                self._say(found)
            self._obstacles[settings] = found
        return self._obstacles[settings] is None

    def failed(self, error: Exception) -> None:
        """The device could not record what looked as if it could: nothing is recorded any more."""
        self._wanted = False
        cause = error.__context__ or error
        found = self._obstacles[None] = f"recording failed: {str(cause).strip().splitlines()[0]}"
        self._say(found)

    @property
    def obstacles(self) -> list[str]:
        return sorted({found for found in self._obstacles.values() if found is not None})

    def _say(self, reason: str) -> None:
        _log.warning("training goes step by step and is not recorded as CUDA graphs: %s", reason)


@dataclass(frozen=True)
class Started:
    """A visit under way: where its result will lie and what it will have measured, once `mark` is passed."""

    out: Tensor
    outcome: Tensor
    used: int
    mark: Mark


class _Recording:
    """Steps on the rows that `rows` holds."""

    __slots__ = ("repeat", "rows")

    def __init__(self, rows: Tensor, repeat: Callable[[], None]) -> None:
        self.rows, self.repeat = rows, repeat


class _Recorded:
    """A course and its recordings by (what is done for a batch, its size, how many); None for what was done once."""

    def __init__(self, course: Course) -> None:
        self.course = course
        self.recordings: OrderedDict[tuple[str, int, int], _Recording | None] = OrderedDict()


class Resident:
    """One model in one lane. examples, test: shared by all lanes of the device; so is `recordings`."""

    def __init__(
        self, lane: Lane, model: FlatModel, examples: Examples, test: Examples, recordings: Recordings
    ) -> None:
        self.lane = lane
        self._model, self._examples, self._test = model, examples, test
        self._recordings = recordings
        self._courses: OrderedDict[Training, _Recorded] = OrderedDict()

    def train(self, received: Tensor, rows: Rows, rng: np.random.Generator, training: Training) -> Started:
        """Begin a visit from `received` with these rows (at least one), in the order that `local.train` gives them."""
        with self.lane.active():
            seed = int(rng.integers(2**63))
            owned = torch.from_numpy(rows)
            taken = list(batches(owned, training, rng))
            order = self.lane.sent(torch.cat(taken).numpy())
            recorded, allowed = self._recorded(training, order[: len(taken[0])])
            course = recorded.course

            def seeded() -> Any:
                return nullcontext() if allowed else torch_seed(seed, self.lane.device)

            if course.measures:
                sizes = _sizes(torch.split(owned, training.batch_size))
                with seeded():
                    course.begin_measuring(received)
                    self._do("measure", recorded, self.lane.sent(rows), sizes, allowed)
            with seeded():
                course.begin(received, training.lr)
                self._do("step", recorded, order, _sizes(taken), allowed)
            self._model.restore_frozen(received)
            outcome = self.lane.fetched(course.outcome())
            return Started(self._model.vector.clone(), outcome, len(order), self.lane.mark())

    def evaluate(self, received: Tensor) -> tuple[Tensor, Mark]:
        """Begin an evaluation: a row a part, as `evaluation.evaluate_part` has it, there once the mark is passed."""
        with self.lane.active():
            self._model.load(received)
            results = [sums(self._model, self._test, start, stop) for start, stop in parts(len(self._test))]
            return self.lane.fetched(torch.stack(results)) if results else torch.empty(0, 2), self.lane.mark()

    def _recorded(self, training: Training, batch: Tensor) -> tuple[_Recorded, bool]:
        """The course for a visit, and whether it is recorded. batch: the rows of its first."""
        settings = _without_step_size(training)
        found = self._courses.get(settings)
        if found is None:
            found = self._courses[settings] = _Recorded(Course(self._model, self._examples, settings))
            if len(self._courses) > MOST_COURSES:
                self._courses.popitem(last=False)
        self._courses.move_to_end(settings)
        course = found.course

        def example() -> None:
            with torch_seed(0, self.lane.device):
                course.begin(self._model.vector.clone(), 1.0)
                course.step(batch)

        return found, self._recordings.allowed(settings, example)

    def _do(self, what: str, recorded: _Recorded, order: Tensor, sizes: Sequence[int], allowed: bool) -> None:
        """Do something for each batch of `order`, piece by piece."""
        for_batch: Callable[[Tensor], None] = getattr(recorded.course, what)
        start = 0
        for size, steps in pieces(sizes):
            rows = order[start : start + size * steps]
            start += size * steps
            recording = self._recording((what, size, steps), recorded, for_batch, rows) if allowed else None
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
        """The recording of a piece; it is made the second time, since the first time everything is set up for it."""
        known, (_, size, _) = recorded.recordings, key
        if key not in known:
            known[key] = None
            if len(known) > MOST_RECORDINGS:
                known.popitem(last=False)
            return None
        known.move_to_end(key)
        if known[key] is None:
            place = rows.clone()
            try:
                repeat = self.lane.recorded(lambda: _each(for_batch, place, size))
            except RuntimeError as error:
                self._recordings.failed(error)
                return None
            known[key] = _Recording(place, repeat)
            self._recordings.made += 1
        return known[key]


def _sizes(taken: Sequence[Tensor]) -> list[int]:
    return [batch.numel() for batch in taken]


def _each(for_batch: Callable[[Tensor], None], rows: Tensor, size: int) -> None:
    for batch in torch.split(rows, size):
        for_batch(batch)


@lru_cache(maxsize=1024)
def _without_step_size(training: Training) -> Training:
    """Settings that visits share although their step sizes differ: some strategies shrink these from round to round."""
    return replace(training, lr=1.0)
