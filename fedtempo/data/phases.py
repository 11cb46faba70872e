"""The phases of a run whose examples change at instants of its clock (`fedtempo.data.drift`)."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass


@dataclass(frozen=True)
class Phases:
    """When examples change. instants: seconds, ascending; phase k begins at instant k - 1, phase 0 at time 0.

    tests: for each phase, the phase in which the test set became what it is. n_clients: number of clients.
    """

    instants: tuple[float, ...]
    tests: tuple[int, ...]
    n_clients: int

    def holder(self, client: int, time: float) -> int:
        """Return the number of a client's examples at a time, seconds: client + phase * n_clients."""
        return client + self.n_clients * self.at(time)

    def at(self, time: float) -> int:
        """Return the phase at a time, seconds. At an instant its phase has begun."""
        return bisect_right(self.instants, time)

    def test_set(self, name: str, time: float) -> str:
        """Return the name of a test set ("test") at a time: itself, or name@phase once it has changed."""
        return in_phase(name, self.tests[self.at(time)])


def in_phase(name: str, phase: int) -> str:
    """Return the name of a set of examples in a phase, "name@phase"; without a suffix in phase 0."""
    return f"{name}@{phase}" if phase else name


def name_and_phase(name: str) -> tuple[str, int]:
    """Return a set's name and its phase, the inverse of `in_phase`."""
    base, _, phase = name.partition("@")
    return base, int(phase or 0)
