"""Data that a page shows of a run, in memory that does not grow with the run's length."""

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
    """Points of a curve. If there are too many, every other one is dropped; the latest is always included."""

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
        """Return the points in order, at most `most` + 1."""
        if self._latest is None or self._kept[-1] == self._latest:
            return self._kept
        return [*self._kept, self._latest]


class Spans:
    """Number of time spans that cover each of some hundred instants, exact at these instants.

    A group's span goes from the start of its first visit to the end of its last; a visit without a group is a span.
    Spans of the latest groups are kept by group number, so that further visits extend them.
    """

    def __init__(self, end_s: float | None, instants: int = 400, known: int = 200_000) -> None:
        """Start without spans.

        end_s: when the run will end, None if unknown. instants: an even number. known: number of groups to keep.
        """
        self._instants, self._known = instants, known
        self.every_s = 2.0**-10 if end_s is None else end_s / instants
        self._changes: Ints = np.zeros(instants + 1, np.int64)
        self._groups: dict[int, tuple[float, float]] = {}

    def add(self, group: Ints, started: Floats, finished: Floats) -> None:
        """Add visits that have ended. group: -1 for none."""
        if not finished.size:
            return
        self._reach(float(finished.max()))
        alone = group < 0
        self._change(started[alone], 1)
        self._change(finished[alone], -1)
        for name, start, end in zip(group[~alone].tolist(), started[~alone].tolist(), finished[~alone].tolist()):
            span = self._groups.pop(name, None)
            if span is not None:
                self._change(np.array(span[:1]), -1)
                self._change(np.array(span[1:]), 1)
                start, end = min(start, span[0]), max(end, span[1])
            self._change(np.array([start]), 1)
            self._change(np.array([end]), -1)
            self._groups[name] = start, end
        while len(self._groups) > self._known:
            del self._groups[next(iter(self._groups))]

    def counts(self, until_s: float, in_progress: Iterable[tuple[int, float]] = ()) -> list[int]:
        """Return the numbers at 0, `every_s`, ... up to `until_s`; in_progress: groups and starts of open visits."""
        begins: dict[tuple[int, int], float] = {}
        for number, (group, started) in enumerate(in_progress):
            if group in self._groups:
                begins[group, 0] = self._groups[group][1]  # it is counted up to there
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
        """Return the index of the first instant that is not before each time."""
        return np.ceil(times / self.every_s).astype(np.int64)

    def _change(self, times: Floats, by: int) -> None:
        np.add.at(self._changes, self._at(times), by)

    def _reach(self, time_s: float) -> None:
        """Extend the instants to a time, by doubling the distance between them as often as needed."""
        while time_s > self._instants * self.every_s:
            counts = np.cumsum(self._changes)[::2]  # no span is alive at the last instant or later
            self._changes[:] = np.diff(np.pad(counts, (0, self._changes.size - counts.size)), prepend=0)
            self.every_s *= 2


class Histogram:
    """Counts of whole numbers in bins of equal width, which doubles if a number lies beyond the last bin."""

    def __init__(self, bins: int = 40) -> None:
        self.width = 1
        self._counts: Ints = np.zeros(bins, np.int64)

    def add(self, values: Ints) -> None:
        """Count values of 0 or more."""
        if not values.size:
            return
        while values.max() >= self.width * self._counts.size:
            merged = self._counts.reshape(-1, 2).sum(axis=1)
            self._counts = np.pad(merged, (0, self._counts.size - merged.size))
            self.width *= 2
        self._counts += np.bincount(values // self.width, minlength=self._counts.size)

    def counts(self) -> list[int]:
        """Return the counts up to the last bin that is not empty."""
        counts: list[int] = np.trim_zeros(self._counts, "b").tolist()
        return counts


class Recent(Generic[T]):
    """The latest items of a sequence, addressed by their position in it."""

    def __init__(self, most: int) -> None:
        self._items: deque[T] = deque(maxlen=most)
        self.total = 0

    def add(self, items: Sequence[T]) -> None:
        self._items.extend(items)
        self.total += len(items)

    def after(self, seen: int, most: int) -> tuple[int, list[T]]:
        """Return the number of items seen after this call, and up to `most` items after the first `seen`, oldest first.

        Items that are no longer kept are skipped; so are all items if `seen` exceeds the total.
        """
        first = self.total - len(self._items)
        begin = min(max(0, seen - first), len(self._items))
        items = list(islice(self._items, begin, begin + most))
        return first + begin + len(items), items
