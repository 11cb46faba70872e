"""The league's standings: places in each cell, and which strategies do well in all cells."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from fedtempo.studies.papers.contest_results import CellResult, ContestResults, EntrantResult
from fedtempo.studies.papers.ranking import (
    Ratio,
    Relation,
    Times,
    factor,
    first,
    is_no_later,
    ranks,
    ratio,
    relations,
    share_within,
)
from fedtempo.studies.papers.verdicts import Verdict


@dataclass(frozen=True)
class Place:
    """An entrant's place in a cell, in which at least one of its runs could be made.

    factor: time relative to the first's, None if no ranked entrant reaches the target. bound: whether the factor is a
    lower bound. ratio: mean of the times relative to the first's on the same seed. relation: to the entrant with the
    lowest median, None if there is none or the entrant is not ranked. best: whether it is shown to be no later than
    every other ranked entrant (see `ranking.is_no_later`). told: what its server is told.
    """

    label: str
    result: EntrantResult
    factor: float | None
    bound: bool
    ratio: Ratio | None
    relation: Relation | None
    ranked: bool
    best: bool
    told: Sequence[str] = ()

    @property
    def told_more(self) -> bool:
        """Whether its server is told more than the clients' mean times: about their data, models or presence."""
        return any(what != "times" for what in self.told)

    @property
    def leads(self) -> bool:
        return self.relation is Relation.FIRST

    @property
    def level(self) -> bool:
        """Whether it is first or shown to be level with the first."""
        return self.relation in (Relation.FIRST, Relation.LEVEL)

    @property
    def later(self) -> bool:
        """Whether it is shown to be later than the first."""
        return self.relation is Relation.LATER

    @property
    def words(self) -> str:
        """The times in words, with the best accuracy if no run reached the target."""
        result = self.result
        return result.words if result.reached else f"never ({result.best_accuracy:.0%} at best)"


@dataclass(frozen=True)
class Standing:
    """The places in a cell: by median time, those that miss the target by their best accuracy.

    refused: why entrants could not run here, by label.
    """

    cell: CellResult
    places: Sequence[Place]
    refused: Mapping[str, str] = field(default_factory=dict)

    @property
    def resolution(self) -> float | None:
        """Time between evaluations over the first's median; None if none reaches the target."""
        return None if self.first is None else self.cell.resolution_s / self.first.result.median_s

    def of(self, label: str) -> Place:
        """Return the place of an entrant."""
        return next(place for place in self.places if place.label == label)

    @property
    def ranked(self) -> list[Place]:
        return [place for place in self.places if place.ranked]

    @property
    def first(self) -> Place | None:
        """The one with the lowest median; None if no ranked entrant reaches the target."""
        return next((place for place in self.ranked if place.leads), None)

    @property
    def first_told_least(self) -> Place | None:
        """The one with the lowest median among those told nothing but times; None if none reaches the target."""
        label = first({place.label: place.result.times_s for place in self.ranked if not place.told_more})
        return None if label is None else self.of(label)

    @property
    def by_told(self) -> list[tuple[str, list[Place]]]:
        """The places in groups: of strategies told nothing but times, and of those told more."""
        groups = {"told nothing, or mean times": False, "told more": True}
        found = {name: [place for place in self.places if place.told_more == more] for name, more in groups.items()}
        return [(name, places) for name, places in found.items() if places]

    @property
    def front(self) -> list[str]:
        """Strategies that no other beats in both time and bytes, by medians of those that reach the target."""
        known = [place for place in self.ranked if not math.isinf(place.result.median_s)]
        costs = {place.label: (place.result.median_s, place.result.median("mb")) for place in known}
        return [
            label
            for label, (time, mb) in costs.items()
            if not any(t <= time and b <= mb and (t, b) != (time, mb) for t, b in costs.values())
        ]

    @property
    def level_with_first(self) -> list[str]:
        """Strategies that are shown to be level with the first, which is left out."""
        return self._labels(Relation.LEVEL)

    @property
    def not_told_apart(self) -> list[str]:
        """Strategies that are neither shown to be level with the first nor to be later."""
        return self._labels(Relation.UNKNOWN)

    @property
    def next_later(self) -> Place | None:
        """The first strategy that is shown to be later than the first; None if none is."""
        return next((place for place in self.ranked if place.later), None)

    @property
    def next_to_reach(self) -> Place | None:
        """The next one shown to be later whose median run reaches the target; None if there is none."""
        return next(
            (place for place in self.ranked if place.later and not math.isinf(place.result.median_s)),
            None,
        )

    def _labels(self, relation: Relation) -> list[str]:
        return [place.label for place in self.places if place.relation is relation]

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
    refused = {label: result.refused for label, result in cell.tried.items() if result.refused}
    ran = {label: result for label, result in cell.tried.items() if label not in refused}
    ranked = {label: result.times_s for label, result in ran.items() if results.entrants[label].ranked}
    best, related = first(ranked), relations(ranked, cell.horizon_s, cell.resolution_s)
    places = []
    for label, result in ran.items():
        multiple, bound = (None, False) if best is None else factor(result.times_s, ranked[best], cell.horizon_s)
        mean = None if best in (None, label) else ratio(result.times_s, ranked[best], cell.horizon_s)
        best_of_all = _is_best(label, ranked, cell)
        told = results.entrants[label].told
        places.append(
            Place(label, result, multiple, bound, mean, related.get(label), label in ranked, best_of_all, told)
        )
    places.sort(
        key=lambda place: (
            place.result.median_s,
            -place.result.reached,
            place.label != best,
            -place.result.best_accuracy,
        )
    )
    return Standing(cell, places, refused)


