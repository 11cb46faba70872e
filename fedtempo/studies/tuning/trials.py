"""Settings tuned for each strategy, with the same budget for all: a comparison is fair only then."""

from __future__ import annotations

import itertools
import math
import os
import statistics
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from multiprocessing import active_children, get_context, parent_process
from typing import Any, TypeVar

from fedtempo.errors import FedtempoError
from fedtempo.record import Records
from fedtempo.record.metric import CLASSES, Measure, measure_of
from fedtempo.runs.config import Config
from fedtempo.runs.run import run
from fedtempo.studies.same_work import check_same_work

S = TypeVar("S")
T = TypeVar("T")
Changes = dict[str, Any]
Grid = Mapping[str, Sequence[Any]]


@dataclass(frozen=True)
class Trial:
    """What one setting of one strategy came to over the tuning seeds. diverged: how many of the runs did."""

    label: str
    changes: Changes
    times_s: tuple[float | None, ...]
    accuracies: tuple[float, ...]
    measure: Measure = CLASSES
    """What the accuracies are."""
    diverged: int = 0

    @property
    def median_s(self) -> float:
        """Median time to the target; infinite if most seeds did not reach it."""
        return statistics.median(math.inf if time is None else time for time in self.times_s)

    @property
    def order(self) -> tuple[float, ...]:
        """Smaller is better: no run that diverged, then the median time to the target, then the mean best accuracy."""
        return float(self.diverged > 0), self.median_s, -statistics.fmean(self.accuracies)


def grid_points(grid: Grid) -> list[Changes]:
    """Every combination of a grid {dotted key: values}, the last key fastest."""
    return [dict(zip(grid, values)) for values in itertools.product(*grid.values())]


def tune(
    base: Config, labels: Sequence[str], grid: Grid, seeds: Sequence[int], *, workers: int = 2
) -> dict[str, list[Trial]]:
    """Try every point of one grid for every competitor; for each its trials, the best first.

    A run ends when it has reached the target; without one, the best accuracy counts. Runs are spread over `workers`
    processes, one thread each; the results do not depend on that. seeds: others than those of the comparison that the
    settings are for.
    """
    asked = [(label, changes) for label in labels for changes in grid_points(grid)]
    aims = base.run.target_accuracy is not None
    trials = run_trials(base, asked, seeds, {"run.stop_at_target": aims}, workers=workers)
    found = {label: [trial for trial in trials if trial.label == label] for label in labels}
    return {label: sorted(tried, key=lambda trial: trial.order) for label, tried in found.items()}


def run_trials(
    base: Config,
    asked: Sequence[tuple[str, Changes]],
    seeds: Sequence[int],
    common: Changes,
    *,
    workers: int,
) -> list[Trial]:
    """A trial for each (competitor, changes), in order; `common` changes all of them."""
    configs = [
        base.for_comparison(label).with_changes(
            {**changes, **common, "run.seed": seed, "executor.kind": "inline"}, label=label
        )
        for label, changes in asked
        for seed in seeds
    ]
    check_same_work((config.label, config.tables) for config in configs)
    summaries = [finished.summary for finished in run_all(configs, workers=workers)]
    trials = []
    for number, (label, changes) in enumerate(asked):
        own = summaries[number * len(seeds) : (number + 1) * len(seeds)]
        times = tuple(summary["time_to_target_s"] for summary in own)
        accuracies = tuple(best_accuracy(summary) for summary in own)
        diverged = sum(summary["diverged"] is not None for summary in own)
        trials.append(Trial(label, changes, times, accuracies, measure_of(own[0]["data"]), diverged))
    return trials


def best_accuracy(summary: Mapping[str, Any]) -> float:
    """A run's; what was never measured, or never finite, is below all that was."""
    best: float | None = summary["best_accuracy"]
    return -1.0 if best is None else best


@dataclass(frozen=True, eq=False)
class FinishedRun:
    """A run that ended: its summary and its records."""

    summary: dict[str, Any]
    records: Records


_SHARED_POOL: ContextVar[ProcessPoolExecutor | None] = ContextVar("kept workers", default=None)


@contextmanager
def _worker_processes(count: int) -> Iterator[ProcessPoolExecutor]:
    """They end at once where the block is left by an error or an interrupt, and with this process, however it ends."""
    with ProcessPoolExecutor(count, mp_context=get_context("spawn"), initializer=_end_with_parent) as pool:
        try:
            yield pool
        except BaseException:
            for process in active_children():
                process.terminate()
            raise


def _end_with_parent() -> None:
    parent = parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


@contextmanager
def shared_workers(workers: int = 2) -> Iterator[None]:
    """What runs within in worker processes shares these: each takes seconds to start, a run often takes less."""
    with _worker_processes(workers) as pool:
        token = _SHARED_POOL.set(pool)
        try:
            yield
        finally:
            _SHARED_POOL.reset(token)


def run_all(configs: Sequence[Config], *, workers: int = 2) -> list[FinishedRun]:
    """Runs, in order, several at a time; each in one process and one thread, in this one where it is one at a time."""
    return in_processes(_finish, configs, workers=workers)


def attempt_all(configs: Sequence[Config], *, workers: int = 2) -> list[FinishedRun | FedtempoError]:
    """As `run_all`; for a run that cannot be, its error."""
    return in_processes(_attempt, configs, workers=workers)


def in_processes(function: Callable[[S], T], items: Sequence[S], *, workers: int = 2) -> list[T]:
    """`function` of each item, in order, several at a time in processes; in this one where it is one at a time."""
    if workers == 1 or len(items) < 2:
        return list(map(function, items))
    if (kept := _SHARED_POOL.get()) is not None:
        return list(kept.map(function, items))
    with _worker_processes(min(workers, len(items))) as pool:
        return list(pool.map(function, items))


def _attempt(config: Config) -> FinishedRun | FedtempoError:
    try:
        return _finish(config)
    except FedtempoError as error:
        return error


def _finish(config: Config) -> FinishedRun:
    summary, records, _ = run(config, quiet=True)
    if summary["ended"] == "interrupted":
        raise KeyboardInterrupt
    return FinishedRun(summary, records)
