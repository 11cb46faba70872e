"""A run's visits and commits as running totals: what its summary needs, at a memory that a long run can afford."""

from __future__ import annotations

from array import array

import numpy as np
import numpy.typing as npt

from fedtempo.record.run import Table
from fedtempo.record.schema import OUTCOMES

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


class Tally:
    """Totals over the rows that were added, in the order in which they were: how rows are batched does not show.

    visits_done, busy_s: of each client, by number. outcomes: visits by the code of their outcome. Of a visit without a
    group sixteen bytes stay, its span; of anything else nothing that grows with the number of visits.
    """

    def __init__(self) -> None:
        self.visits_done: Ints = np.zeros(0, np.int64)
        self.busy_s: Floats = np.zeros(0)
        self.outcomes: Ints = np.zeros(len(OUTCOMES), np.int64)
        self.examples_trained = 0
        self.commits = 0
        self.staleness_sum = 0
        self.staleness_max: int | None = None
        self._begins, self._ends = array("d"), array("d")
        self._groups: dict[int, int] = {}
        self._group_begins: Floats = np.zeros(0)
        self._group_ends: Floats = np.zeros(0)

    def add_visits(
        self, client: Ints, group: Ints, started: Floats, finished: Floats, outcome: Ints, examples: Ints
    ) -> None:
        """Columns of some visits. group: -1 for none. started: NaN for a visit that never held its client."""
        if not client.size:
            return
        self._reach(int(client.max()) + 1)
        self.outcomes += np.bincount(outcome, minlength=len(OUTCOMES))
        done = outcome == OUTCOMES["done"]
        np.add.at(self.visits_done, client[done], 1)
        self.examples_trained += int(examples[done].sum())
        held = ~np.isnan(started)
        if not held.all():
            client, group, started, finished = client[held], group[held], started[held], finished[held]
        np.add.at(self.busy_s, client, finished - started)
        alone = group < 0
        self._begins.frombytes(started[alone].tobytes())
        self._ends.frombytes(finished[alone].tobytes())
        if not alone.all():
            self._add_groups(group[~alone], started[~alone], finished[~alone])

    def add_commits(self, staleness: Ints) -> None:
        """The staleness of some commits."""
        if staleness.size:
            self.commits += staleness.size
            self.staleness_sum += int(staleness.sum())
            highest = int(staleness.max())
            self.staleness_max = highest if self.staleness_max is None else max(self.staleness_max, highest)

    def spans(self) -> tuple[Floats, Floats]:
        """When each group was alive: starts and ends, in no order. A visit without a group is one."""
        begins = np.concatenate([np.frombuffer(self._begins), self._group_begins])
        ends = np.concatenate([np.frombuffer(self._ends), self._group_ends])
        return begins, ends

    def _reach(self, clients: int) -> None:
        missing = clients - self.busy_s.size
        if missing > 0:
            self.visits_done = np.pad(self.visits_done, (0, missing))
            self.busy_s = np.pad(self.busy_s, (0, missing))

    def _add_groups(self, group: Ints, started: Floats, finished: Floats) -> None:
        names, index = np.unique(group, return_inverse=True)
        places = np.array([self._groups.setdefault(name, len(self._groups)) for name in names.tolist()])
        missing = len(self._groups) - self._group_begins.size
        if missing > 0:
            self._group_begins = np.pad(self._group_begins, (0, missing), constant_values=np.inf)
            self._group_ends = np.pad(self._group_ends, (0, missing), constant_values=-np.inf)
        np.minimum.at(self._group_begins, places[index], started)
        np.maximum.at(self._group_ends, places[index], finished)


def tally(visits: Table, commits: Table, end_s: float) -> Tally:
    """Of whole tables; what lies after the end of the run does not count."""
    totals = Tally()
    names, index = np.unique(visits["outcome"], return_inverse=True)
    totals.add_visits(
        visits["client"],
        visits["group"],
        np.minimum(visits["started"], end_s),
        np.minimum(visits["finished"], end_s),
        np.array([OUTCOMES[name] for name in names.tolist()], np.int64)[index],
        visits["examples"],
    )
    totals.add_commits(commits["staleness"])
    return totals


def most_alive(starts: Floats, ends: Floats) -> int:
    """Most groups that were alive at one time. Where one ends as another starts, only the new one is alive."""
    real = ends > starts
    starts, ends = np.sort(starts[real]), np.sort(ends[real])
    if not starts.size:
        return 0
    return int((np.arange(1, starts.size + 1) - np.searchsorted(ends, starts, side="right")).max())
