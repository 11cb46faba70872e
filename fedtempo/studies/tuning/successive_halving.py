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
    """points: settings of each competitor that are tried; share: of the run's horizon that each gets."""

    points: int
    share: float


@dataclass(frozen=True)
class Placed:
    """A setting's last trial: it was tried on rungs 0 to `rung`, there to `horizon_s`."""

    trial: Trial
    rung: int
    horizon_s: float

    @property
    def order(self) -> tuple[float, ...]:
        """Smaller is better: what did not diverge, what came farther, then the trial's own order."""
        diverged, *others = self.trial.order
        return diverged, -self.rung, *others


def multiplicative_grid(high: float, low: float, factor: float) -> list[float]:
    """high, high / factor, ... down to low, in two significant digits; from the largest on.

    Raises ConfigError where these make no grid.
    """
    if not 0 < low <= high:
        raise ConfigError(f"--lr {high:g}:{low:g}: give the largest and the smallest, both positive")
    if not factor > 1:
        raise ConfigError(f"--factor {factor:g}: must be above 1")
    values, value = [], high
    while value >= low * (1 - 1e-9):
        values.append(float(f"{value:.2g}"))
        value /= factor
    if len(set(values)) < len(values):
        raise ConfigError(f"--factor {factor:g}: neighbours in the grid agree in two digits; take a larger one")
    return values


def rungs(points: int, budget: float) -> list[Rung]:
    """How `points` settings share `budget` horizons: half of them (rounded up) reach each next rung, two the last.

    From rung to rung the time of a run grows by one factor, such that the budget is used up. A budget for all points
    is a single rung. Raises ConfigError for a budget that is not above two horizons.
    """
    if budget >= points:
        return [Rung(points, 1.0)]
    if budget <= 2:
        raise ConfigError(f"--budget {budget:g}: must be above 2 horizons, which the two last settings take")
    counts = [points]
    while counts[-1] > 2:
        counts.append(-(-counts[-1] // 2))
    last = len(counts) - 1

    def shares(factor: float) -> list[float]:
        return [factor ** (rung - last) for rung in range(last + 1)]

    def left_over(factor: float) -> float:
        return budget - sum(count * share for count, share in zip(counts, shares(factor)))

    longest = 1 + sum(counts) / (budget - 2)  # with this factor some budget is left over
    factor = 1.0 if left_over(1.0) >= 0 else float(scipy.optimize.brentq(left_over, 1.0, longest))
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
    """Tune every competitor over the same points with the same budget; for each all points, the best first.

    A trial is better if none of its runs diverged, then if it reaches the target sooner (median over the seeds), then
    if its best accuracy is higher.
    budget: horizons of each competitor and seed; two thirds of the points, and 3 at least, where None. begins: told of
    each rung. Raises ConfigError for a configuration without a horizon or without training.
    """
    horizon = base.run.horizon
    if horizon is None:
        raise ConfigError("run.horizon is missing: settings are compared by what they reach in so many seconds")
    if base.executor.kind == "none":
        raise ConfigError('executor.kind = "none": tuning needs training')
    alive = {label: list(points) for label in labels}
    placed: dict[str, list[Placed]] = {label: [] for label in labels}
    plan = rungs(len(points), max(3.0, 2 / 3 * len(points)) if budget is None else budget)
    for number, rung in enumerate(plan):
        horizon_s = rung.share * horizon
        begins(number, rung, horizon_s)
        asked = [(label, changes) for label in labels for changes in alive[label]]
        common: Changes = {
            "run.horizon": horizon_s,
            "run.evaluate_every": base.run.evaluate_every / math.ceil(5 * base.run.evaluate_every / horizon_s),
            "run.stop_at_target": base.run.target_accuracy is not None,
        }
        trials = run_trials(base, asked, seeds, common, workers=workers)
        keep = plan[number + 1].points if number + 1 < len(plan) else 0
        for label in labels:
            tried = sorted((trial for trial in trials if trial.label == label), key=lambda trial: trial.order)
            alive[label] = [trial.changes for trial in tried[:keep]]
            placed[label].extend(Placed(trial, number, horizon_s) for trial in tried[keep:])
    return {label: sorted(found, key=lambda place: place.order) for label, found in placed.items()}
