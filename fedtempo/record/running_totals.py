"""Running totals of a run's visits and commits for its summary, in memory that does not grow with the run."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fedtempo.record.active_groups import ActiveGroups
from fedtempo.record.run import Records
from fedtempo.record.schema import OUTCOMES

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Totals:
    """Totals of a whole run. visits_done, busy_s: by client number, at least up to the last client visited.

    outcomes: number of visits by code of outcome. alive_s: summed over groups; most_alive: largest number of groups at
    one time. staleness_max: None without commits.
    """

    visits_done: Ints
    busy_s: Floats
    outcomes: Ints
    examples_trained: int
    commits: int
    staleness_sum: int
    staleness_max: int | None
    alive_s: float
    most_alive: int

    @classmethod
    def of_fact(cls, fact: Mapping[str, Any]) -> Totals:
        """Return the totals in the fact "totals", made by `as_fact`."""
        arrays = {"visits_done": np.int64, "busy_s": np.float64, "outcomes": np.int64}
        return cls(**{**fact, **{name: np.array(fact[name], dtype=kind) for name, kind in arrays.items()}})

    def as_fact(self) -> dict[str, Any]:
        return asdict(self)


class Tally:
    """Adds up rows in the order in which they are added; batching does not change the result.

    Visits must be added in the order in which they end. Memory does not grow with their number.
    """

    def __init__(self) -> None:
        self._visits_done: Ints = np.zeros(0, np.int64)
        self._busy_s: Floats = np.zeros(0)
        self._outcomes: Ints = np.zeros(len(OUTCOMES), np.int64)
        self._examples_trained = 0
        self._commits = 0
        self._staleness_sum = 0
        self._staleness_max: int | None = None
        self._alive = ActiveGroups()

    def begun(self, group: int, time: float) -> None:
        """Take note that a visit of a group starts; `add_visits` adds it when it has ended."""
        self._alive.begun(group, time)

    def add_visits(
        self, client: Ints, group: Ints, started: Floats, finished: Floats, outcome: Ints, examples: Ints
    ) -> None:
        """Add visits by column. group: -1 for none. started: NaN for a visit that never held its client."""
        if not client.size:
            return
        self._reach(int(client.max()) + 1)
        self._outcomes += np.bincount(outcome, minlength=len(OUTCOMES))
        done = outcome == OUTCOMES["done"]
        np.add.at(self._visits_done, client[done], 1)
        self._examples_trained += int(examples[done].sum())
        held = ~np.isnan(started)
        if not held.all():
            client, group, started, finished = client[held], group[held], started[held], finished[held]
        np.add.at(self._busy_s, client, finished - started)
        self._alive.add(group, started, finished)

    def add_commits(self, staleness: Ints) -> None:
        """Add commits by their staleness."""
        if staleness.size:
            self._commits += staleness.size
            self._staleness_sum += int(staleness.sum())
            highest = int(staleness.max())
            self._staleness_max = highest if self._staleness_max is None else max(self._staleness_max, highest)

    def totals(self, end_s: float) -> Totals:
        """Return the totals so far for a run that ended at `end_s`."""
        return Totals(
            visits_done=self._visits_done,
            busy_s=self._busy_s,
            outcomes=self._outcomes,
            examples_trained=self._examples_trained,
            commits=self._commits,
            staleness_sum=self._staleness_sum,
            staleness_max=self._staleness_max,
            alive_s=self._alive.seconds(end_s),
            most_alive=self._alive.most(end_s),
        )

    def close(self) -> None:
        """Release the temporary file; nothing may be added afterwards."""
        self._alive.close()

    def _reach(self, clients: int) -> None:
        missing = clients - self._busy_s.size
        if missing > 0:
            self._visits_done = np.pad(self._visits_done, (0, missing))
            self._busy_s = np.pad(self._busy_s, (0, missing))


def totals_of(records: Records, end_s: float) -> Totals:
    """Return the totals of a run: from its tables, or as recorded if it has no rows.

    Time after the end of the run does not count. Raises RunError if it has no rows and no totals.
    """
    if not records.has_rows:
        return Totals.of_fact(records.totals)
    visits, tally = records.visits, Tally()
    names, index = np.unique(visits["outcome"], return_inverse=True)
    with contextlib.closing(tally):
        tally.add_visits(
            visits["client"],
            visits["group"],
            np.minimum(visits["started"], end_s),
            np.minimum(visits["finished"], end_s),
            np.array([OUTCOMES[name] for name in names.tolist()], np.int64)[index],
            visits["examples"],
        )
        tally.add_commits(records.commits["staleness"])
        return tally.totals(end_s)
