"""Consistency checks of records during a run."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from fedtempo.errors import RunError
from fedtempo.record.recorder import Observer, Recorder, VisitRow


class Verified(Recorder):
    """A recorder that raises RunError for impossible records.

    Time never goes back, and nothing happens after the horizon. A visit ends once, its phases are in order, and each
    client makes one visit at a time. Versions increase by one, and no visit or evaluation has a future version. Exactly
    one model is transferred for each visit that is done.
    """

    def __init__(
        self,
        folder: Path | None,
        *,
        n_clients: int,
        horizon_s: float | None,
        rows: bool = True,
        observers: Iterable[Observer] = (),
        say: Callable[[str], None] | None = None,
    ) -> None:
        super().__init__(folder, rows=rows, observers=observers, say=say)
        self._horizon_s = math.inf if horizon_s is None else horizon_s
        self._now = self._evaluated_at = 0.0
        self._version = self._evaluated = 0
        self._free_at = [0.0] * n_clients
        self._all_ended, self._ended = 0, set[int]()
        """Numbers of visits that have ended: all up to the first number, and the set of others."""
        self._arriving: list[int] = []
        self._model_bytes: int | None = None

    def visit(self, row: VisitRow) -> None:
        number, client, _, base_version, queued, started, received, computed, finished, outcome, examples, _ = row
        self._time(finished, f"visit {number} ends")
        passed = [time for time in (queued, started, received, computed, finished) if time is not None]
        if passed != sorted(passed):
            self._impossible(f"the phases of visit {number} are at {passed} s")
        if number <= self._all_ended or number in self._ended:
            self._impossible(f"visit {number} ends twice ({outcome})")
        self._ended.add(number)
        while self._all_ended + 1 in self._ended:
            self._all_ended += 1
            self._ended.remove(self._all_ended)
        if started is not None and started < self._free_at[client]:
            self._impossible(f"visit {number} of client {client} began at {started!r} s, before its last had ended")
        self._free_at[client] = finished
        if base_version > self._version:
            self._impossible(f"visit {number} started from version {base_version} of {self._version}")
        if outcome in ("done", "refused"):
            self._arrives(number, trains=examples > 0)
        super().visit(row)

    def commit(self, version: int, time: float, staleness: int) -> None:
        self._time(time, f"version {version} is committed")
        if version != self._version + 1:
            self._impossible(f"version {version} follows {self._version}")
        self._version = version
        super().commit(version, time, staleness)

    def evaluation(self, time: float, version: int, accuracy: float, loss: float, mae: float | None = None) -> None:
        """Check an evaluation, which may be recorded later than its instant."""
        if not self._evaluated_at <= time <= self._horizon_s or not self._evaluated <= version <= self._version:
            self._impossible(f"version {version} is evaluated at {time!r} s, after {self._evaluated_at!r} s")
        self._evaluated_at, self._evaluated = time, version
        super().evaluation(time, version, accuracy, loss, mae)

    def traffic(self, down: int = 0, up: int = 0, relay: int = 0, examples: int = 0, along: int = 0) -> None:
        if min(down, up, relay) < 0:
            self._impossible(f"{(down, up, relay)} bytes are sent down, up and between clients")
        if not down:
            self._arriving.append(up + relay)
        super().traffic(down, up, relay, examples, along)

    def fact(self, name: str, value: Any) -> None:
        if name in ("size_bytes", "upload_bytes"):  # the latter follows if updates are compressed
            self._model_bytes = value
        super().fact(name, value)

    def complete(self, in_progress: int) -> None:
        """Check that no visit is in progress after the run's end."""
        if in_progress:
            self._impossible(f"{in_progress} visits are in progress after the run's end")

    def _arrives(self, number: int, *, trains: bool) -> None:
        """Check the traffic of a visit that has just ended."""
        arrived, self._arriving = self._arriving, []
        if self._model_bytes == 0:
            return  # downloads cannot be distinguished from uploads
        if len(arrived) != 1 or (trains and self._model_bytes is not None and arrived[0] != self._model_bytes):
            self._impossible(
                f"visit {number} has ended after transfers of {arrived} bytes; an update has {self._model_bytes}"
            )

    def _time(self, time: float, what: str) -> None:
        if not self._now <= time <= self._horizon_s:
            self._impossible(
                f"{what} at {time!r} s, after {self._now!r} s, before the horizon at {self._horizon_s!r} s"
            )
        self._now = time

    def _impossible(self, what: str) -> None:
        raise RunError(f"inconsistent records: {what}")
