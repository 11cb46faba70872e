"""A run as it goes: the clock, visits, how good the model is, and how long it will take."""

from __future__ import annotations

import contextlib
import math
import threading
from collections.abc import Iterator

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from fedtempo.runs.config import Config
from fedtempo.runs.launch import Watch
from fedtempo.runtime.evaluations import Evaluations
from fedtempo.runtime.heartbeat import beside
from fedtempo.runtime.runner import Driven

_REFRESH_S = 0.25


@contextlib.contextmanager
def shown(console: Console, config: Config) -> Iterator[Watch]:
    """A progress bar while the block lasts; yields what `launch.run` takes as `watch`.

    The bar follows the run's clock to the horizon, or commits to their budget. A thread of its own reads the run's
    counters, so that the run pays nothing for it.
    """
    budget = config.run.max_commits
    total = config.run.horizon if config.run.horizon is not None else budget
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=28),
        TextColumn("{task.fields[state]}"),
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

        with beside("progress", follow) as watch:
            yield watch
