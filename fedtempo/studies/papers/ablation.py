"""The ablation of async-memory: what each of its parts is worth, and which one's removal costs the most."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from fedtempo.report.words import listed
from fedtempo.studies.papers.contest_results import CellResult
from fedtempo.studies.papers.findings import Finding, findings
from fedtempo.studies.papers.ranking import SIGNIFICANCE, Ratio, counted, ratio, tick
from fedtempo.studies.papers.verdicts import Effect


class _Question(NamedTuple):
    """A part of async-memory, the variant with it and the one without. differs: whether CA2FL lacks this part."""

    part: str
    label: str
    base: str
    differs: bool = False


_QUESTIONS = (
    _Question("weights that fall with staleness", "async-memory", "async-unweighted", differs=True),
    _Question("fresh results count as stale as the mean", "async-memory", "async-unsteady", differs=True),
    _Question("a damped memory", "async-memory", "async-undamped", differs=True),
    _Question("a buffer of one", "async-memory", "async-buffered", differs=True),
    _Question("the mean over clients that were heard", "async-memory", "async-mean-of-all", differs=True),
    _Question("the next client is one with the fewest visits", "async-memory", "async-random-next", differs=True),
    _Question("all parts that CA2FL lacks", "async-memory", "ca2fl"),
    _Question("all of them but the buffer of one", "async-memory", "ca2fl-single"),
    _Question("CA2FL with a buffer of one", "ca2fl-single", "ca2fl"),
    _Question("correction", "async-memory", "async-uncorrected"),
    _Question("correction, if fresh results weigh more", "async-unsteady", "async-uncorrected-unsteady"),
    _Question("correction, if all results weigh the same", "async-unweighted", "async-uncorrected-unweighted"),
    _Question("weights, without correction", "async-uncorrected", "async-uncorrected-unweighted"),
    _Question("steady, without correction", "async-uncorrected", "async-uncorrected-unsteady"),
)


@dataclass(frozen=True)
class Contrast:
    """What a variant's time is relative to that of another one, which lacks a part, in each cell with both.

    cells: by title, the ratio and what is shown, corrected for all contrasts and cells.
    """

    part: str
    label: str
    base: str
    cells: Mapping[str, tuple[Ratio, Finding]]


def contrasts(cells: Sequence[CellResult]) -> list[Contrast]:
    """Return the ablation of async-memory, without questions that no cell answers."""
    asked = [(question, cell) for question in _QUESTIONS for cell in _cells_of(question, cells)]
    pairs = [
        (cell.tried[each.label].times_s, cell.tried[each.base].times_s, cell.horizon_s, cell.resolution_s)
        for each, cell in asked
    ]
    answers: dict[_Question, dict[str, tuple[Ratio, Finding]]] = {}
    for (question, cell), (times, base, horizon_s, _), finding in zip(asked, pairs, findings(pairs), strict=True):
        answers.setdefault(question, {})[cell.title] = ratio(times, base, horizon_s), finding
    return [Contrast(each.part, each.label, each.base, found) for each, found in answers.items()]


@dataclass(frozen=True)
class Removal:
    """What the removal of a part costs: times without it over times with it, on average over cells and seeds.

    cost: with its 95 % interval over seeds. shown: whether the interval excludes 1 after Bonferroni's correction for
    the number of parts, widened by one evaluation.
    """

    part: str
    base: str
    cells: int
    cost: Ratio
    shown: bool

    @property
    def words(self) -> str:
        """ "1.17 times as long (1.10 to 1.25)", with "at least" if a run without the part misses the target."""
        cost = self.cost
        return f"{'at least ' if cost.bound else ''}{cost.mean:.2f} times as long ({cost.low:.2f} to {cost.high:.2f})"


def removals(cells: Sequence[CellResult]) -> list[Removal]:
    """Return what the removal of each part that CA2FL lacks costs, the most costly first.

    Logarithms of ratios are averaged over cells seed by seed, so that seeds are what intervals are over. A part counts
    in the cells with the same seeds as the first of them.
    """
    answered = [
        (question, found) for question in _QUESTIONS if question.differs and (found := _cells_of(question, cells))
    ]
    costs = [_removal(question, found, len(answered)) for question, found in answered]
    return sorted(costs, key=lambda removal: -removal.cost.mean)


def _removal(question: _Question, cells: Sequence[CellResult], parts: int) -> Removal:
    alike = [cell for cell in cells if cell.budget.seeds == cells[0].budget.seeds]
    logs, ticks, bound = [], [], False
    for cell in alike:
        with_it, without = (cell.tried[label].times_s for label in (question.label, question.base))
        pairs = zip(counted(with_it, cell.horizon_s), counted(without, cell.horizon_s), strict=True)
        logs.append([math.log(b) - math.log(a) for a, b in pairs])
        ticks.append(math.log(tick(with_it, without, cell.horizon_s, cell.resolution_s)))
        bound = bound or None in without
    means = [statistics.fmean(of_seed) for of_seed in zip(*logs, strict=True)]
    effect = Effect.of(means)
    corrected = Effect.of(means, statistics.fmean(ticks), 1 - SIGNIFICANCE / parts)
    high = math.exp(effect.high) if math.isfinite(effect.high) else math.inf
    cost = Ratio(math.exp(effect.mean), math.exp(effect.low), high, bound)
    return Removal(question.part, question.base, len(alike), cost, corrected.low > 0 or corrected.high < 0)


def statement(removed: Sequence[Removal]) -> str:
    """Return what names the part whose removal costs the most, or says that none is shown to cost anything.

    removed: as of `removals`, at least one.
    """
    most = removed[0]
    costly = [each for each in removed if each.shown and each.cost.mean > 1]
    sooner = [each for each in removed if each.shown and each.cost.mean < 1]
    if costly:
        text = (
            f"What makes the difference: without “{costly[0].part}” the target takes {costly[0].words}. Of the parts "
            "whose removal is shown to cost time, this one costs the most."
        )
    else:
        text = "No part is shown to make `async-memory` sooner."
    if costly[1:]:
        text += (
            f" Also shown to cost time if removed: {'; '.join(f'“{each.part}”, {each.words}' for each in costly[1:])}."
        )
    if not most.shown:
        text += f" The largest cost, which is not shown: without “{most.part}” {most.words}."
    if sooner:
        text += f" Shown to be sooner without it: {listed([f'“{each.part}”, {each.words}' for each in sooner])}."
    return text


def _cells_of(question: _Question, cells: Sequence[CellResult]) -> list[CellResult]:
    return [cell for cell in cells if question.label in cell.tried and question.base in cell.tried]
