"""What the terminal shows of a run: a progress bar, the log, and lines about what comes next."""

from __future__ import annotations

import contextlib
import logging
import math
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from fedtempo.cli import logs
from fedtempo.parts.foreign_text import one_line
from fedtempo.parts.plain_console import PlainConsole

if TYPE_CHECKING:
    from fedtempo.record.recorder import Observer
    from fedtempo.runs.config import Config
    from fedtempo.runs.launch import Watch
    from fedtempo.runtime.evaluations import Evaluations
    from fedtempo.runtime.runner import Driven
    from fedtempo.studies.display import Display

_REFRESH_S = 0.25


@contextlib.contextmanager
def shown(console: Console, config: Config) -> Iterator[Watch]:
    """A progress bar while the block lasts; yields what `Run` takes as `watch`.

    The bar follows the run's clock to the horizon, or commits to their budget. A thread of its own reads the run's
    counters, so that the run pays nothing for it.
    """
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    from fedtempo.runtime.heartbeat import in_background

    budget = config.run.max_commits
    total = config.run.horizon if config.run.horizon is not None else budget
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=28),
        TextColumn("{task.fields[state]}", markup=False),
        TimeRemainingColumn(compact=True),
    )
    with Progress(
        *columns, console=console, transient=True, auto_refresh=False, disable=not console.is_terminal
    ) as progress:
        task = progress.add_task(f"{config.label}, seed {config.run.seed}", total=total, state="starting")

        def follow(sim: Driven, evaluations: Evaluations, stop: threading.Event) -> None:
            while not stop.wait(_REFRESH_S):
                now, latest = sim.now, evaluations.accuracy
                good = "" if latest is None else f"  {evaluations.measure.name} {latest:.3f}"
                if latest is not None and math.isnan(latest):
                    good = "  loss not finite"
                state = f"{now:7.0f} s  {sim.visits_begun:,} visits{good}"
                done = now if config.run.horizon is not None else sim.model.version
                progress.update(task, completed=done, state=state)
                progress.refresh()

        with in_background("progress", follow) as watch:
            yield watch


def terminal(console: Console, log_format: logs.Format | None = None, deployed: bool = False) -> Display:
    """Return how the terminal follows runs: a progress bar, trackers, and the log if it has a format.

    deployed: lines about the deployment are dim, or go to the log if there is one.
    """
    from fedtempo.studies.display import Display

    def say(line: str) -> None:
        if log_format is None:
            console.print(one_line(line), style="dim" if deployed else None, soft_wrap=True)
        else:
            logging.getLogger("fedtempo.run").info(line)

    return Display(partial(shown, console), partial(_observed, log_format=log_format), say)


@contextlib.contextmanager
def following(jobs: int | None, display: Display) -> Iterator[Display]:
    """Yield how runs are followed: by `display` one after another, by their number if they are parallel."""
    if jobs == 1:
        yield display
        return
    from rich.text import Text

    from fedtempo.studies.display import Display

    with PlainConsole(stderr=True).status("starting") as status:
        yield Display(say=lambda line: status.update(Text(one_line(line))))


@contextlib.contextmanager
def _observed(config: Config, folder: Path, log_format: logs.Format | None) -> Iterator[tuple[Observer, ...]]:
    """Yield the observers of a run in a folder: its trackers, and the log if it has a format."""
    from fedtempo.report.trackers.tracking import tracked

    with tracked(config, folder) as trackers:
        if log_format is None:
            yield trackers
        else:
            logs.configure(log_format)
            yield *trackers, logs.RunLog()
