"""Statistics of times over seeds, some of which are only known to be later than the horizon, and their words."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import scipy

from fedtempo.studies.papers.verdicts import CONFIDENCE, Effect

Times = Sequence[float | None]
"""Seconds, one per seed; None for a run that did not reach the target."""

SIGNIFICANCE = 0.05
"""Adjusted p-value below which a competitor counts as later than another."""
MARGIN = 1.1
"""Ratio of times up to which, either way, two competitors count as level."""


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


class Relation(StrEnum):
    """What the seeds say of a competitor beside the one with the lowest median time."""

    FIRST = "first"
    LEVEL = "level"
    UNKNOWN = "not told apart"
    LATER = "later"


def factor(times: Times, base: Times, horizon_s: float) -> tuple[float, bool]:
    """Return the median over seeds of `times` over `base` on the same seed, and whether it is only a lower bound.

    A run that did not reach the target counts as reaching it at the horizon; the ratio is a lower bound if the median
    of `times` is infinite.
    """
    ratios = [a / b for a, b in zip(counted(times, horizon_s), counted(base, horizon_s), strict=True)]
    return statistics.median(ratios), math.isinf(median(times))


@dataclass(frozen=True)
class Ratio:
    """The geometric mean over seeds of the ratio of two times, with its confidence interval.

    bound: whether it is a lower bound.
    """

    mean: float
    low: float
    high: float
    bound: bool

    @property
    def words(self) -> str:
        return f"{'> ' if self.bound else ''}{self.mean:.2f} ({self.low:.2f} to {self.high:.2f})"


def ratio(times: Times, base: Times, horizon_s: float, confidence: float = CONFIDENCE) -> Ratio:
    """Return the mean ratio of `times` to `base`, seed by seed, with Student's interval for the mean of logarithms.

    A single seed has an infinite interval. A run that did not reach the target counts as reaching it at the horizon.
    If a run of `times` did not, the ratio is a lower bound; if one of `base` did not, an upper bound.
    """
    pairs = zip(counted(times, horizon_s), counted(base, horizon_s), strict=True)
    effect = Effect.of([math.log(a) - math.log(b) for a, b in pairs], confidence=confidence)
    low, high = math.exp(effect.low), math.exp(effect.high) if math.isfinite(effect.high) else math.inf
    return Ratio(math.exp(effect.mean), low, high, None in times)


def p_value_of_later(times: Times, base: Times, horizon_s: float, resolution_s: float = 0.0) -> float:
    """Return the p-value of Student's one-sided paired test that `times` are later than `base`.

    The test pairs logarithms of times by seed. A run that did not reach the target counts as reaching it at the
    horizon, which makes it seem earlier than it is. The mean difference must exceed that of one evaluation more
    (resolution_s: time between evaluations). With a single seed nothing is shown: the value is 1.
    """
    logs = np.log(counted(times, horizon_s)) - np.log(counted(base, horizon_s))
    excess = float(logs.mean()) - math.log(tick(times, base, horizon_s, resolution_s))
    if logs.size == 1 or excess <= 0:
        return 1.0
    error = float(logs.std(ddof=1)) / math.sqrt(logs.size)
    return float(scipy.stats.t.sf(excess / error, logs.size - 1)) if error else 0.0


def shown_differences(pairs: Sequence[tuple[Times, Times, float, float]]) -> list[str]:
    """Return "sooner", "later" or "" (not shown) for each pair: times, those of the base, horizon and resolution (s).

    Student's paired test, two-sided at the 5 % level, corrected by Holm's method for the number of pairs.
    """
    later = [p_value_of_later(times, base, *cell) for times, base, *cell in pairs]
    sooner = [p_value_of_later(base, times, *cell) for times, base, *cell in pairs]
    adjusted = holm([min(1.0, 2 * min(both)) for both in zip(later, sooner, strict=True)])
    return [
        "" if p_value >= SIGNIFICANCE else "later" if late < soon else "sooner"
        for p_value, late, soon in zip(adjusted, later, sooner, strict=True)
    ]


def first(times: Mapping[str, Times]) -> str | None:
    """Return the label with the lowest median, of several the one with the lowest mean logarithm; None if all miss."""
    medians = {label: median(times_s) for label, times_s in times.items()}
    if not medians or math.isinf(least := min(medians.values())):
        return None
    fastest = [label for label, value in medians.items() if value == least]
    return min(fastest, key=lambda label: statistics.fmean(math.log(t) if t else math.inf for t in times[label]))


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values adjusted for their number by Holm's method, in the same order."""
    adjusted, largest = [0.0] * len(p_values), 0.0
    for place, index in enumerate(sorted(range(len(p_values)), key=lambda index: p_values[index])):
        largest = max(largest, min(1.0, (len(p_values) - place) * p_values[index]))
        adjusted[index] = largest
    return adjusted


