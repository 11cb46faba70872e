"""Verdicts on a paper's numbers and statements: what an experiment confirms, contradicts, or does not show."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import scipy

CONFIDENCE = 0.95


class Verdict(StrEnum):
    """Whether measured values confirm what a paper prints."""

    REACHED = "reached"
    DIRECTION = "same direction"
    NOT_SHOWN = "not shown"
    NOT_REACHED = "not reached"


_BEST_FIRST = list(Verdict)


@dataclass(frozen=True)
class Effect:
    """The mean of a paired difference over seeds, with its confidence interval (Student's t), of 95 % by default.

    A single seed has an infinite interval.
    """

    mean: float
    low: float
    high: float

    @classmethod
    def of(cls, differences: Sequence[float], resolution: float = 0.0, confidence: float = CONFIDENCE) -> Effect:
        """Return the effect of one difference per seed.

        resolution: how coarsely values are measured, such as the time between evaluations; it widens the interval on
        both sides, so that equal ticks on all seeds are no certainty.
        """
        mean, n = statistics.fmean(differences), len(differences)
        if n == 1:
            return cls(mean, -math.inf, math.inf)
        error = statistics.stdev(differences) / math.sqrt(n)
        reach = float(scipy.stats.t.ppf((1 + confidence) / 2, n - 1)) * error + resolution
        return cls(mean, mean - reach, mean + reach)

    @classmethod
    def of_times(
        cls, times: Sequence[float | None], others: Sequence[float | None], horizon: float, resolution: float = 0.0
    ) -> Effect:
        """Return the effect on the logarithm of times to a target: positive if `times` are earlier than `others`.

        A run that does not reach the target counts as reaching it at the horizon, which understates the difference.
        resolution: time between evaluations.
        """
        pairs = [(horizon if a is None else a, horizon if b is None else b) for a, b in zip(times, others, strict=True)]
        tick = max(math.log1p(resolution / min(pair)) for pair in pairs) if resolution else 0.0
        return cls.of([math.log(b) - math.log(a) for a, b in pairs], tick)

    @property
    def verdict(self) -> Verdict:
        """Return "reached" if the interval lies above 0, "not reached" if below, otherwise "not shown"."""
        least = 1e-9 * abs(self.mean)  # rounding errors of an interval that ends at 0
        if self.low > least:
            return Verdict.REACHED
        return Verdict.NOT_REACHED if self.high < -least else Verdict.NOT_SHOWN

    def __neg__(self) -> Effect:
        return Effect(-self.mean, -self.high, -self.low)

    def words(self, digits: int = 2, unit: str = "") -> str:
        """Return "+0.31 points (-0.55 to 1.47)"."""
        return f"{self.mean:+.{digits}f}{unit} ({self.low:.{digits}f} to {self.high:.{digits}f})"

    @property
    def ratio_words(self) -> str:
        """Return the effect on logarithms of times as the ratio of `times` to `others`: "0.67 (0.55 to 0.80)"."""
        return f"{math.exp(-self.mean):.2f} ({math.exp(-self.high):.2f} to {math.exp(-self.low):.2f})"


@dataclass(frozen=True)
class Row:
    """One quantity: what the paper prints, what was measured (with its spread), and a remark.

    ratio: measured over printed. verdict: None if nothing could be reached, because the paper prints nothing, or the
    row cannot fail, or it is about a variant of ours. headline: whether it is the entry's main statement.
    """

    quantity: str
    paper: str
    measured: str
    remark: str = ""
    ratio: str = ""
    verdict: Verdict | None = None
    headline: bool = False

    def as_headline(self) -> Row:
        """Return the row as the entry's main statement."""
        return replace(self, headline=True)

    def unjudged(self) -> Row:
        """Return the row without a verdict, for a variant of ours."""
        return replace(self, verdict=None)


def number(
    quantity: str,
    paper: float,
    measured: Sequence[float],
    *,
    within: float,
    effect: Effect | None = None,
    digits: int = 1,
    unit: str = "",
    remark: str = "",
) -> Row:
    """Return the row of a printed number and the measured ones, one per seed.

    The mean is near the printed number if it is off by at most `within`, a share of that. effect: the printed number as
    an effect, positive in the paper's direction. A number that is near, and whose effect (if given) is shown, is
    reached. One that is not near is in the same direction if its effect is shown. If the interval of the effect
    includes 0, nothing is shown, near or not.
    """
    mean = statistics.fmean(measured)
    near = abs(mean - paper) <= within * abs(paper)
    verdict: Verdict
    if effect is not None and effect.verdict is not Verdict.REACHED:
        verdict = effect.verdict
    elif near:
        verdict = Verdict.REACHED
    else:
        verdict = Verdict.NOT_REACHED if effect is None else Verdict.DIRECTION
    ratio = f"{mean / paper:.2f}" if paper else ""
    return Row(quantity, f"{paper:.{digits}f}{unit}", spread(measured, digits, unit), remark, ratio, verdict)


def shown(quantity: str, paper: str, measured: str, effect: Effect, remark: str = "") -> Row:
    """Return the row of a statement without a number; effect: positive in the paper's direction."""
    return Row(quantity, paper, measured, remark, "", effect.verdict)


def holds(quantity: str, paper: str, measured: str, true: bool, remark: str = "") -> Row:
    """Return the row of a statement in which no chance is involved, such as the vertices of a hull."""
    return Row(quantity, paper, measured, remark, "", Verdict.REACHED if true else Verdict.NOT_REACHED)


def consistent(
    quantity: str, paper: float, measured: float, *, within: float, digits: int = 1, remark: str = ""
) -> Row:
    """Return the row of a number to which constants were fitted: it says whether they fit, and is not judged."""
    fits = abs(measured - paper) <= within * abs(paper)
    words = "; ".join(filter(None, ("consistent" if fits else "not consistent", remark)))
    ratio = f"{measured / paper:.3f}" if paper else ""
    return Row(quantity, f"{paper:.{digits}f}", f"{measured:.{digits}f}", words, ratio)


def overall_verdict(rows: Sequence[Row]) -> Verdict | None:
    """Return the verdict on an entry, None if no row has one.

    Reached if all rows are; in the same direction if at least half are reached or in the same direction; otherwise not
    reached, or not shown if fewer rows are contradicted than are not shown. Never better than the worst headline.
    Raises ValueError if rows are judged but none of them is the headline.
    """
    judged = [(row.verdict, row.headline) for row in rows if row.verdict is not None]
    if not judged:
        return None
    headlines = [verdict for verdict, headline in judged if headline]
    if not headlines:
        raise ValueError("no judged row is the headline")
    verdicts = [verdict for verdict, _ in judged]
    confirmed = sum(verdict in (Verdict.REACHED, Verdict.DIRECTION) for verdict in verdicts)
    overall: Verdict
    if set(verdicts) == {Verdict.REACHED}:
        overall = Verdict.REACHED
    elif 2 * confirmed >= len(verdicts):
        overall = Verdict.DIRECTION
    else:
        fewer = verdicts.count(Verdict.NOT_REACHED) < verdicts.count(Verdict.NOT_SHOWN)
        overall = Verdict.NOT_SHOWN if fewer else Verdict.NOT_REACHED
    return max(overall, *headlines, key=_BEST_FIRST.index)


def spread(values: Sequence[float], digits: int = 1, unit: str = "") -> str:
    """Return the mean and, of several values, the lowest and highest: "63.4 % (61.0 to 65.2)"."""
    text = f"{statistics.fmean(values):.{digits}f}{unit}"
    return text if len(values) == 1 else f"{text} ({min(values):.{digits}f} to {max(values):.{digits}f})"
