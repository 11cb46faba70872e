"""The league's standings: places in each cell, and which strategies do well in all cells."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from fedtempo.studies.papers.contest_results import CellResult, ContestResults, EntrantResult
from fedtempo.studies.papers.ranking import factor, first, level_with_first, ranks, share_within


@dataclass(frozen=True)
class Place:
    """An entrant's place in a cell.

    factor: time relative to the first's, None if no ranked entrant reaches the target. bound: whether the factor is a
    lower bound. leads: whether it is first. level: whether it is not shown to be later than the first.
    """

    label: str
    result: EntrantResult
    factor: float | None
    bound: bool
    leads: bool
    level: bool
    ranked: bool

    @property
    def words(self) -> str:
        """The times in words, with the best accuracy if no run reached the target."""
        result = self.result
        return result.words if result.reached else f"never ({result.best_accuracy:.0%} at best)"


@dataclass(frozen=True)
class Standing:
    """The places in a cell: by median time, those that miss the target by their best accuracy."""

    cell: CellResult
    places: Sequence[Place]

    def of(self, label: str) -> Place:
        """Return the place of an entrant."""
        return next(place for place in self.places if place.label == label)

    @property
    def ranked(self) -> list[Place]:
        return [place for place in self.places if place.ranked]

    @property
    def first(self) -> Place | None:
        """None if no ranked entrant reaches the target."""
        return next((place for place in self.ranked if place.leads), None)

    @property
    def level_with_first(self) -> list[str]:
        """Strategies that are not shown to be later than the first, which is left out."""
        return [place.label for place in self.ranked if place.level and not place.leads]

    @property
    def next_later(self) -> Place | None:
        """The first strategy that is shown to be later than the first, or that misses the target; None if none is."""
        return next((place for place in self.ranked if not place.level), None)

    @property
    def next_to_reach(self) -> Place | None:
        """The next one shown to be later, if it reaches the target on some seed and its median time is finite."""
        later = next((place for place in self.ranked if not place.level and place.result.reached), None)
        return None if later is None or math.isinf(later.result.median_s) else later

    @property
    def never(self) -> list[str]:
        """Strategies that reach the target on no seed."""
        return [place.label for place in self.places if not place.result.reached]

    @property
    def first_early(self) -> str | None:
        """Label of the first to reach the early target, if any does."""
        return first({place.label: place.result.early_s for place in self.ranked})

    @property
    def cheapest(self) -> Place | None:
        """The strategy that reaches the target on every seed with the fewest bytes, if any does."""
        always = [place for place in self.ranked if place.result.always_reached]
        return min(always, key=lambda place: place.result.median("mb"), default=None)


def standings_of(results: ContestResults) -> list[Standing]:
    """Return the standings in every cell with a target."""
    return [_standing(results, cell) for cell in results.races]


def _standing(results: ContestResults, cell: CellResult) -> Standing:
    ranked = {label: result.times_s for label, result in cell.tried.items() if results.entrants[label].ranked}
    best, level = first(ranked), level_with_first(ranked, cell.horizon_s)
    places = []
    for label, result in cell.tried.items():
        ratio, bound = (None, False) if best is None else factor(result.times_s, ranked[best], cell.horizon_s)
        places.append(Place(label, result, ratio, bound, label == best, label in level, label in ranked))
    places.sort(
        key=lambda place: (
            place.result.median_s,
            -place.result.reached,
            place.label != best,
            -place.result.best_accuracy,
        )
    )
    return Standing(cell, places)


@dataclass(frozen=True)
class Record:
    """A strategy over all cells in which it ran. factors: infinite if its median run misses the target."""

    label: str
    cells: int
    firsts: int
    level: int
    mean_rank: float
    factors: Sequence[float]
    within_2: float
    within_5: float

    @property
    def worst(self) -> float:
        return max(self.factors)


def records(standings: Sequence[Standing]) -> list[Record]:
    """Return the records of all ranked entrants, best first: by share of cells first or level, then by mean rank.

    Cells in which no ranked entrant reaches the target are left out.
    """
    decided = [standing for standing in standings if standing.first is not None]
    labels = list(dict.fromkeys(place.label for standing in decided for place in standing.ranked))
    placed = [ranks({place.label: place.result.times_s for place in standing.ranked}) for standing in decided]
    result = []
    for label in labels:
        places = [place for standing in decided for place in standing.ranked if place.label == label]
        factors = [math.inf if place.bound or place.factor is None else place.factor for place in places]
        result.append(
            Record(
                label=label,
                cells=len(places),
                firsts=sum(place.leads for place in places),
                level=sum(place.level for place in places),
                mean_rank=statistics.fmean(rank[label] for rank in placed if label in rank),
                factors=factors,
                within_2=share_within({label: factors}, 2.0)[label],
                within_5=share_within({label: factors}, 5.0)[label],
            )
        )
    return sorted(result, key=lambda record: (-record.level / record.cells, record.mean_rank))


def statement(standings: Sequence[Standing]) -> tuple[bool, str]:
    """Return whether one strategy is first or level with the first in every cell, and which comes closest, as text."""
    everywhere = [record for record in records(standings) if record.cells == len(standings)]
    if not everywhere:
        return False, "no row is decided"
    best = everywhere[0]
    holds = best.level == best.cells
    missing = [
        f"{standing.cell.title} ({standing.first.label} is first)"
        for standing in standings
        if standing.first is not None and not standing.of(best.label).level
    ]
    words = f"{best.label}: first or level in {best.level} of {best.cells} rows"
    return holds, words if holds else f"{words}; not in {'; '.join(missing)}"
