"""One competitor in one row: tuned with early stopping, then run on seeds that the tuning did not use."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fedtempo.runs.config import Config
from fedtempo.studies.papers.cache import Cache, Limits, Outcome
from fedtempo.studies.papers.league_entrants import REFERENCE, LeagueRow
from fedtempo.studies.papers.reproduction import Budget
from fedtempo.studies.tuning.trials import Changes, Trial

_KEEP = 2
"""Number of settings, the best on the first tuning seed, that run on the other tuning seeds."""


@dataclass(frozen=True)
class Target:
    """Accuracies to reach. reference: the accuracy that they are shares of."""

    reference: float
    early: float
    full: float

    @classmethod
    def of(cls, reference: float) -> Target:
        """Return targets of 80 % and 95 % of the reference, rounded down to whole percentages."""
        early, full = (math.floor(100 * share * reference + 1e-9) / 100 for share in (0.8, 0.95))
        return cls(reference, early, full)

    @property
    def levels(self) -> tuple[float, float]:
        return self.early, self.full


@dataclass(frozen=True)
class Race:
    """One competitor in one row. cache: file with the outcomes of earlier runs, if any."""

    row: LeagueRow
    label: str
    budget: Budget
    target: Target
    most_visits: int
    cache: Path | None


def reference(row: LeagueRow, budget: Budget, cache: Cache) -> Target:
    """Return the targets of a data set: shares of the accuracy that tuned FedAvg ends with on the first tuning seed.

    That accuracy is the mean over the last tenth of the horizon.
    """
    ends = []
    for changes in _settings(row, REFERENCE, budget):
        config = _seeded(row.base, REFERENCE, changes, budget.tuning_seeds[0])
        ends.append(cache.outcome(config, (), Limits(10**9)).late_accuracy)
    return Target.of(max(ends))


def run_race(race: Race) -> tuple[dict[str, Any], float]:
    """Return the results of a competitor in a row, as JSON values, and the CPU seconds that cached runs had taken."""
    cache = Cache(race.cache)
    trials = _tuned(race, cache)
    chosen = trials[0].changes
    outcomes = [_outcome(race, cache, chosen, seed) for seed in race.budget.seeds]
    names = [name for name in asdict(outcomes[0]) if name not in ("times_s", "error")]
    runs = {name: [getattr(outcome, name) for outcome in outcomes] for name in names}
    early_s, target_s = zip(*(outcome.times_s for outcome in outcomes))
    facts: dict[str, Any] = {
        "chosen": chosen,
        "trials": [
            {"changes": trial.changes, "times_s": trial.times_s, "best_accuracies": trial.accuracies}
            for trial in trials
        ],
        "runs": {"early_s": early_s, "target_s": target_s, **runs},
    }
    errors = sorted({outcome.error for outcome in outcomes if outcome.error})
    if errors:
        facts["errors"] = errors
    return facts, cache.earlier_s


def as_comparison(tried: Mapping[str, Mapping[str, Any]]) -> Changes:
    """Return the tuned settings of each competitor as changes of `[compare.<label>]`; tried: results of `run_race`."""
    return {f"compare.{label}.{key}": value for label, facts in tried.items() for key, value in facts["chosen"].items()}


def run_to_the_end(race: Race) -> tuple[dict[str, Any], float]:
    """Do as `run_race`, but tune for the accuracy at the end, the mean over the last tenth of the run.

    Every setting runs to the horizon on the first tuning seed; the one that ends highest runs on the seeds.
    """
    cache, limits = Cache(race.cache), Limits(10**9)
    first = race.budget.tuning_seeds[0]
    tried: list[dict[str, Any]] = []
    for changes in _settings(race.row, race.label, race.budget):
        outcome = cache.outcome(_seeded(race.row.base, race.label, changes, first), (), limits)
        tried.append({"changes": changes, "late_accuracy": outcome.late_accuracy})
    chosen = max(tried, key=lambda one: one["late_accuracy"])["changes"]
    outcomes = [
        cache.outcome(_seeded(race.row.base, race.label, chosen, seed), (), limits) for seed in race.budget.seeds
    ]
    names = ("late_accuracy", "best_accuracy", "visits", "mb", "cpu_s")
    runs = {name: [getattr(outcome, name) for outcome in outcomes] for name in names}
    return {"chosen": chosen, "trials": tried, "runs": runs}, cache.earlier_s


def _settings(row: LeagueRow, label: str, budget: Budget) -> list[Changes]:
    return [{**point, "training.lr": lr} for lr in budget.lr for point in row.points[label]]


def _tuned(race: Race, cache: Cache) -> list[Trial]:
    """Return the trials of all settings, best first.

    All settings run on the first tuning seed, each until it can no longer be the fastest, so the first one is the same
    as with full runs if any reaches the target. The best two also run on the other tuning seeds.
    """
    first, *others = race.budget.tuning_seeds
    fastest_s: float | None = None
    tried: list[tuple[Changes, list[Outcome]]] = []
    for changes in _settings(race.row, race.label, race.budget):
        outcome = _outcome(race, cache, changes, first, fastest_s)
        if outcome.times_s[-1] is not None:
            fastest_s = outcome.end_s
        tried.append((changes, [outcome]))
    tried.sort(key=lambda one: _trial(race.label, one).order)
    for changes, outcomes in tried[:_KEEP]:
        outcomes += [_outcome(race, cache, changes, seed) for seed in others]
    best = sorted((_trial(race.label, one) for one in tried[:_KEEP]), key=lambda trial: trial.order)
    return best + [_trial(race.label, one) for one in tried[_KEEP:]]


def _trial(label: str, tried: tuple[Changes, list[Outcome]]) -> Trial:
    changes, outcomes = tried
    times = tuple(outcome.times_s[-1] for outcome in outcomes)
    return Trial(label, changes, times, tuple(outcome.best_accuracy for outcome in outcomes))


def _outcome(race: Race, cache: Cache, changes: Changes, seed: int, seconds: float | None = None) -> Outcome:
    aim = {"run.target_accuracy": race.target.full, "run.stop_at_target": True}
    config = _seeded(race.row.base, race.label, {**changes, **aim}, seed)
    return cache.outcome(config, race.target.levels, Limits(race.most_visits, seconds))


def _seeded(base: Config, label: str, changes: Mapping[str, Any], seed: int) -> Config:
    return base.for_comparison(label).with_changes(
        {**changes, "run.seed": seed, "executor.kind": "inline"}, label=label
    )