def _is_best(label: str, ranked: Mapping[str, Times], cell: CellResult) -> bool:
    return label in ranked and all(
        is_no_later(ranked[label], times, cell.horizon_s, cell.resolution_s)
        for other, times in ranked.items()
        if other != label
    )


@dataclass(frozen=True)
class Record:
    """A strategy over all cells in which it ran: the number of cells, and in how many it is what.

    firsts: lowest median. best: shown to be no later than every other. factors: times relative to the first's, infinite
    if the strategy's median run misses the target.
    """

    label: str
    cells: int
    firsts: int
    best: int
    level: int
    unknown: int
    later: int
    mean_rank: float
    factors: Sequence[float]
    within_2: float
    within_5: float

    @property
    def worst(self) -> float:
        return max(self.factors)


def _evidence(standings: Sequence[Standing]) -> list[Standing]:
    """Return the standings that say who is first, each from runs of its own."""
    return [standing for standing in standings if standing.first is not None and not standing.cell.repeats]


def records(standings: Sequence[Standing]) -> list[Record]:
    """Return the records of all ranked entrants, by the share of cells in which they have the lowest median, then rank.

    Cells in which no ranked entrant reaches the target are left out, and those that repeat another one.
    """
    decided = _evidence(standings)
    labels = list(dict.fromkeys(place.label for standing in decided for place in standing.ranked))
    placed = [ranks({place.label: place.result.times_s for place in standing.ranked}) for standing in decided]
    result = []
    for label in labels:
        places = [place for standing in decided for place in standing.ranked if place.label == label]
        counts = Counter(place.relation for place in places)
        factors = [math.inf if place.bound or place.factor is None else place.factor for place in places]
        result.append(
            Record(
                label=label,
                cells=len(places),
                firsts=counts[Relation.FIRST],
                best=sum(place.best for place in places),
                level=counts[Relation.LEVEL],
                unknown=counts[Relation.UNKNOWN],
                later=counts[Relation.LATER],
                mean_rank=statistics.fmean(rank[label] for rank in placed if label in rank),
                factors=factors,
                within_2=share_within({label: factors}, 2.0)[label],
                within_5=share_within({label: factors}, 5.0)[label],
            )
        )
    return sorted(result, key=lambda record: (-record.firsts / record.cells, record.mean_rank))


def statement(standings: Sequence[Standing], missing: int = 0) -> tuple[Verdict | None, str]:
    """Judge whether one strategy is shown to be no later than every other in every cell; add who comes closest.

    missing: the number of cells that have not run; while there are any, nothing is judged. Reached if one is. Not
    reached if every strategy that ran in all cells is shown to be later than the first in some cell. Otherwise not
    shown; None if no strategy reaches a target.
    """
    decided = len(_evidence(standings))
    everywhere = [record for record in records(standings) if record.cells == decided]
    if not everywhere:
        return None, "no row is decided"
    best = max(everywhere, key=lambda record: (record.best, record.firsts, -record.mean_rank))
    words = (
        f"{best.label} is shown to be no later than every other in {best.best} of {best.cells} rows, and has the "
        f"lowest median in {best.firsts}; it is shown to be later than another in {best.later}"
    )
    if missing:
        return None, f"{words}; {missing} rows have not run yet"
    if best.best == best.cells:
        return Verdict.REACHED, words
    return (Verdict.NOT_REACHED if all(record.later for record in everywhere) else Verdict.NOT_SHOWN), words
