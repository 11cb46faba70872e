"""Times in one cell of a contest relative to those of the cell's first variant."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fedtempo.studies.papers.contest_results import CellResult, EntrantResult
from fedtempo.studies.papers.ranking import Ratio, ratio, shown_differences


@dataclass(frozen=True)
class CellRatios:
    """A cell, and by variant the ratio of its times to those of the cell's first variant, None for that one.

    shown: by variant "sooner" or "later" than the first, or "" if neither is shown (corrected for their number).
    """

    cell: CellResult
    ratios: Mapping[str, Ratio | None]
    shown: Mapping[str, str]

    @classmethod
    def of(cls, cell: CellResult) -> CellRatios:
        base = cell.tried[cell.first_label].times_s
        ratios = {label: ratio(result.times_s, base, cell.horizon_s) for label, result in cell.tried.items()}
        others = [label for label in cell.tried if label != cell.first_label]
        pairs = [(cell.tried[label].times_s, base, cell.horizon_s, cell.resolution_s) for label in others]
        shown = dict(zip(others, shown_differences(pairs), strict=True))
        return cls(cell, {**ratios, cell.first_label: None}, {**shown, cell.first_label: ""})

    @property
    def by_time(self) -> list[tuple[str, EntrantResult]]:
        """Labels and results, the least median time first."""
        return sorted(self.cell.tried.items(), key=lambda item: item[1].median_s)
