"""One entrant in one cell: tuned with early stopping, then run on seeds that the tuning did not use."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from fedtempo.runs.config import Config
from fedtempo.runs.identity import code_sha256
from fedtempo.studies.papers.cache import Cache, Outcome, key_of
from fedtempo.studies.papers.cells import Cell
from fedtempo.studies.papers.contest_results import EntrantResult, SeedRun, Target, TrialResult
from fedtempo.studies.papers.per_client import Final, final_of
from fedtempo.studies.tuning.trials import Changes

_FINAL = TypeAdapter(Final)
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

    @property
    def key(self) -> str:
        """A hash of what decides the result besides code: configurations, versions, target and budget."""
        configs = [config_of(self, changes, 0) for changes in self.cell.settings(self.label)]
        aim = None if self.target is None else (self.target.early, self.target.full)
        budget = asdict(self.cell.budget)
        return key_of(configs, target=aim, budget=budget, kept=KEPT, interpolated=self.cell.interpolated)

    @property
    def code(self) -> str:
        """A hash of the code that decides its runs."""
        return code_sha256(config_of(self, self.cell.settings(self.label)[0], 0))


def find_target(race: Race) -> tuple[Target, float]:
    """Return a target from the best accuracy at the end of a tuned race without one, on the first tuning seed.

    That accuracy is the mean over the last tenth of the horizon. Also returns the CPU seconds that cached runs had
    taken.
    """
    cache, seed = Cache(race.cache), race.cell.budget.tuning_seeds[0]
    ends = [_outcome(race, cache, changes, seed).late_accuracy for changes in race.cell.settings(race.label)]
    return Target.of(max(ends), race.key), cache.earlier_s


def run_race(race: Race) -> tuple[EntrantResult, float]:
    """Return the results of an entrant in a cell, and the CPU seconds that cached runs had taken."""
    began_s = time.process_time()
    cache, seeds = Cache(race.cache), race.cell.budget.seeds
    trials = _tuned(race, cache)
    chosen = trials[0].changes
    runs = [SeedRun(**asdict(_outcome(race, cache, chosen, seed)), seed=seed) for seed in seeds]
    able = [run.seed for run in runs if not run.error]
    ends = [] if race.target else [_final(race, cache, chosen, seed).clients for seed in able]
    to_horizon = {**chosen, "run.stop_at_target": False}
    finals = [_final(race, cache, to_horizon, seed) for seed in able[: race.cell.budget.final_seeds]]
    cpu_s = round(time.process_time() - began_s + cache.earlier_s, 1)
    result = EntrantResult(chosen, trials, runs, list(filter(None, ends)), finals, race.key, race.code, cpu_s)
    return result, cache.earlier_s


def _tuned(race: Race, cache: Cache) -> list[TrialResult]:
    """Return the trials of the settings, best first.

    Settings run on the first tuning seed. With a target, each runs until it can no longer be the fastest on that seed.
    The best `KEPT` then run to the target or the horizon on every tuning seed, also on the first one. If visits are
    limited, the settings may use half of them, and the best run on as many seeds as the rest allows.
    """
    budget = race.cell.budget
    first, *others = budget.tuning_seeds
    limit = math.inf if budget.tuning_visits is None else budget.tuning_visits
    fastest_s: float | None = None
    tried: list[_Tried] = []
    for changes in race.cell.settings(race.label):
        if tried and sum(each.visits for each in tried) >= limit / 2:
            break
        outcome = _outcome(race, cache, changes, first, fastest_s)
        if outcome.times_s and outcome.times_s[-1] is not None:
            fastest_s = outcome.end_s
        tried.append(_Tried(changes, [outcome], outcome.visits))
    tried.sort(key=lambda each: each.result.order)
    best = tried[:KEPT]
    for each in best:
        if each.outcomes[0].cut:
            each.outcomes.pop()
            each.add(_outcome(race, cache, each.changes, first))
    for seed in others:
        if sum(each.visits for each in tried) >= limit:
            break
        for each in best:
            each.add(_outcome(race, cache, each.changes, seed))
    results = [each.result for each in best]
    return sorted(results, key=lambda trial: trial.order) + [each.result for each in tried[KEPT:]]


@dataclass
class _Tried:
    """A setting that was tried. outcomes: by tuning seed. visits: of these runs, and of one that was cut before."""

    changes: Changes
    outcomes: list[Outcome]
    visits: int

    def add(self, outcome: Outcome) -> None:
        self.outcomes.append(outcome)
        self.visits += outcome.visits

    @property
    def result(self) -> TrialResult:
        if not self.outcomes[0].times_s:
            late = tuple(outcome.late_accuracy for outcome in self.outcomes)
            return TrialResult(self.changes, (), late, self.visits)
        times = tuple(outcome.times_s[-1] for outcome in self.outcomes)
        best = tuple(outcome.best_accuracy for outcome in self.outcomes)
        return TrialResult(self.changes, times, best, self.visits)


def _outcome(race: Race, cache: Cache, changes: Mapping[str, Any], seed: int, seconds: float | None = None) -> Outcome:
    """Return the outcome of one run. seconds: simulated time after which it cannot be the fastest any more."""
    levels = () if race.target is None else (race.target.early, race.target.full)
    return cache.outcome(config_of(race, changes, seed), levels, seconds, interpolated=race.cell.interpolated)


def _final(race: Race, cache: Cache, changes: Mapping[str, Any], seed: int) -> Final:
    """Return the accuracies at the end of one run."""
    return _FINAL.validate_python(cache.final(config_of(race, changes, seed), final_of))


def config_of(race: Race, changes: Mapping[str, Any], seed: int) -> Config:
    """Return the configuration of one run of a race."""
    fixed: dict[str, Any] = {"run.seed": seed, "executor.kind": "inline"}
    if race.target is not None:
        fixed |= {"run.target_accuracy": race.target.full, "run.stop_at_target": True}
    return race.cell.base.for_comparison(race.label).with_changes({**fixed, **changes}, label=race.label).alone()
