"""What the server puts up with: how long it waits for a visit, and how many bad updates it refuses."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from fedtempo.errors import RunError
from fedtempo.federation import Client, Durations, Visit
from fedtempo.fleet.faults import REFUSED, Fault, Faults
from fedtempo.runtime.server import ServerSettings


class Tolerance:
    """deadlines, faulty: whether there are deadlines, and faults. refused: updates so far."""

    def __init__(self, server: ServerSettings, faults: Faults, rng: Callable[..., np.random.Generator]) -> None:
        self._server, self._rng = server, rng
        self._faults = faults if faults.total else None
        self.deadlines, self.faulty = server.deadline is not None, self._faults is not None
        self.refused = 0

    def fault(self, client: Client, visit: int) -> Fault | None:
        """How this visit goes wrong. Whoever trains draws the same, from the same generator."""
        if self._faults is None:
            return None
        return self._faults.drawn(client.id, self._rng("faults", client.id, visit))

    def compute_factor(self, fault: Fault | None) -> float:
        """How many times as long the visit computes."""
        return 1.0 if self._faults is None or fault != "late" else self._faults.late_factor

    def flaw(self, fault: Fault | None) -> str | None:
        """What is wrong with an update, where there is no model that could show it."""
        return f"there is no model to look at, but its fault is {fault!r}" if fault in REFUSED else None

    def wait(self, visit: Visit, estimate: Callable[[Client], Durations], work: float = 1.0) -> None:
        """Set how long the server waits for a visit, or add what it takes more where its work is not as configured.

        work: how many times as much computing it is. Does nothing where there are no deadlines.
        """
        stay, factor = visit.state, self._server.deadline
        if factor is None:
            return
        believed = estimate(visit.client)
        if stay.patience_s == math.inf:
            # A little more than so many times: the estimate may be a sum of the very seconds that are taken off it.
            stay.patience_s = factor * believed.visit_s * (1 + 1e-9)
        stay.patience_s += factor * believed.compute_s * (work - 1)

    def refuse(self, client: Client, flaw: str, now: float) -> RunError | None:
        """One more bad update; the error that ends the run where these are too many."""
        self.refused += 1
        most = self._server.max_bad_updates
        if most is None or self.refused <= most:
            return None
        return RunError(
            f"{self.refused} updates were refused by t = {now:g} s, server.max_bad_updates = {most}; the last was of "
            f"client {client.id}: {flaw}"
        )
