"""The result of a planner: one group, whose stops are clients with the ticks at which they start."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Status = Literal["optimal", "feasible", "infeasible", "unknown"]


@dataclass(frozen=True)
class Plan:
    """A planned group, or the statement that there is none.

    status: "optimal" (proved), "feasible" (not proved optimal), "infeasible" (proved), "unknown" (the search ended
    before it found a group or proved that there is none).
    stops: (client, begin) in order of time; durations: ticks of each stop; both empty without a group. end: end of the
    last stop. z: booked ticks of the least busy client if the group is booked. bound: upper bound on z of any group.
    All three are None without a group (bound may be known if "unknown").
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
