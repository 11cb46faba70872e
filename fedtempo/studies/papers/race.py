"""One entrant in one cell: tuned with early stopping, then run on seeds that the tuning did not use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fedtempo.runs.config import Config
from fedtempo.studies.papers.cache import Cache, Outcome
from fedtempo.studies.papers.cells import Cell
from fedtempo.studies.papers.contest_results import EntrantResult, SeedRun, Target, TrialResult
from fedtempo.studies.papers.per_client import client_accuracies
from fedtempo.studies.tuning.trials import Changes

KEPT = 3
"""Number of settings, the best on the first tuning seed, that run on all tuning seeds."""


@dataclass(frozen=True)
class Race:
    """One entrant in one cell.

    target: None if runs go to the horizon and the accuracy at the end counts. cache: file with the outcomes of earlier
    runs, if any.
    """

    cell: Cell
    label: str
    target: Target | None
    cache: Path | None


def find_target(race: Race) -> tuple[Target, float]:
    """Return a target from the best accuracy at the end of a tuned race without one, on the first tuning seed.

    That accuracy is the mean over the last tenth of the horizon. Also returns the CPU seconds that cached runs had
    taken.
    """
    cache, seed = Cache(race.cache), race.cell.budget.tuning_seeds[0]
    ends = [_outcome(race, cache, changes, seed).late_accuracy for changes in race.cell.settings(race.label)]
    return Target.of(max(ends)), cache.earlier_s


def run_race(race: Race) -> tuple[EntrantResult, float]:
    """Return the results of an entrant in a cell, and the CPU seconds that cached runs had taken."""
    cache = Cache(race.cache)
    trials = _tuned(race, cache)
    chosen = trials[0].changes
    runs = [SeedRun(**asdict(_outcome(race, cache, chosen, seed)), seed=seed) for seed in race.cell.budget.seeds]
    clients = (
        [] if race.target else [client_accuracies(config_of(race, chosen, run.seed)) for run in runs if not run.error]
    )
    return EntrantResult(chosen, trials, runs, clients), cache.earlier_s


def _tuned(race: Race, cache: Cache) -> list[TrialResult]:
    """Return the trials of all settings, best first.

    All settings run on the first tuning seed. With a target, each runs until it can no longer be the fastest on that
    seed. The best `KEPT` then run to the target or the horizon on every tuning seed, also on the first one.
    """
    first, *others = race.cell.budget.tuning_seeds
    fastest_s: float | None = None
    tried: list[tuple[Changes, list[Outcome]]] = []
    for changes in race.cell.settings(race.label):
        outcome = _outcome(race, cache, changes, first, fastest_s)
        if outcome.times_s and outcome.times_s[-1] is not None:
            fastest_s = outcome.end_s
        tried.append((changes, [outcome]))
    tried.sort(key=lambda pair: _trial(*pair).order)
    for changes, outcomes in tried[:KEPT]:
        if outcomes[0].cut:
            outcomes[0] = _outcome(race, cache, changes, first)
        outcomes += [_outcome(race, cache, changes, seed) for seed in others]
    best, rest = ([_trial(*pair) for pair in pairs] for pairs in (tried[:KEPT], tried[KEPT:]))
    return sorted(best, key=lambda trial: trial.order) + rest


def _trial(changes: Changes, outcomes: list[Outcome]) -> TrialResult:
    if not outcomes[0].times_s:
        return TrialResult(changes, (), tuple(outcome.late_accuracy for outcome in outcomes))
    times = tuple(outcome.times_s[-1] for outcome in outcomes)
    return TrialResult(changes, times, tuple(outcome.best_accuracy for outcome in outcomes))


def _outcome(race: Race, cache: Cache, changes: Mapping[str, Any], seed: int, seconds: float | None = None) -> Outcome:
    """Return the outcome of one run. seconds: simulated time after which it cannot be the fastest any more."""
    levels = () if race.target is None else (race.target.early, race.target.full)
    return cache.outcome(config_of(race, changes, seed), levels, seconds)


def config_of(race: Race, changes: Mapping[str, Any], seed: int) -> Config:
    """Return the configuration of one run of a race."""
    fixed: dict[str, Any] = {"run.seed": seed, "executor.kind": "inline"}
    if race.target is not None:
        fixed |= {"run.target_accuracy": race.target.full, "run.stop_at_target": True}
    return race.cell.base.for_comparison(race.label).with_changes({**changes, **fixed}, label=race.label).alone()
