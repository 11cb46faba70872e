"""Statistics of a league: times over seeds of which some are not known but to be later than the horizon."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import scipy

Times = Sequence[float | None]
"""Seconds, one a seed; None for a run that did not get there."""

LEVEL = 0.05
"""Chance below which a competitor counts as later than another."""


def median(times: Times) -> float:
    """Median over seeds, in which a run that did not get there is later than all others; infinite where most are not.

    Of an even number of runs the mean of the two in the middle.
    """
    return statistics.median(math.inf if time is None else time for time in times)


def covered(seeds: int) -> float:
    """Chance that the median of the distribution lies between the least and the greatest of so many independent draws.

    1 - 2 (1/2)^n, whatever the distribution: all draws lie on one side of its median otherwise.
    """
    return 1 - 2.0 ** (1 - seeds)


def factor(times: Times, base: Times, horizon_s: float) -> tuple[float, bool]:
    """How many times later than `base`: the median over seeds of the ratio of both on the same seed.

    A run that did not get there counts as one at the horizon. The second value says whether the ratio is therefore a
    lower bound: whether the median of `times` is not known.
    """
    ratios = [a / b for a, b in zip(_counted(times, horizon_s), _counted(base, horizon_s), strict=True)]
    return statistics.median(ratios), math.isinf(median(times))


@dataclass(frozen=True)
class Ratio:
    """Of two times: the geometric mean over seeds, with its 95 % confidence interval. bound: a lower bound."""

    mean: float
    low: float
    high: float
    bound: bool

    @property
    def words(self) -> str:
        return f"{'> ' if self.bound else ''}{self.mean:.2f} ({self.low:.2f} to {self.high:.2f})"


def ratio(times: Times, base: Times, horizon_s: float) -> Ratio:
    """`times` over `base`, seed by seed: Student's interval for the mean of logarithms.

    A run that did not get there counts as one at the horizon. Where that is so for a run of `times`, the ratio is a
    lower bound; where it is for one of `base`, ratios are smaller than they should be at their lower end.
    """
    logs = np.log(_counted(times, horizon_s)) - np.log(_counted(base, horizon_s))
    mean = float(logs.mean())
    reach = 0.0
    if logs.size > 1:
        error = float(logs.std(ddof=1)) / math.sqrt(logs.size)
        reach = float(scipy.stats.t.ppf(0.975, logs.size - 1)) * error
    return Ratio(math.exp(mean), math.exp(mean - reach), math.exp(mean + reach), None in times)


def chance_of_no_later(times: Times, base: Times, horizon_s: float) -> float:
    """Wilcoxon's signed-rank test on logarithms of times, seed by seed, one-sided: small where `times` are later.

    A run that did not get there counts as one at the horizon, which makes it seem earlier than it is: the test errs to
    the side of a tie. 1 where no seed differs. With n seeds the least possible value is 2^-n.
    """
    counted = np.log(_counted(times, horizon_s)), np.log(_counted(base, horizon_s))
    differences = counted[0] - counted[1]
    if not differences.any():
        return 1.0
    return float(scipy.stats.wilcoxon(differences, alternative="greater").pvalue)


def first(times: Mapping[str, Times]) -> str | None:
    """Who has the least median; of several the one with the least mean logarithm; None where nobody gets there."""
    medians = {label: median(own) for label, own in times.items()}
    if not medians or math.isinf(least := min(medians.values())):
        return None
    best = [label for label, value in medians.items() if value == least]
    return min(best, key=lambda label: statistics.fmean(math.log(t) if t else math.inf for t in times[label]))


def tied(times: Mapping[str, Times], horizon_s: float) -> list[str]:
    """The first, and those that the test does not show to be later than it, by median."""
    if (best := first(times)) is None:
        return []
    level = [
        label
        for label, own in times.items()
        if label == best or (chance_of_no_later(own, times[best], horizon_s) >= LEVEL and not math.isinf(median(own)))
    ]
    return sorted(level, key=lambda label: (label != best, median(times[label])))


def ranks(times: Mapping[str, Times]) -> dict[str, float]:
    """Places by median, 1 for the first; those with the same median, or with none, share the mean of their places."""
    medians = [median(own) for own in times.values()]
    return dict(zip(times, scipy.stats.rankdata(medians).tolist(), strict=True))


def within(factors: Mapping[str, Sequence[float]], times: float) -> dict[str, float]:
    """Share of the rows in which each is at most so many times later than the best (a performance profile's value).

    factors: of each competitor over the rows, infinite where it does not get there.
    """
    return {label: sum(own <= times for own in values) / len(values) for label, values in factors.items()}


def _counted(times: Times, horizon_s: float) -> list[float]:
    return [horizon_s if time is None else time for time in times]
