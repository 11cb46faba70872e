"""What seeds show of the times of two competitors: a difference, that they are level, or nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from fedtempo.studies.papers.cell_ratios import CellRatios
from fedtempo.studies.papers.contest_results import CellResult
from fedtempo.studies.papers.ranking import Times, is_level, is_no_later, shown_differences

Pair = tuple[Times, Times, float, float]
"""Times, those of the base, the horizon and the time between evaluations (s)."""


class Finding(StrEnum):
    """What seeds show of times beside those of a base.

    LEVEL: each is shown to be at most `ranking.MARGIN` times as long as the other. NO_LATER: the times are shown to be
    at most so much longer than those of the base.
    """

    SOONER = "sooner"
    LEVEL = "level"
    NO_LATER = "no later"
    LATER = "later"
    NOT_SHOWN = "not shown"

    @property
    def differs(self) -> bool:
        """Whether a difference is shown."""
        return self in (Finding.SOONER, Finding.LATER)


def findings(pairs: Sequence[Pair]) -> list[Finding]:
    """Return what is shown of each pair.

    Level comes first: a difference within the margin does not count, whatever its p-value. Differences are corrected
    for the number of pairs (see `ranking.shown_differences`).
    """
    return [_finding(pair, difference) for pair, difference in zip(pairs, shown_differences(pairs), strict=True)]


def _finding(pair: Pair, difference: str) -> Finding:
    if is_level(*pair):
        return Finding.LEVEL
    if difference:
        return Finding(difference)
    return Finding.NO_LATER if is_no_later(*pair) else Finding.NOT_SHOWN


@dataclass(frozen=True)
class CellFindings(CellRatios):
    """The ratios in a cell. findings: by variant, except the first, what is shown of it beside the first."""

    findings: Mapping[str, Finding]

    @classmethod
    def of(cls, cell: CellResult) -> CellFindings:
        relative, base = CellRatios.of(cell), cell.tried[cell.first_label].times_s
        pairs = {
            label: (result.times_s, base, cell.horizon_s, cell.resolution_s) for label, result in cell.tried.items()
        }
        del pairs[cell.first_label]
        found = dict(zip(pairs, findings(list(pairs.values())), strict=True))
        return cls(relative.cell, relative.ratios, relative.shown, found)
