"""What a page shows of a run that may last long, at a size that does not grow with it."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
T = TypeVar("T")


class Curve:
    """Points of a curve; once there are too many, every other one goes. The latest is always there."""

    def __init__(self, most: int = 1_000) -> None:
        self._most, self._every = most, 1
        self._kept: list[tuple[float, ...]] = []
        self._latest: tuple[float, ...] | None = None
        self.total = 0

    def add(self, point: tuple[float, ...]) -> None:
        if self.total % self._every == 0:
            self._kept.append(point)
            if len(self._kept) > self._most:
                self._kept, self._every = self._kept[::2], 2 * self._every
        self._latest = point
        self.total += 1

    def points(self) -> list[tuple[float, ...]]:
        """At most one more than `most`, in order."""
        if self._latest is None or self._kept[-1] == self._latest:
            return self._kept
        return [*self._kept, self._latest]


class Spans:
    """How many spans of time there are at each of some hundred instants; exact at these.

    A group's span goes from the start of its first visit to the end of its last; a visit without a group is one. Spans
    of the latest groups are known by number, so that a group goes on where it is visited again.
    """

    def __init__(self, end_s: float | None, instants: int = 400, known: int = 200_000) -> None:
        """end_s: where the run will end, None where that is not known. instants: an even number."""
        self._instants, self._known = instants, known
        self.every_s = 2.0**-10 if end_s is None else end_s / instants
        self._changes: Ints = np.zeros(instants + 1, np.int64)
        self._groups: dict[int, tuple[float, float]] = {}

    def add(self, group: Ints, started: Floats, finished: Floats) -> None:
        """Visits that have ended. group: -1 for none."""
        if not finished.size:
            return
        self._reach(float(finished.max()))
        alone = group < 0
        self._change(started[alone], 1)
        self._change(finished[alone], -1)
        for name, start, end in zip(group[~alone].tolist(), started[~alone].tolist(), finished[~alone].tolist()):
            known = self._groups.pop(name, None)
            if known is not None:
                self._change(np.array(known[:1]), -1)
                self._change(np.array(known[1:]), 1)
                start, end = min(start, known[0]), max(end, known[1])
            self._change(np.array([start]), 1)
            self._change(np.array([end]), -1)
            self._groups[name] = start, end
        while len(self._groups) > self._known:
            del self._groups[next(iter(self._groups))]

    def counts(self, until_s: float, going_on: Iterable[tuple[int, float]] = ()) -> list[int]:
        """At 0, `every_s`, ... up to `until_s`. going_on: group and start of visits that have not ended."""
        begins: dict[tuple[int, int], float] = {}
        for number, (group, started) in enumerate(going_on):
            if group in self._groups:
                begins[group, 0] = self._groups[group][1]  # up to there it is counted
            else:
                span = (group, 0) if group >= 0 else (-1, number)
                begins[span] = min(started, begins.get(span, math.inf))
        starts = np.array(list(begins.values()))
        self._reach(float(starts.max(initial=0.0)))
        changes = self._changes.copy()
        np.add.at(changes, self._at(starts), 1)
        shown = min(self._instants, math.floor(until_s / self.every_s)) + 1
        counts: list[int] = np.cumsum(changes)[:shown].tolist()
        return counts

    def _at(self, times: Floats) -> Ints:
        """The first instant that is not before each time."""
        return np.ceil(times / self.every_s).astype(np.int64)

    def _change(self, times: Floats, by: int) -> None:
        np.add.at(self._changes, self._at(times), by)

    def _reach(self, time_s: float) -> None:
        """Have instants up to a time: twice as far apart, as often as that needs."""
        while time_s > self._instants * self.every_s:
            kept = np.cumsum(self._changes)[::2]  # at the last instant, and later, no span is alive
            self._changes[:] = np.diff(np.pad(kept, (0, self._changes.size - kept.size)), prepend=0)
            self.every_s *= 2


class Histogram:
    """Counts of whole numbers in some bins of one width, which doubles where a number lies beyond the last."""

    def __init__(self, bins: int = 40) -> None:
        self.width = 1
        self._counts: Ints = np.zeros(bins, np.int64)

    def add(self, values: Ints) -> None:
        """values: 0 or more."""
        if not values.size:
            return
        while values.max() >= self.width * self._counts.size:
            merged = self._counts.reshape(-1, 2).sum(axis=1)
            self._counts = np.pad(merged, (0, self._counts.size - merged.size))
            self.width *= 2
        self._counts += np.bincount(values // self.width, minlength=self._counts.size)

    def counts(self) -> list[int]:
        """Up to the last bin that is not empty."""
        counts: list[int] = np.trim_zeros(self._counts, "b").tolist()
        return counts


class Recent(Generic[T]):
    """The latest items, known by how many there were before them."""

    def __init__(self, most: int) -> None:
        self._items: deque[T] = deque(maxlen=most)
        self.total = 0

    def add(self, items: Sequence[T]) -> None:
        self._items.extend(items)
        self.total += len(items)

    def after(self, seen: int, most: int) -> tuple[int, list[T]]:
        """Up to `most` items after the first `seen`, the oldest first, and how many are seen then.

        What is not kept any more is passed over; so is all where more were seen than there ever were.
        """
        first = self.total - len(self._items)
        begin = min(max(0, seen - first), len(self._items))
        items = list(islice(self._items, begin, begin + most))
        return first + begin + len(items), items
