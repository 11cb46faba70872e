"""Statistics of times over seeds, some of which are only known to be later than the horizon, and their words."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import scipy

Times = Sequence[float | None]
"""Seconds, one per seed; None for a run that did not reach the target."""

LEVEL = 0.05
"""p-value below which a competitor counts as later than another."""


def median(times: Times) -> float:
    """Return the median over seeds, in which a run that missed the target is later than all others: infinite.

    For an even number of runs it is the mean of the two in the middle.
    """
    return statistics.median(math.inf if time is None else time for time in times)


def seconds(value: float) -> str:
    """Return a time with three digits."""
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def times_in_words(times: Times) -> str:
    """Return "42.5 s (35 to 80)", median and range, with the number of seeds that reached the target if not all did."""
    known = [time for time in times if time is not None]
    if not known:
        return "never"
    middle = median(times)
    words = "never" if math.isinf(middle) else f"{seconds(middle)} s"
    some = "" if len(known) == len(times) else f"{len(known)} of {len(times)}: "
    return f"{words} ({some}{seconds(min(known))} to {seconds(max(known))})"


def median_coverage(seeds: int) -> float:
    """Return the probability that a distribution's median lies between the lowest and highest of n independent draws.

    It is 1 - 2 (1/2)^n for any distribution: otherwise all draws lie on one side of its median.
    """
    return 1 - 2.0 ** (1 - seeds)


def factor(times: Times, base: Times, horizon_s: float) -> tuple[float, bool]:
    """Return the median over seeds of `times` over `base` on the same seed, and whether it is only a lower bound.

    A run that did not reach the target counts as reaching it at the horizon; the ratio is a lower bound if the median
    of `times` is infinite.
    """
    ratios = [a / b for a, b in zip(_counted(times, horizon_s), _counted(base, horizon_s), strict=True)]
    return statistics.median(ratios), math.isinf(median(times))


@dataclass(frozen=True)
class Ratio:
    """The geometric mean over seeds of the ratio of two times, with its 95 % confidence interval.

    bound: whether it is a lower bound.
    """

    mean: float
    low: float
    high: float
    bound: bool

    @property
    def sooner(self) -> bool:
        """Whether the interval lies below 1."""
        return self.high < 1

    @property
    def later(self) -> bool:
        """Whether the interval lies above 1."""
        return self.low > 1

    @property
    def words(self) -> str:
        return f"{'> ' if self.bound else ''}{self.mean:.2f} ({self.low:.2f} to {self.high:.2f})"


def ratio(times: Times, base: Times, horizon_s: float) -> Ratio:
    """Return the mean ratio of `times` to `base`, seed by seed, with Student's interval for the mean of logarithms.

    A run that did not reach the target counts as reaching it at the horizon. If a run of `times` did not, the ratio is
    a lower bound; if one of `base` did not, the ratio is too small at its lower end.
    """
    logs = np.log(_counted(times, horizon_s)) - np.log(_counted(base, horizon_s))
    mean = float(logs.mean())
    reach = 0.0
    if logs.size > 1:
        error = float(logs.std(ddof=1)) / math.sqrt(logs.size)
        reach = float(scipy.stats.t.ppf(0.975, logs.size - 1)) * error
    return Ratio(math.exp(mean), math.exp(mean - reach), math.exp(mean + reach), None in times)


def p_value_of_later(times: Times, base: Times, horizon_s: float) -> float:
    """Return the p-value of the one-sided Wilcoxon signed-rank test that `times` are later than `base`.

    The test pairs logarithms of times by seed. A run that did not reach the target counts as reaching it at the
    horizon, which makes it seem earlier than it is, so the test errs towards a tie. The value is 1 if no seed differs,
    and at least 2^-n with n seeds.
    """
    counted = np.log(_counted(times, horizon_s)), np.log(_counted(base, horizon_s))
    differences = counted[0] - counted[1]
    if not differences.any():
        return 1.0
    return float(scipy.stats.wilcoxon(differences, alternative="greater").pvalue)


def first(times: Mapping[str, Times]) -> str | None:
    """Return the label with the lowest median, of several the one with the lowest mean logarithm; None if all miss."""
    medians = {label: median(times_s) for label, times_s in times.items()}
    if not medians or math.isinf(least := min(medians.values())):
        return None
    fastest = [label for label, value in medians.items() if value == least]
    return min(fastest, key=lambda label: statistics.fmean(math.log(t) if t else math.inf for t in times[label]))


def level_with_first(times: Mapping[str, Times], horizon_s: float) -> list[str]:
    """Return the first and the labels that the test does not show to be later than it, by median."""
    if (best := first(times)) is None:
        return []
    level = [
        label
        for label, times_s in times.items()
        if label == best
        or (p_value_of_later(times_s, times[best], horizon_s) >= LEVEL and not math.isinf(median(times_s)))
    ]
    return sorted(level, key=lambda label: (label != best, median(times[label])))


def ranks(times: Mapping[str, Times]) -> dict[str, float]:
    """Return ranks by median, 1 for the first; equal medians, also infinite ones, share their mean rank."""
    medians = [median(times_s) for times_s in times.values()]
    return dict(zip(times, scipy.stats.rankdata(medians).tolist(), strict=True))


def share_within(factors: Mapping[str, Sequence[float]], times: float) -> dict[str, float]:
    """Return the share of rows in which each competitor takes at most `times` the best time (a performance profile).

    factors: of each competitor over the rows, infinite if it does not reach the target.
    """
    return {label: sum(value <= times for value in values) / len(values) for label, values in factors.items()}


def _counted(times: Times, horizon_s: float) -> list[float]:
    return [horizon_s if time is None else time for time in times]
