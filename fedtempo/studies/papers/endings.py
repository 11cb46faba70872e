"""Accuracies at the horizon, in the cells of a contest that have no target."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fedtempo.studies.papers.contest_results import CellResult
from fedtempo.studies.papers.verdicts import Effect


@dataclass(frozen=True)
class Spread:
    """Mean, lowest and highest value over seeds."""

    mean: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        return cls(statistics.fmean(values), min(values), max(values))


@dataclass(frozen=True)
class Ending:
    """Accuracy of an entrant at the horizon. difference: from the cell's first entrant, None for that one.

    worst_tenth: accuracy of the final model at the tenth of the clients that it serves worst.
    """

    cell: str
    label: str
    accuracy: Spread
    difference: Effect | None
    chosen: Mapping[str, Any]
    worst_tenth: Spread


def endings(cells: Sequence[CellResult]) -> Iterator[Ending]:
    """Yield the accuracies of all entrants at the horizon, cell by cell."""
    for cell in cells:
        base = cell.tried[cell.first_label].late_accuracies
        for label, result in cell.tried.items():
            late = result.late_accuracies
            difference = Effect.of([a - b for a, b in zip(late, base, strict=True)])
            yield Ending(
                cell=cell.title,
                label=label,
                accuracy=Spread.of(late),
                difference=None if label == cell.first_label else difference,
                chosen=result.chosen,
                worst_tenth=Spread.of([each.worst_tenth for each in result.clients]),
            )
