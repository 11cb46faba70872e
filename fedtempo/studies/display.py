"""How the runs of a study are followed: progress, observers, and lines of text. Nothing of it changes a run."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from fedtempo.record.recorder import Observer
from fedtempo.report.trackers.tracking import tracked
from fedtempo.runs.config import Config
from fedtempo.runs.launch import Watch, unsaid


def unwatched(config: Config) -> contextlib.AbstractContextManager[Watch | None]:
    """Follow no run."""
    return contextlib.nullcontext()


@dataclass(frozen=True)
class Display:
    """Displays and observers of each run.

    watching: makes a context per run that yields what is called as the run begins, such as a progress bar. observing:
    makes a context per run in a folder that yields its observers; the trackers of `run.track` by default. say: shows a
    line about what comes next.
    """

    watching: Callable[[Config], contextlib.AbstractContextManager[Watch | None]] = unwatched
    observing: Callable[[Config, Path], contextlib.AbstractContextManager[Iterable[Observer]]] = tracked
    say: Callable[[str], None] = unsaid


HIDDEN = Display()
"""Follows no run, except by its trackers."""
