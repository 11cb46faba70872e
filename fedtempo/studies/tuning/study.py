"""Studies: competitors tuned on one grid, then compared on seeds that the tuning did not use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fedtempo.record import Records, comparison
from fedtempo.runs.config import Config
from fedtempo.studies.same_work import check_same_work
from fedtempo.studies.tuning.trials import Changes, FinishedRun, Grid, Trial, run_all, tune


@dataclass(frozen=True, eq=False)
class Study:
    """Results of a study by competitor. trials: best first, empty if nothing was tuned. runs: one per seed."""

    trials: Mapping[str, Sequence[Trial]]
    runs: Mapping[str, Sequence[FinishedRun]]

    @property
    def records(self) -> dict[str, list[Records]]:
        """The records of each competitor's runs, for pictures."""
        return {label: [run.records for run in runs] for label, runs in self.runs.items()}

    @property
    def comparison(self) -> dict[str, Any]:
        """The comparison of the runs, as `fedtempo.record.comparison` makes it."""
        return comparison({label: [run.summary for run in runs] for label, runs in self.runs.items()})

    def chosen(self, label: str) -> Changes:
        """Return the best setting that the tuning found for a competitor."""
        return self.trials[label][0].changes

    def facts(self) -> dict[str, Any]:
        """Return everything as JSON values."""
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
    tuning_horizon: float | None = None,
    workers: int = 2,
) -> Study:
    """Tune every competitor on the same grid and seeds, then run each with its best setting on `seeds`.

    tuning_horizon: seconds after which a tuning run ends (default: the configuration's horizon).
    """
    tuning_base = base if tuning_horizon is None else base.with_changes({"run.horizon": tuning_horizon})
    trials = tune(tuning_base, labels, grid, tuning_seeds, workers=workers)
    best = {label: trials[label][0].changes for label in labels}
    return Study(trials, run_settings(base, best, seeds, workers=workers))


def plain_study(base: Config, labels: Sequence[str], seeds: Sequence[int], *, workers: int = 2) -> Study:
    """Run every competitor with the settings that the configuration gives it, without tuning."""
    return Study({}, run_settings(base, {label: {} for label in labels}, seeds, workers=workers))


def run_settings(
    base: Config, settings: Mapping[str, Changes], seeds: Sequence[int], *, workers: int = 2
) -> dict[str, list[FinishedRun]]:
    """Run competitors with given settings to the horizon; return the runs of each, one per seed."""
    executor = "none" if base.executor.kind == "none" else "inline"
    configs = [
        base.for_comparison(label).with_changes({**changes, "run.seed": seed, "executor.kind": executor}, label=label)
        for label, changes in settings.items()
        for seed in seeds
    ]
    check_same_work((config.label, config.tables) for config in configs)
    finished = iter(run_all(configs, workers=workers))
    return {label: [next(finished) for _ in seeds] for label in settings}
