"""Visit deadlines, the limit on bad updates, and the faults that simulate them."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from fedtempo.errors import RunError
from fedtempo.federation import Client, Durations, Visit
from fedtempo.fleet.faults import REFUSED, Fault, Faults
from fedtempo.runtime.client_state import VisitState
from fedtempo.runtime.server import ServerSettings


class BadUpdates:
    """Counts rejected updates against `server.max_bad_updates`. most: that limit; None for no limit."""

    def __init__(self, most: int | None) -> None:
        self._most, self._refused = most, 0

    def add(self, client: Client, flaw: str, now: float) -> RunError | None:
        """Count a bad update. Returns the error that ends the run when the limit is first exceeded, else None."""
        self._refused += 1
        if self._most is None or self._refused != self._most + 1:
            return None
        return RunError(
            f"{self._refused} updates were rejected by t = {now:g} s, server.max_bad_updates = {self._most}; the last "
            f"was from client {client.id}: {flaw}"
        )


class Limits:
    """Deadlines and faults of a simulated run's visits.

    deadlines, faulty: whether the run has deadlines, and whether it has faults.
    """

    def __init__(self, server: ServerSettings, faults: Faults, rng: Callable[..., np.random.Generator]) -> None:
        self._server, self._rng = server, rng
        self._faults = faults if faults.total else None
        self.deadlines, self.faulty = server.deadline is not None, self._faults is not None

    def fault(self, client: Client, visit: int) -> Fault | None:
        """Return the fault of this visit, if any. The executor draws the same one from the same generator."""
        if self._faults is None:
            return None
        return self._faults.drawn(client.id, self._rng("faults", client.id, visit))

    def compute_factor(self, fault: Fault | None) -> float:
        """Return the factor by which a fault prolongs the visit's computing."""
        return 1.0 if self._faults is None or fault != "late" else self._faults.late_factor

    def flaw(self, fault: Fault | None) -> str | None:
        """Return the flaw of a faulty update in a run without training, where no model can show it."""
        return f"its fault is {fault!r} (without training there is no model to check)" if fault in REFUSED else None

    def wait(
        self,
        visit: Visit[VisitState],
        estimate: Callable[[Client], Durations],
        work: float = 1.0,
        extra_s: float = 0.0,
    ) -> None:
        """Set the server's patience with a visit, or extend it if the visit's work differs from the configuration.

        work: computing of this visit relative to a configured one. extra_s: time of what it sends besides a model,
        seconds. Does nothing without deadlines.
        """
        state, factor = visit.state, self._server.deadline
        if factor is None:
            return
        estimated = estimate(visit.client)
        if state.patience_s == math.inf:
            # The margin absorbs rounding: exactly the estimate's own seconds may be subtracted from it.
            state.patience_s = factor * estimated.visit_s * (1 + 1e-9)
        state.patience_s += factor * (estimated.compute_s * (work - 1) + extra_s)