def is_no_later(times: Times, base: Times, horizon_s: float, resolution_s: float = 0.0) -> bool:
    """Return whether `times` are shown to be at most `MARGIN` times as long as `base`: one-sided, at the 5 % level.

    This holds if the 90 % interval of the ratio ends below `MARGIN`, and every run of `times` reached the target.
    resolution_s: time between evaluations, by which the difference of mean times may be off.
    """
    if None in times:
        return False
    interval = ratio(times, base, horizon_s, confidence=0.9)
    return interval.high * tick(times, base, horizon_s, resolution_s) <= MARGIN


def is_level(times: Times, base: Times, horizon_s: float, resolution_s: float = 0.0) -> bool:
    """Return whether two competitors are shown to be level: each to be no later than the other.

    The 90 % interval of the ratio then lies between 1 / `MARGIN` and `MARGIN`.
    """
    return is_no_later(times, base, horizon_s, resolution_s) and is_no_later(base, times, horizon_s, resolution_s)


def tick(times: Times, base: Times, horizon_s: float, resolution_s: float) -> float:
    """Return the ratio by which one evaluation more changes the shorter of two mean times."""
    return 1 + resolution_s / min(statistics.fmean(counted(each, horizon_s)) for each in (times, base))


def relations(times: Mapping[str, Times], horizon_s: float, resolution_s: float = 0.0) -> dict[str, Relation]:
    """Return how each competitor relates to the one with the lowest median; empty if no median reaches the target.

    A competitor is level if `is_level` shows it, otherwise later if Student's paired test does, corrected by
    Holm's method for the number of competitors.
    """
    if (best := first(times)) is None:
        return {}
    others = [label for label in times if label != best]
    adjusted = holm([p_value_of_later(times[label], times[best], horizon_s, resolution_s) for label in others])
    found = {best: Relation.FIRST}
    for label, p_value in zip(others, adjusted, strict=True):
        if is_level(times[label], times[best], horizon_s, resolution_s):
            found[label] = Relation.LEVEL
        else:
            found[label] = Relation.LATER if p_value < SIGNIFICANCE else Relation.UNKNOWN
    return found


def ranks(times: Mapping[str, Times]) -> dict[str, float]:
    """Return ranks by median, 1 for the first; equal medians, also infinite ones, share their mean rank."""
    medians = [median(times_s) for times_s in times.values()]
    return dict(zip(times, scipy.stats.rankdata(medians).tolist(), strict=True))


def share_within(factors: Mapping[str, Sequence[float]], times: float) -> dict[str, float]:
    """Return the share of rows in which each competitor takes at most `times` the best time (a performance profile).

    factors: of each competitor over the rows, infinite if it does not reach the target.
    """
    return {label: sum(value <= times for value in values) / len(values) for label, values in factors.items()}


def counted(times: Times, horizon_s: float) -> list[float]:
    """Return the times, in s, with the horizon for a run that does not reach the target."""
    return [horizon_s if time is None else time for time in times]
