"""Runs in folders, followed: finds new runs and reads their new records."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedtempo.errors import ConfigError
from fedtempo.record.folder import NOW
from fedtempo.record.schema import DATABASE
from fedtempo.report.watch.now import ALIVE_S, Now, read_now
from fedtempo.report.watch.reading import Reader
from fedtempo.report.watch.state import RunState

MOST_RUNS = 50
MOST_SHOWN = 4
"""Maximum number of runs whose pictures a page shows."""

_AGAIN_S = 30.0
"""After how many real seconds a run that could not be read is read again, if its files are the same."""

_READING_S = 0.3
"""Real seconds that reading one run may take per answer."""


@dataclass(frozen=True)
class Seen:
    """What a page has received of a run: its generation, and the points, visits and log lines of that generation."""

    generation: int = 0
    curve: int = 0
    calendar: int = 0
    log: int = 0


class FollowedRun:
    """A run folder and the data read from it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._reader = Reader(folder)
        self._run: RunState | None = None
        self._now: Now | None = None
        self._generation = 1
        self._more = False
        self._state, self._why = "starting", ""
        self._damaged: object = None
        self._again = 0.0

    def refresh(self) -> None:
        """Read new records, for a limited time.

        A run that cannot be read is unreadable until all of it has been read, from its start: the reader would not read
        again what it has passed.
        """
        if self._state == "finished" and not self._more:
            return  # nothing will change any more
        if self._state == "unreadable" and self._damaged is not None:
            if self._damaged == _version(self.folder) and time.monotonic() < self._again:
                return
            self._reader, self._run, self._damaged = Reader(self.folder), None, None
            self._generation += 1
        until = time.perf_counter() + _READING_S
        try:
            self._now, age_s = read_now(self.folder)
            if not (self.folder / DATABASE).exists():
                return
            while True:
                piece = self._reader.read()
                if piece.facts.get("n_clients") is None:
                    return  # it has just begun
                if self._run is None or piece.again:
                    self._generation += self._run is not None
                    self._run = RunState(piece.facts)
                self._run.absorb(piece)
                self._more = piece.more
                if not piece.more or time.perf_counter() > until:
                    break
        except ConfigError as error:
            self._state, self._why, self._more = "unreadable", str(error), False
            self._damaged, self._again = _version(self.folder), time.monotonic() + _AGAIN_S
            return
        if self._state == "unreadable" and self._more:
            return  # what made it so may follow
        self._state, self._why = _state(piece.facts, self._now, age_s)
        if self._state != "running":
            self._now = None

    def row(self) -> dict[str, Any]:
        """Return the run's row in the table.

        Its state is starting, running, finished, interrupted, silent or unreadable.
        """
        row = {"name": self.folder.name, "state": self._state, "why": self._why, "more": self._more}
        return row if self._run is None else row | self._run.row(self._now)

    def detail(self, seen: Seen) -> dict[str, Any] | None:
        """Return the new data for the run's charts; None if nothing is known of the run yet."""
        if self._run is None:
            return None
        if seen.generation != self._generation:
            seen = Seen()
        detail = self._run.detail(self._now, seen.curve, seen.calendar, seen.log)
        return {"generation": self._generation, **detail}


class Followed:
    """All runs in some folders: each is a run folder, or holds run folders directly."""

    def __init__(self, folders: Iterable[Path]) -> None:
        self._folders = tuple(folders)
        self._runs: dict[Path, FollowedRun] = {}
        self._lock = threading.Lock()

    def answer(self, wanted: Mapping[int, Seen]) -> dict[str, Any]:
        """Return one row per run, in the order of discovery, and details of the wanted runs by number.

        Safe to call from several threads.
        """
        with self._lock:
            left_out = self._find()
            runs = list(self._runs.values())
            for run in runs:
                run.refresh()
            shown = [number for number in wanted if number < len(runs)][:MOST_SHOWN]
            return {
                "runs": [run.row() for run in runs],
                "details": {str(number): runs[number].detail(wanted[number]) for number in shown},
                "left_out": left_out,
            }

    def _find(self) -> int:
        """Find new runs; return how many were left out because there are too many."""
        paths = [path for folder in self._folders for path in run_folders(folder)]
        new = [path for path in paths if path not in self._runs]
        room = MOST_RUNS - len(self._runs)
        for path in new[:room]:
            self._runs[path] = FollowedRun(path)
        return max(0, len(new) - room)


def run_folders(folder: Path) -> list[Path]:
    """Return the folder itself if it holds a run, else the run folders in it, oldest first, without links."""
    if _holds_run(folder):
        return [folder]
    try:
        inner = [path for path in folder.iterdir() if not path.is_symlink() and _holds_run(path)]
        return sorted(inner, key=lambda path: (_began(path), path.name))
    except OSError:
        return []


def _version(folder: Path) -> tuple[object, ...]:
    """Return what changes with the files that are followed: when they were written, and their sizes."""
    found: list[object] = []
    for name in (DATABASE, f"{DATABASE}-wal", NOW):
        try:
            status = (folder / name).stat()
            found.append((status.st_ino, status.st_mtime_ns, status.st_size))
        except OSError:
            found.append(None)
    return tuple(found)


def _holds_run(folder: Path) -> bool:
    return (folder / DATABASE).exists() or (
        (folder / "config.toml").exists() and (folder / "environment.json").exists()
    )


def _began(folder: Path) -> float:
    try:
        return (folder / "environment.json").stat().st_mtime
    except FileNotFoundError:
        return 0.0


def _state(facts: Mapping[str, Any], now: Now | None, age_s: float) -> tuple[str, str]:
    """Return the state of a run, and the reason for it."""
    ended = facts.get("ended")
    if ended == "interrupted":
        return "interrupted", "`fedtempo resume` continues it"
    if ended is not None:
        return "finished", str(facts.get("end_reason") or f"ended by {ended}")
    if now is None:
        return "silent", "it has not ended and no process writes to it: it failed or was killed"
    if age_s > ALIVE_S:
        return "silent", f"nothing was written for {age_s:,.0f} s: it was killed, or its machine sleeps"
    return "running", ""
