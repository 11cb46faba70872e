"""Runs trackers in a separate thread, so that they can neither delay nor end the run."""

from __future__ import annotations

import contextlib
import logging
import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedtempo.parts.text_files import parse_json
from fedtempo.record.folder import RunFolder
from fedtempo.record.reading import read_table
from fedtempo.report.trackers import make_trackers
from fedtempo.report.trackers.points import About, Point, Points, Tracker

if TYPE_CHECKING:
    from fedtempo.runs.config import Config

log = logging.getLogger("fedtempo.trackers")

_AT_ONCE = 500
PATIENCE_S = 60.0
"""Real seconds to wait for trackers after the run has ended."""


class Tracking:
    """Passes a run's points to trackers. If a tracker raises, that is logged once and it is not called again.

    The thread starts with the first point, so trackers of a run without points are never called.
    """

    def __init__(self, trackers: Mapping[str, Tracker], about: About) -> None:
        self._trackers, self._about = dict(trackers), about
        self._points: queue.SimpleQueue[Point | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._summary: Mapping[str, Any] = {}
        self._artefacts: Sequence[Path] = ()

    def take(self, point: Point) -> None:
        """Queue a point for the trackers."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._serve, name="trackers", daemon=True)
            self._thread.start()
        self._points.put(point)

    def finish(self, summary: Mapping[str, Any], artefacts: Sequence[Path]) -> None:
        """End the trackers after the run, waiting at most `PATIENCE_S` until they have received everything."""
        if self._thread is None:
            return
        self._summary, self._artefacts = summary, artefacts
        self._points.put(None)
        self._thread.join(PATIENCE_S)
        if self._thread.is_alive():
            log.warning(
                "%s did not finish within %g s; some of their data may be missing",
                ", ".join(self._trackers),
                PATIENCE_S,
            )

    def _serve(self) -> None:
        self._call_all(lambda tracker: tracker.begin(self._about))
        more = True
        while more:
            points, more = self._next()
            self._call_all(lambda tracker, points=points: tracker.log(points))  # type: ignore[misc]
        self._call_all(lambda tracker: tracker.end(self._summary, self._artefacts))

    def _next(self) -> tuple[list[Point], bool]:
        """Return waiting points, at least one unless the run is over, and whether more may come."""
        points: list[Point] = []
        while len(points) < _AT_ONCE and (not points or not self._points.empty()):
            point = self._points.get()
            if point is None:
                return points, False
            points.append(point)
        return points, True

    def _call_all(self, call: Callable[[Tracker], None]) -> None:
        for name, tracker in list(self._trackers.items()):
            try:
                call(tracker)
            except Exception as error:  # noqa: BLE001  a tracker must not end the run
                del self._trackers[name]
                log.warning("%s failed; this run sends it nothing more: %s", name, error or type(error).__name__)


@contextlib.contextmanager
def tracked(config: Config, path: Path) -> Iterator[tuple[Points, ...]]:
    """Let the trackers of `run.track` follow the run in this block; yield the observers for its recorder.

    At the end of the block they receive the files that are in the folder by then. Raises ConfigError, before the block,
    for a tracker that is unknown or not installed.
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
    summary = read_table(path, folder.summary.name, parse_json) or {}
    tracking.finish(summary, [file for file in files if file.exists()])
