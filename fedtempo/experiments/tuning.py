"""Settings tuned for each strategy, with the same budget for all: a comparison is fair only then."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Any

from fedtempo.config import Config
from fedtempo.launch import run
from fedtempo.record import Records

Changes = dict[str, Any]
Grid = Mapping[str, Sequence[Any]]


@dataclass(frozen=True)
class Trial:
    """What one setting of one strategy came to over the tuning seeds."""

    label: str
    changes: Changes
    times_s: tuple[float | None, ...]
    accuracies: tuple[float, ...]

    @property
    def order(self) -> tuple[float, float]:
        """Smaller is better: the median time to the target, then the mean best accuracy, highest first."""
        late = [math.inf if time is None else time for time in self.times_s]
        return statistics.median(late), -statistics.fmean(self.accuracies)


def grid_points(grid: Grid) -> list[Changes]:
    """Every combination of a grid {dotted key: values}, the last key fastest."""
    return [dict(zip(grid, values)) for values in itertools.product(*grid.values())]


def tune(
    base: Config, labels: Sequence[str], grid: Grid, seeds: Sequence[int], *, workers: int = 2
) -> dict[str, list[Trial]]:
    """Try every point of one grid for every competitor; for each its trials, the best first.

    A run ends when it has reached the target. Runs are spread over `workers` processes, one thread each; the results
    do not depend on that. seeds: others than those of the comparison that the settings are for.
    """
    asked = [(label, changes, seed) for label in labels for changes in grid_points(grid) for seed in seeds]
    configs = [
        base.for_comparison(label).with_changes(
            {**changes, "run.seed": seed, "run.stop_at_target": True, "executor.kind": "inline"}, label=label
        )
        for label, changes, seed in asked
    ]
    summaries = [finished.summary for finished in run_all(configs, workers=workers)]
    trials: dict[str, list[Trial]] = {label: [] for label in labels}
    for start in range(0, len(asked), len(seeds)):
        label, changes, _ = asked[start]
        found = summaries[start : start + len(seeds)]
        times = tuple(summary["time_to_target_s"] for summary in found)
        trials[label].append(Trial(label, changes, times, tuple(summary["best_accuracy"] for summary in found)))
    return {label: sorted(tried, key=lambda trial: trial.order) for label, tried in trials.items()}


@dataclass(frozen=True, eq=False)
class Finished:
    """A run that ended: its summary and its records."""

    summary: dict[str, Any]
    records: Records


def run_all(configs: Sequence[Config], *, workers: int = 2) -> list[Finished]:
    """Runs, in order, several at a time; each in one process and one thread."""
    with ProcessPoolExecutor(min(workers, len(configs)), mp_context=get_context("spawn")) as pool:
        return list(pool.map(_finish, configs))


def _finish(config: Config) -> Finished:
    summary, records, _ = run(config)
    return Finished(summary, records)
