"""What the visits of a run use of its budget, and the end of the run when it is used up."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from fedtempo.federation import Visit
from fedtempo.record.recorder import VisitRow
from fedtempo.runtime.budget import Budget, in_words

_HOUR_S = 3600.0

Use = Callable[[int, float, float | None, float | None, float], float]
"""What a visit uses: of its client, start, when it had received and computed (None if it has not), and end, seconds."""


class Spending:
    """Ends a run when its visits have used up a budget; `ended` must be called with each visit that has ended.

    Visits in progress count with what they have used so far. Summing them takes long, so it is done only when the
    budget could be used up if all clients had been busy since the last time.
    """

    def __init__(
        self,
        budget: Budget,
        *,
        n_clients: int,
        compute_watts: npt.NDArray[np.float64] | None,
        link_watts: npt.NDArray[np.float64] | None,
        moved_bytes: Callable[[], int],
        in_progress: Callable[[], Iterable[Visit[Any]]],
        end: Callable[[str, str], None],
    ) -> None:
        """moved_bytes: returns the bytes sent so far. end: ends the run, by a kind of budget and for a reason."""
        self._bytes, self._moved_bytes = budget.bytes, moved_bytes
        self._in_progress, self._end = in_progress, end
        self._meters: list[_Meter] = []
        if budget.client_hours is not None:
            self._meters.append(_Meter("client_hours", budget.client_hours, _busy_s, float(n_clients)))
        if budget.watt_hours is not None:
            none = np.zeros(n_clients)
            compute, link = (none if watts is None else watts for watts in (compute_watts, link_watts))
            most = float(np.maximum(compute, link).sum())
            self._meters.append(
                _Meter("watt_hours", budget.watt_hours, _energy_of(compute.tolist(), link.tolist()), most)
            )
        self._over = False

    def ended(self, visit: VisitRow) -> None:
        """Add a visit that has ended, and end the run if the budget is used up."""
        if self._over:
            return
        if visit.started is not None:
            for meter in self._meters:
                meter.ended += meter.use(visit.client, visit.started, visit.received, visit.computed, visit.finished)
        if self._bytes is not None and (moved := self._moved_bytes()) >= self._bytes:
            self._used_up("bytes", moved, self._bytes)
        for meter in self._meters:
            if visit.finished >= meter.next_s and meter.measure(visit.finished, self._in_progress()) >= meter.limit:
                self._used_up(meter.kind, meter.used, meter.limit)

    def _used_up(self, kind: str, used: float, limit: float) -> None:
        if not self._over:
            self._over = True
            self._end(kind, f"{in_words(kind, used)} used; run.budget.{kind} allows {in_words(kind, limit)}")


class _Meter:
    """One kind of use, of which visits use seconds or joules, and the limit counts 3600 of them as one.

    ended: what the visits that have ended used. used: what all had used when last measured, in units of the limit.
    """

    def __init__(self, kind: str, limit: float, use: Use, fastest: float) -> None:
        """fastest: the most that all clients together can use per second."""
        self.kind, self.limit, self.use, self._fastest = kind, limit, use, fastest
        self.ended = self.used = 0.0
        self.next_s = 0.0
        """Time before which the limit cannot be reached, seconds."""

    def measure(self, now: float, in_progress: Iterable[Visit[Any]]) -> float:
        """Return what visits have used by `now`, in units of the limit."""
        open_use = math.fsum(  # exact, because the order of a set differs between runs
            self.use(visit.client.id, visit.started, visit.state.received_at, visit.computed, now)
            for visit in in_progress
        )
        self.used = (self.ended + open_use) / _HOUR_S
        left = (self.limit - self.used) * _HOUR_S
        self.next_s = now + left / self._fastest if self._fastest else math.inf
        return self.used


def _busy_s(client: int, started: float, received: float | None, computed: float | None, ended: float) -> float:
    return ended - started


def _energy_of(compute_watts: Sequence[float], link_watts: Sequence[float]) -> Use:
    """Return the function that gives a visit's energy in joules, as `record.measures.energy_wh` counts it."""

    def joules(client: int, started: float, received: float | None, computed: float | None, ended: float) -> float:
        received = ended if received is None else min(received, ended)
        computed = ended if computed is None else min(computed, ended)
        computing_s = computed - received
        return compute_watts[client] * computing_s + link_watts[client] * (ended - started - computing_s)

    return joules
