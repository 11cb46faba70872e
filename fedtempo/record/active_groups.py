"""Count how long groups were alive and how many at the same time: exactly, in memory that does not grow with a run."""

from __future__ import annotations

import math
import sqlite3
from array import array
from itertools import chain

import numpy as np
import numpy.typing as npt

from fedtempo.errors import RunError

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

HELD = 2**17
"""Largest number of spans in memory."""


class ActiveGroups:
    """Spans of groups. A group lives from the start of its first visit to the end of its last.

    A visit without a group is its own group. Spans are kept in memory; once there are too many they are settled:
    reduced to the data below, and forgotten. For that, visits must be added in the order in which they end, and
    groups must have been `begun`. Settled spans leave:

    - lanes: each span takes the lane that became free last before it starts, or a new one. The number of lanes
      is the largest number of simultaneous spans, and only the lanes' ends matter to later spans;
    - the sum of ends minus starts, with twice the digits of a double;
    - the end of each group, in a temporary file, from which a group that is visited again continues.
    """

    def __init__(self) -> None:
        self._starts, self._ends = array("d"), array("d")
        self._groups: dict[int, tuple[float, float]] = {}
        self._begun: dict[int, float] = {}
        self._lanes: Floats = np.empty(0)
        self._sum_s = (0.0, 0.0)
        self._settled: sqlite3.Connection | None = None

    def begun(self, group: int, time: float) -> None:
        """Take note that a visit of a group starts."""
        if group not in self._groups:
            self._begun.setdefault(group, time)

    def add(self, group: Ints, started: Floats, finished: Floats) -> None:
        """Add visits by column. group: -1 for none. Raises RunError if a temporary file cannot be written."""
        alone = group < 0
        self._starts.frombytes(started[alone].tobytes())
        self._ends.frombytes(finished[alone].tobytes())
        try:
            if not alone.all():
                self._add_groups(group[~alone], started[~alone], finished[~alone])
            if len(self._starts) + len(self._groups) > HELD:
                self._settle()
        except sqlite3.Error as error:
            raise RunError(f"cannot write a temporary file for this run's groups: {error}") from error

    def seconds(self, end_s: float) -> float:
        """Return the total length of all spans, seconds. end_s: end of the run; later time does not count."""
        starts, ends = self._spans(end_s)
        if self._settled is None:
            return float(np.sort(ends - starts).sum())  # sorted: independent of the order of visits
        return math.fsum(chain(self._sum_s, ends.tolist(), (-starts).tolist()))

    def most(self, end_s: float) -> int:
        """Return the largest number of spans at one time; a span that ends as another starts is no longer alive."""
        return _lanes(self._lanes, *self._spans(end_s)).size

    def close(self) -> None:
        """Delete the temporary file, if any."""
        if self._settled is not None:
            self._settled.close()

    def _spans(self, end_s: float = math.inf) -> tuple[Floats, Floats]:
        """Return starts and ends of the spans in memory."""
        groups = np.array(list(self._groups.values()), dtype=np.float64).reshape(-1, 2)
        starts = np.concatenate([np.frombuffer(self._starts), groups[:, 0]])
        ends = np.concatenate([np.frombuffer(self._ends), groups[:, 1]])
        return starts, np.minimum(ends, end_s)

    def _add_groups(self, group: Ints, started: Floats, finished: Floats) -> None:
        names, index = np.unique(group, return_inverse=True)
        starts, ends = np.full(names.size, np.inf), np.full(names.size, -np.inf)
        np.minimum.at(starts, index, started)
        np.maximum.at(ends, index, finished)
        for name, start, end in zip(names.tolist(), starts.tolist(), ends.tolist()):
            if (held := self._groups.get(name)) is not None:
                start, end = held[0] if self._settled else min(held[0], start), max(held[1], end)
            else:
                start = self._continued_from(name, min(start, self._begun.pop(name, math.inf)))
            self._groups[name] = start, end

    def _continued_from(self, group: int, start: float) -> float:
        """Return the start of a new span of a group: the end of its settled span, if there is one, or else `start`."""
        if self._settled is None:
            return start
        row = self._settled.execute("SELECT ended FROM groups WHERE number = ?", [group]).fetchone()
        return start if row is None else float(row[0])

    def _settle(self) -> None:
        starts, ends = self._spans()
        self._lanes = _lanes(self._lanes, starts, ends)
        values = [*ends.tolist(), *(-starts).tolist()]
        total_s = math.fsum(chain(self._sum_s, values))
        self._sum_s = total_s, math.fsum(chain(self._sum_s, values, [-total_s]))
        if self._settled is None:
            self._settled = sqlite3.connect("")  # SQLite's name for a private temporary file
            self._settled.execute("PRAGMA journal_mode = OFF")
            self._settled.execute("CREATE TABLE groups(number INTEGER PRIMARY KEY, ended REAL)")
        with self._settled:
            rows = ((name, end) for name, (_, end) in self._groups.items())
            self._settled.executemany("INSERT OR REPLACE INTO groups VALUES(?,?)", rows)
        self._starts, self._ends = array("d"), array("d")
        self._groups.clear()


def _lanes(lanes: Floats, starts: Floats, ends: Floats) -> Floats:
    """Return the sorted times at which lanes became free, after these spans took lanes. They end after all lanes did.

    The number of lanes free from t on is how many fewer lanes are needed at t or later than before t.
    """
    times = np.concatenate([lanes, ends, starts])
    order = np.argsort(times, kind="stable")  # at one time ends come first
    alive = lanes.size + np.cumsum(np.where(order < lanes.size + ends.size, -1, 1))
    most_from_here = np.maximum.accumulate(np.concatenate([[lanes.size], alive])[::-1])[::-1]
    return np.repeat(times[order], -np.diff(most_from_here))
