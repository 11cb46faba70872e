"""Trackers that follow a run from a thread of their own: the run waits for none of them, and none can end it."""

from __future__ import annotations

import contextlib
import json
import logging
import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedtempo.record.folder import RunFolder
from fedtempo.record.reading import read_table
from fedtempo.report.trackers import make_trackers
from fedtempo.report.trackers.points import About, Point, Points, Tracker

if TYPE_CHECKING:
    from fedtempo.runs.config import Config

log = logging.getLogger("fedtempo.trackers")

_AT_ONCE = 500
PATIENCE_S = 60.0
"""Real seconds that a run which has ended waits for its trackers."""


class Tracking:
    """Hands a run's points to trackers. One that raises is logged, once, and not called again.

    The thread begins with the first point: where nothing happens, trackers hear nothing.
    """

    def __init__(self, trackers: Mapping[str, Tracker], about: About) -> None:
        self._trackers, self._about = dict(trackers), about
        self._points: queue.SimpleQueue[Point | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._summary: Mapping[str, Any] = {}
        self._artefacts: Sequence[Path] = ()

    def take(self, point: Point) -> None:
        """To be told, soon."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._serve, name="trackers", daemon=True)
            self._thread.start()
        self._points.put(point)

    def finish(self, summary: Mapping[str, Any], artefacts: Sequence[Path]) -> None:
        """The run is over: wait until trackers have been told all, but for no longer than `PATIENCE_S`."""
        if self._thread is None:
            return
        self._summary, self._artefacts = summary, artefacts
        self._points.put(None)
        self._thread.join(PATIENCE_S)
        if self._thread.is_alive():
            log.warning("%s had not taken all within %g s; it is left at that", ", ".join(self._trackers), PATIENCE_S)

    def _serve(self) -> None:
        self._each(lambda tracker: tracker.begin(self._about))
        goes_on = True
        while goes_on:
            points, goes_on = self._next()
            self._each(lambda tracker, points=points: tracker.log(points))  # type: ignore[misc]
        self._each(lambda tracker: tracker.end(self._summary, self._artefacts))

    def _next(self) -> tuple[list[Point], bool]:
        """Points that wait, at least one if more are to come; whether more are."""
        points: list[Point] = []
        while len(points) < _AT_ONCE and (not points or not self._points.empty()):
            point = self._points.get()
            if point is None:
                return points, False
            points.append(point)
        return points, True

    def _each(self, tell: Callable[[Tracker], None]) -> None:
        for name, tracker in list(self._trackers.items()):
            try:
                tell(tracker)
            except Exception as error:  # noqa: BLE001  whatever a tracker does, the run goes on
                del self._trackers[name]
                log.warning("%s failed and is not told of this run any more: %s", name, error or type(error).__name__)


@contextlib.contextmanager
def tracked(config: Config, path: Path) -> Iterator[tuple[Points, ...]]:
    """Trackers of `run.track` follow the run that the block makes in a folder; yields its recorder's observers.

    At the end of the block they get what lies in the folder then. Raises ConfigError, before the block, for a tracker
    that is unknown or not installed.
    """
    trackers = make_trackers(config.run.track)
    if not trackers:
        yield ()
        return
    name = f"{config.label}-seed{config.run.seed}"
    tracking = Tracking(trackers, About(name, path, config.tables, began_s=time.time()))
    points = Points(
        config.data.clients,
        horizon_s=config.run.horizon,
        max_commits=config.run.max_commits,
        evaluates=config.executor.kind != "none",
        take=tracking.take,
    )
    try:
        yield (points,)
    except BaseException:
        tracking.finish({}, ())
        raise
    folder = RunFolder(path)
    files = (folder.config, folder.environment, folder.summary, folder.report)
    summary = read_table(path, folder.summary.name, json.loads) or {}
    tracking.finish(summary, [file for file in files if file.exists()])
