"""Visits in progress: the bookkeeping that simulated and real runs share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Generic, Protocol, TypeVar

from fedtempo.federation import Client, Visit
from fedtempo.record.recorder import Recorder, VisitRow
from fedtempo.runtime.spending import Spending


class RecordedState(Protocol):
    """The part of a visit's state that is recorded.

    number: of the visit in its run. queued: when it began to wait for its client's turn, seconds. trains: False if the
    client only evaluates or sends raw examples. received_at: when the client had the model, seconds. statistics: of its
    training or evaluation.
    """

    number: int
    group: int | None
    queued: float
    trains: bool
    received_at: float | None
    statistics: Mapping[str, float] | None


S = TypeVar("S", bound=RecordedState)


class OpenVisits(ABC, Generic[S]):
    """The visits of one run that hold their client.

    begun: number of visits so far. spending: learns of each visit that has ended, if the run has a budget.
    """

    def __init__(self, recorder: Recorder, horizon: float) -> None:
        self._recorder, self._horizon = recorder, horizon
        self.begun = 0
        self._held: set[Visit[S]] = set()
        self._closing = False
        self.spending: Spending | None = None

    @property
    @abstractmethod
    def _now(self) -> float:
        """The run's clock, seconds."""

    @abstractmethod
    def end(self, visit: Visit[S], outcome: str) -> None:
        """End a visit with an outcome of `schema.OUTCOMES`."""

    @property
    def end_s(self) -> float:
        """The run's end if it ended now, seconds: its last instant lies just after the horizon, and does not count."""
        return min(self._now, self._horizon)

    def in_progress(self) -> list[Visit[S]]:
        """Return the visits that hold a client now. Safe to call from another thread: copying a set is atomic."""
        return list(self._held)

    def close(self) -> None:
        """End the visits in progress as cut; no visit begins after this."""
        self._closing = True
        for visit in sorted(self._held, key=lambda visit: visit.state.number):
            visit.release()

    def _give_up(self, visit: Visit[S]) -> None:
        """End a visit released before its end; a visit that began as the run ended is not recorded."""
        if self._closing and visit.started >= self.end_s:
            self._held.discard(visit)
        else:
            self.end(visit, "cut" if self._closing else "cancelled")

    def _record(
        self,
        client: Client,
        version: int,
        state: S,
        started: float,
        received: float | None,
        computed: float | None,
        ended: float,
        outcome: str,
    ) -> None:
        """Record a visit of `client` that started from `version` of the global model."""
        row = VisitRow(
            state.number,
            client.id,
            state.group,
            version,
            state.queued,
            started,
            received,
            computed,
            ended,
            outcome,
            client.num_examples if state.trains else 0,
            state.statistics.get("loss") if state.statistics else None,
        )
        self._recorder.visit(row)
        if self.spending is not None:
            self.spending.ended(row)
