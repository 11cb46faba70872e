"""Tries settings for each strategy with the same budget for all, without which a comparison is not fair."""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import os
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from multiprocessing import active_children, get_context, parent_process
from typing import Any, NamedTuple, TypeVar, cast

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
    """Results of one setting of one strategy over the tuning seeds.

    times_s: seconds to the target, one per seed, None if not reached. accuracies: the best of each run. diverged:
    number of runs that diverged.
    """

    label: str
    changes: Changes
    times_s: tuple[float | None, ...]
    accuracies: tuple[float, ...]
    measure: Measure = CLASSES
    """What the accuracies measure."""
    diverged: int = 0

    @property
    def median_s(self) -> float:
        """Median time to the target; infinite if most seeds did not reach it."""
        return statistics.median(math.inf if time is None else time for time in self.times_s)

    @property
    def order(self) -> tuple[float, ...]:
        """Sort key, smaller is better: no diverged run, then median time to the target, then mean best accuracy."""
        return float(self.diverged > 0), self.median_s, -statistics.fmean(self.accuracies)


def grid_points(grid: Grid) -> list[Changes]:
    """Return every combination of a grid {dotted key: values}, the last key varying fastest."""
    return [dict(zip(grid, values)) for values in itertools.product(*grid.values())]


def tune(
    base: Config, labels: Sequence[str], grid: Grid, seeds: Sequence[int], *, workers: int = 2
) -> dict[str, list[Trial]]:
    """Try every point of one grid for every competitor; return the trials of each, best first.

    A run ends when it reaches the target; without a target, the best accuracy counts. Runs are spread over `workers`
    processes with one thread each; the results do not depend on their number. seeds: different from those of the
    comparison that the settings are for.
    """
    settings = [(label, changes) for label in labels for changes in grid_points(grid)]
    aims = base.run.target_accuracy is not None
    trials = run_trials(base, settings, seeds, {"run.stop_at_target": aims}, workers=workers)
    by_label = {label: [trial for trial in trials if trial.label == label] for label in labels}
    return {label: sorted(tried, key=lambda trial: trial.order) for label, tried in by_label.items()}


def run_trials(
    base: Config,
    settings: Sequence[tuple[str, Changes]],
    seeds: Sequence[int],
    common: Changes,
    *,
    workers: int,
) -> list[Trial]:
    """Return a trial for each (competitor, changes) of `settings`, in order; `common` changes apply to all."""
    configs = [
        base.for_comparison(label).with_changes(
            {**changes, **common, "run.seed": seed, "executor.kind": "inline"}, label=label
        )
        for label, changes in settings
        for seed in seeds
    ]
    check_same_work((config.label, config.tables) for config in configs)
    summaries = [finished.summary for finished in run_all(configs, workers=workers)]
    trials = []
    for number, (label, changes) in enumerate(settings):
        of_trial = summaries[number * len(seeds) : (number + 1) * len(seeds)]
        times = tuple(summary["time_to_target_s"] for summary in of_trial)
        accuracies = tuple(best_accuracy(summary) for summary in of_trial)
        diverged = sum(summary["diverged"] is not None for summary in of_trial)
        trials.append(Trial(label, changes, times, accuracies, measure_of(of_trial[0]["data"]), diverged))
    return trials


def best_accuracy(summary: Mapping[str, Any]) -> float:
    """Return a run's best accuracy; -1, below all others, if none was measured or finite."""
    best: float | None = summary["best_accuracy"]
    return -1.0 if best is None else best


@dataclass(frozen=True, eq=False)
class FinishedRun:
    """The summary and records of a finished run. cpu_s: processor time that it took."""

    summary: dict[str, Any]
    records: Records
    cpu_s: float = 0.0


class NotedRun(NamedTuple):
    """A run of a study. label: which competitor, and where. bits: as `bits_of` returns them."""

    label: str
    config: Config
    bits: str


@dataclass
class Ledger:
    """What ran in a block: every run once, even if it was asked for again.

    noted: one run per request. finished: runs by configuration. reused_s: processor time (s) of runs that were reused.
    """

    noted: list[NotedRun] = field(default_factory=list)
    finished: dict[str, FinishedRun] = field(default_factory=dict)
    reused_s: float = 0.0


