"""Successive halving: many settings for a short time, the better half for longer, the last two to the horizon."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import scipy

from fedtempo.errors import ConfigError
from fedtempo.runs.config import Config
from fedtempo.studies.tuning.trials import Changes, Trial, run_trials


@dataclass(frozen=True)
class Rung:
    """A stage of the tuning. points: settings tried per competitor. share: of the run's horizon that each gets."""

    points: int
    share: float


@dataclass(frozen=True)
class Placed:
    """The last trial of a setting, which was tried on rungs 0 to `rung`, on the last of them to `horizon_s`."""

    trial: Trial
    rung: int
    horizon_s: float

    @property
    def order(self) -> tuple[float, ...]:
        """Sort key, smaller is better: not diverged, then the later rung, then the trial's own order."""
        diverged, *others = self.trial.order
        return diverged, -self.rung, *others


def multiplicative_grid(high: float, low: float, factor: float) -> list[float]:
    """Return high, high / factor, ... down to low, rounded to two significant digits.

    Raises ConfigError if the arguments make no grid.
    """
    if not 0 < low <= high:
        raise ConfigError(f"lr = {high:g}:{low:g}: give the largest and the smallest, both positive")
    if not factor > 1:
        raise ConfigError(f"factor = {factor:g}: must be above 1")
    values, value = [], high
    while value >= low * (1 - 1e-9):
        values.append(float(f"{value:.2g}"))
        value /= factor
    if len(set(values)) < len(values):
        raise ConfigError(
            f"factor = {factor:g}: too small, neighbouring rates agree in two digits; choose a larger factor"
        )
    return values


def rungs(points: int, budget: float) -> list[Rung]:
    """Divide a budget of horizons among `points` settings: half (rounded up) reach each next rung, two the last.

    The length of runs grows by the same factor from rung to rung, chosen to use up the budget. If the budget covers all
    points, there is a single rung. Raises ConfigError for a budget of two horizons or fewer.
    """
    if budget >= points:
        return [Rung(points, 1.0)]
    if budget <= 2:
        raise ConfigError(f"budget = {budget:g}: must be above 2 horizons, which the last two settings need")
    counts = [points]
    while counts[-1] > 2:
        counts.append(-(-counts[-1] // 2))
    last = len(counts) - 1

    def shares(factor: float) -> list[float]:
        return [factor ** (rung - last) for rung in range(last + 1)]

    def remaining(factor: float) -> float:
        return budget - sum(count * share for count, share in zip(counts, shares(factor)))

    longest = 1 + sum(counts) / (budget - 2)  # with this factor some budget remains
    factor = 1.0 if remaining(1.0) >= 0 else float(scipy.optimize.brentq(remaining, 1.0, longest))
    return [Rung(count, share) for count, share in zip(counts, shares(factor))]


def successive_halving(
    base: Config,
    labels: Sequence[str],
    points: Sequence[Changes],
    seeds: Sequence[int],
    budget: float | None,
    *,
    workers: int,
    begins: Callable[[int, Rung, float], None] = lambda number, rung, horizon_s: None,
) -> dict[str, list[Placed]]:
    """Tune every competitor over the same points with the same budget; return all points of each, best first.

    A trial is better if none of its runs diverged, then if it reaches the target sooner (median over seeds), then if
    its best accuracy is higher.
    budget: horizons per competitor and seed (default: two thirds of the number of points, at least 3). begins: called
    before each rung with its number, the rung and its horizon (s). Raises ConfigError for a configuration without a
    horizon or without training.
    """
    horizon = base.run.horizon
    if horizon is None:
        raise ConfigError("run.horizon is missing: tuning compares what settings reach within it")
    if base.executor.kind == "none":
        raise ConfigError('executor.kind = "none": tuning needs training')
    alive = {label: list(points) for label in labels}
    placed: dict[str, list[Placed]] = {label: [] for label in labels}
    plan = rungs(len(points), max(3.0, 2 / 3 * len(points)) if budget is None else budget)
    for number, rung in enumerate(plan):
        horizon_s = rung.share * horizon
        begins(number, rung, horizon_s)
        settings = [(label, changes) for label in labels for changes in alive[label]]
        common: Changes = {
            "run.horizon": horizon_s,
            "run.evaluate_every": base.run.evaluate_every / math.ceil(5 * base.run.evaluate_every / horizon_s),
            "run.stop_at_target": base.run.target_accuracy is not None,
        }
        trials = run_trials(base, settings, seeds, common, workers=workers)
        n_kept = plan[number + 1].points if number + 1 < len(plan) else 0
        for label in labels:
            tried = sorted((trial for trial in trials if trial.label == label), key=lambda trial: trial.order)
            alive[label] = [trial.changes for trial in tried[:n_kept]]
            placed[label].extend(Placed(trial, number, horizon_s) for trial in tried[n_kept:])
    return {label: sorted(places, key=lambda place: place.order) for label, places in placed.items()}
