"""The points that a tracker receives, over a run's clock and visits, derived from recorded events."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from fedtempo.record.metric import measure_of
from fedtempo.record.recorder import VisitRow

_PROGRESS_POINTS = 500


@dataclass(frozen=True)
class About:
    """A run: its name, folder, configuration tables, and when it began (seconds since 1970)."""

    name: str
    folder: Path
    tables: Mapping[str, Any]
    began_s: float


@dataclass(frozen=True)
class Point:
    """Values by name at a time of the run's clock. visits: number of visits that had ended by then."""

    time_s: float
    visits: int
    values: Mapping[str, float]


class Tracker(Protocol):
    """Receives the points of a run.

    It is created without arguments before the run begins; an ImportError then means that a library is missing. The
    methods are called from one thread, which is not the run's: `begin` before the first point, `log` with new points,
    `end` last. If one raises, the error is logged and the tracker is not called again.
    """

    def begin(self, about: About) -> None: ...
    def log(self, points: Sequence[Point]) -> None: ...
    def end(self, summary: Mapping[str, Any], artefacts: Sequence[Path]) -> None:
        """Finish. summary: as `summary.json`, empty if the run failed. artefacts: files worth keeping."""
        ...


class Points:
    """Makes points from recorded events (implements `record.recorder.Observer`) and passes them to `take`.

    Each evaluation gives a point with the loss and the data's measures: accuracy; token_accuracy and perplexity; or r2,
    rmse and mae. Further measures (`run.metrics`) have a point of their own. Values that are not finite are left out;
    from the first such loss on, not_finite counts them. Some hundred times per run, a commit gives a point with the
    version, visits by outcome, the mean busy ratio so far, the mean staleness since the last such point, and bytes
    moved.
    """

    def __init__(
        self,
        n_clients: int | None,
        *,
        horizon_s: float | None,
        max_commits: int | None,
        evaluates: bool,
        take: Callable[[Point], None],
    ) -> None:
        """Prepare. n_clients: None if unknown; busy ratios then count clients up to the highest number visited."""
        self._n_clients, self._take, self._evaluates = n_clients, take, evaluates
        self._measure = measure_of(None)
        self._visited = 0
        self._step_s = None if horizon_s is None else horizon_s / _PROGRESS_POINTS
        self._step_commits = max(1, (max_commits or 0) // _PROGRESS_POINTS)
        self._at_s, self._at_version = -math.inf, 0
        self._ended = array("d")
        """End times of visits that no evaluation has passed yet: evaluations arrive late."""
        self._passed = self._visits = 0
        self._busy_s = 0.0
        self._not_finite = 0
        self._lost = {"unavailable": 0, "late": 0, "refused": 0}
        self._staleness: list[int] = []
        self._moved = {"down": 0, "up": 0, "relay": 0}

    def visit(self, row: VisitRow) -> None:
        self._visits += 1
        self._visited = max(self._visited, row.client + 1)
        if row.started is not None:
            self._busy_s += row.finished - row.started
        if row.outcome in self._lost:
            self._lost[row.outcome] += 1
        if self._evaluates:
            self._ended.append(row.finished)

    def commit(self, version: int, time: float, staleness: int) -> None:
        self._staleness.append(staleness)
        due = version - self._at_version >= self._step_commits
        if self._step_s is not None:
            due = time - self._at_s >= self._step_s
        if not due:
            return
        self._at_s, self._at_version = time, version
        values: dict[str, float] = {
            "progress/version": version,
            "progress/time_s": time,
            "progress/visits": self._visits,
            "staleness/mean": sum(self._staleness) / len(self._staleness),
            **{f"lost/{name}": count for name, count in self._lost.items()},
            **{f"bytes/{way}": count for way, count in self._moved.items()},
        }
        if time > 0:
            values["busy/mean"] = self._busy_s / ((self._n_clients or self._visited or 1) * time)
        self._staleness.clear()
        self._take(Point(time, self._visits, values))

    def fact(self, name: str, value: Any) -> None:
        if name == "data":
            self._measure = measure_of(value)

    def evaluation(self, time: float, version: int, accuracy: float, loss: float, mae: float | None) -> None:
        past = int(np.searchsorted(np.frombuffer(self._ended), time, side="right")) if self._ended else 0
        self._passed += past
        del self._ended[:past]
        values = {self._measure.key: accuracy, "loss": loss, **self._measure.beside(loss, mae)}
        values = {name: value for name, value in values.items() if math.isfinite(value)}
        self._not_finite += not math.isfinite(loss)
        if self._not_finite:
            values["not_finite"] = self._not_finite
        self._take(Point(time, self._passed, {f"evaluation/{name}": value for name, value in values.items()}))

    def measured(self, time: float, version: int, values: Mapping[str, float]) -> None:
        finite = {f"evaluation/{name}": value for name, value in values.items() if math.isfinite(value)}
        if finite:
            self._take(Point(time, self._passed, finite))

    def traffic(self, down: int, up: int, relay: int) -> None:
        moved = self._moved
        moved["down"] += down
        moved["up"] += up
        moved["relay"] += relay


def flat(tables: Mapping[str, Any], prefix: str = "") -> dict[str, str | float | int | bool]:
    """Return nested tables as dotted names with plain values; lists become text, and None is left out."""
    values: dict[str, str | float | int | bool] = {}
    for name, value in tables.items():
        if isinstance(value, Mapping):
            values |= flat(value, f"{prefix}{name}.")
        elif isinstance(value, bool | int | float | str):
            values[f"{prefix}{name}"] = value
        elif value is not None:
            values[f"{prefix}{name}"] = str(value)
    return values


def numbers(summary: Mapping[str, Any]) -> dict[str, float]:
    """Return a summary's numbers by dotted name, without lists such as each client's shares."""
    values = flat(summary)
    return {
        name: value for name, value in values.items() if isinstance(value, int | float) and not isinstance(value, bool)
    }