_LEDGER: ContextVar[Ledger | None] = ContextVar("ledger", default=None)


@contextmanager
def ledger(finished: dict[str, FinishedRun] | None = None) -> Iterator[Ledger]:
    """Note the runs of this block. finished: those of earlier blocks, which are reused and added to."""
    book = Ledger(finished={} if finished is None else finished)
    token = _LEDGER.set(book)
    try:
        yield book
    finally:
        _LEDGER.reset(token)


def note(label: str, config: Config, bits: str) -> None:
    """Note a run in the ledger, if there is one."""
    if (book := _LEDGER.get()) is not None:
        book.noted.append(NotedRun(label, config, bits))


def bits_of(summary: Mapping[str, Any]) -> str:
    """Return a hash that two runs share if and only if all visits, commits and the final model are the same."""
    return hashlib.sha256(f"{summary['model_sha256']} {summary['events_sha256']}".encode()).hexdigest()


_SHARED_POOL: ContextVar[ProcessPoolExecutor | None] = ContextVar("shared pool", default=None)


@contextmanager
def _worker_processes(count: int) -> Iterator[ProcessPoolExecutor]:
    """Yield a pool of processes that end immediately if the block raises, and whenever this process ends."""
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
def shared_workers(workers: int = 2, cluster: str | None = None) -> Iterator[None]:
    """Share worker processes among all calls in the block: starting one takes seconds, often longer than a run.

    In a block within such a block, those of the outer one are used. cluster: address of a Ray cluster whose nodes do
    the work, or "local" for one on this machine; then `workers` is not used. Raises ConfigError if Ray is not installed
    or the cluster cannot be reached.
    """
    if _SHARED_POOL.get() is not None:
        yield
        return
    with _worker_processes(workers) if cluster is None else _on_cluster(cluster) as pool:
        token = _SHARED_POOL.set(pool)
        try:
            yield
        finally:
            _SHARED_POOL.reset(token)


def _on_cluster(address: str) -> AbstractContextManager[ProcessPoolExecutor]:
    """Return a `ray_pool`, which maps as a pool of processes does. It is slow to import."""
    from fedtempo.studies.tuning.ray_pool import ray_pool

    return cast("AbstractContextManager[ProcessPoolExecutor]", ray_pool(address))


def run_all(configs: Sequence[Config], *, workers: int = 2) -> list[FinishedRun]:
    """Run configurations in order, in `workers` processes with one thread each; in this process if `workers` is 1."""
    if (book := _LEDGER.get()) is None:
        return in_processes(_finish, configs, workers=workers)
    keys = [json.dumps([config.label, config.tables], sort_keys=True, default=str) for config in configs]
    book.reused_s += sum(book.finished[key].cpu_s for key in keys if key in book.finished)
    new = {key: config for key, config in zip(keys, configs, strict=True) if key not in book.finished}
    book.finished |= zip(new, in_processes(_finish, list(new.values()), workers=workers), strict=True)
    runs = [book.finished[key] for key in keys]
    for config, finished in zip(configs, runs, strict=True):
        note(config.label, config, bits_of(finished.summary))
    return runs


def attempt_all(configs: Sequence[Config], *, workers: int = 2) -> list[FinishedRun | FedtempoError]:
    """Do as `run_all`, but return the error of a run that fails."""
    return in_processes(_attempt, configs, workers=workers)


def in_processes(function: Callable[[S], T], items: Sequence[S], *, workers: int = 2) -> list[T]:
    """Return `function(item)` of each item, in order, from `workers` processes; from this one if `workers` is 1."""
    if workers == 1 or len(items) < 2:
        return list(map(function, items))
    if (shared := _SHARED_POOL.get()) is not None:
        return list(shared.map(function, items))
    with _worker_processes(min(workers, len(items))) as pool:
        return list(pool.map(function, items))


def _attempt(config: Config) -> FinishedRun | FedtempoError:
    try:
        return _finish(config)
    except FedtempoError as error:
        return error


def _finish(config: Config) -> FinishedRun:
    began_s = time.process_time()
    summary, records, _ = run(config, quiet=True)
    if summary["ended"] == "interrupted":
        raise KeyboardInterrupt
    return FinishedRun(summary, records, time.process_time() - began_s)
