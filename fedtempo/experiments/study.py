"""Competitors tuned on one grid, then compared on seeds that the tuning did not see."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fedtempo.config import Config
from fedtempo.experiments.tuning import Changes, Grid, Trial, run_all, tune
from fedtempo.record import comparison


@dataclass(frozen=True)
class Study:
    """trials: of each competitor, the best first. comparison: over the seeds, each with its best setting."""

    trials: Mapping[str, Sequence[Trial]]
    comparison: Mapping[str, Any]

    def chosen(self, label: str) -> Changes:
        """The setting that the tuning found best for a competitor."""
        return self.trials[label][0].changes

    def facts(self) -> dict[str, Any]:
        """All of it as JSON values."""
        trials = {
            label: [
                {"changes": trial.changes, "times_s": trial.times_s, "best_accuracies": trial.accuracies}
                for trial in tried
            ]
            for label, tried in self.trials.items()
        }
        return {"chosen": {label: self.chosen(label) for label in trials}, "trials": trials, **self.comparison}


def tuned_study(
    base: Config,
    labels: Sequence[str],
    grid: Grid,
    *,
    tuning_seeds: Sequence[int],
    seeds: Sequence[int],
    workers: int = 2,
) -> Study:
    """Tune every competitor on the same grid and seeds, then run each with its best setting on `seeds`."""
    trials = tune(base, labels, grid, tuning_seeds, workers=workers)
    best = {label: trials[label][0].changes for label in labels}
    return Study(trials, compare_settings(base, best, seeds, workers=workers))


def compare_settings(
    base: Config, settings: Mapping[str, Changes], seeds: Sequence[int], *, workers: int = 2
) -> dict[str, Any]:
    """The comparison (`fedtempo.record.comparison`) of competitors with given settings over seeds, to the horizon."""
    configs = [
        base.for_comparison(label).with_changes({**changes, "run.seed": seed, "executor.kind": "inline"}, label=label)
        for label, changes in settings.items()
        for seed in seeds
    ]
    summaries = iter(run_all(configs, workers=workers))
    return comparison({label: [next(summaries) for _ in seeds] for label in settings})
