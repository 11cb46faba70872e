"""What planners hand back: one group, where each stop is a client and the tick at which it starts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Status = Literal["optimal", "feasible", "infeasible", "unknown"]


@dataclass(frozen=True)
class Plan:
    """A group, or the news that there is none.

    status: "optimal" (proved), "feasible" (not proved to be the best), "infeasible" (proved), "unknown" (the search
    ended before it found a group or proved that there is none).
    stops: (client, begin) in order of time, durations: ticks of each stop; both empty where there is no group.
    end: when the last stop ends. z: the least busy client's booked ticks, were the group booked. bound: no group that
    could be formed instead has a larger z. All three None where there is no group (bound may be known if "unknown").
    """

    status: Status
    stops: tuple[tuple[int, int], ...] = ()
    durations: tuple[int, ...] = ()
    end: int | None = None
    z: int | None = None
    bound: int | None = None

    def __bool__(self) -> bool:
        """Whether there is a group."""
        return bool(self.stops)
