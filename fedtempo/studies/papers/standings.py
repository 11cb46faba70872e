"""The league's standings: places in each row, and which strategies do well in all rows."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fedtempo.studies.papers.league_entrants import NEEDS_EXAMPLES
from fedtempo.studies.papers.ranking import factor, first, level_with_first, median, ranks, share_within

Facts = Mapping[str, Any]


@dataclass(frozen=True)
class Place:
    """A competitor in a row; numbers are medians over seeds.

    times_s, early_s: seconds to the target and to the early target, one per seed. factor: time relative to the first's,
    None if no competitor reaches the target. bound: whether the factor is a lower bound. leads: whether it is first.
    level: whether it is not shown to be later than the first. competes: False for a strategy that takes raw examples.
    at_work: mean number of busy clients. mb, visits, rate: megabytes, visits and visits per second until the run ended.
    """

    label: str
    times_s: Sequence[float | None]
    early_s: Sequence[float | None]
    factor: float | None
    bound: bool
    leads: bool
    level: bool
    competes: bool
    chosen: Mapping[str, Any]
    busy: float
    at_work: float
    staleness: float | None
    took_part: float
    gini: float
    mb: float
    visits: float
    rate: float
    best_accuracy: float

    @property
    def median_s(self) -> float:
        return median(self.times_s)

    @property
    def reached(self) -> int:
        return sum(time is not None for time in self.times_s)

    @property
    def lr(self) -> float:
        return float(self.chosen["training.lr"])

    @property
    def words(self) -> str:
        """ "45 s (40 to 52)", with the number of runs that reached the target if not all did."""
        known = [time for time in self.times_s if time is not None]
        if not known:
            return f"never ({self.best_accuracy:.0%} at best)"
        span = f"{seconds(min(known))} to {seconds(max(known))}"
        if self.reached == len(self.times_s):
            return f"{seconds(self.median_s)} s ({span})"
        middle = "never" if math.isinf(self.median_s) else f"{seconds(self.median_s)} s"
        return f"{middle} ({self.reached} of {len(self.times_s)}: {span})"


@dataclass(frozen=True)
class Standing:
    """A row of the league. places: by median time, those that miss the target by their best accuracy."""

    title: str
    fleet: str
    data: str
    horizon_s: float
    target: float
    early: float
    places: Sequence[Place]

    def of(self, label: str) -> Place:
        """Return the place of a competitor."""
        return next(place for place in self.places if place.label == label)

    @property
    def competing(self) -> list[Place]:
        return [place for place in self.places if place.competes]

    @property
    def first(self) -> Place | None:
        """None if no competitor reaches the target."""
        return next((place for place in self.competing if place.leads), None)

    @property
    def level_with_first(self) -> list[str]:
        """Strategies that are not shown to be later than the first, which is left out."""
        return [place.label for place in self.competing if place.level and not place.leads]

    @property
    def next_later(self) -> Place | None:
        """The first strategy that is shown to be later than the first, or that misses the target; None if none is."""
        return next((place for place in self.competing if not place.level), None)

    @property
    def next_to_reach(self) -> Place | None:
        """The next one shown to be later, if it reaches the target on some seed and its median time is finite."""
        later = next((place for place in self.competing if not place.level and place.reached), None)
        return None if later is None or math.isinf(later.median_s) else later

    @property
    def never(self) -> list[str]:
        """Strategies that reach the target on no seed."""
        return [place.label for place in self.places if not place.reached]

    @property
    def first_early(self) -> str | None:
        """Label of the first to reach the early target, if any does."""
        return first({place.label: place.early_s for place in self.competing})

    @property
    def cheapest(self) -> Place | None:
        """The competitor that reaches the target on every seed with the fewest bytes, if any does."""
        always = [place for place in self.competing if place.reached == len(place.times_s)]
        return min(always, key=lambda place: place.mb, default=None)


def seconds(value: float) -> str:
    """Return a time with three digits."""
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def read_standings(facts: Facts) -> list[Standing]:
    """Return the standings of every row of `league.json`."""
    return [_standing(facts, row) for row in facts["rows"]]


def _standing(facts: Facts, row: Facts) -> Standing:
    entrants, horizon_s, targets = row["entrants"], row["horizon_s"], facts["targets"][row["data"]]
    times = {label: entrant["runs"]["target_s"] for label, entrant in entrants.items()}
    competing = {label: times_s for label, times_s in times.items() if label not in NEEDS_EXAMPLES}
    best, level = first(competing), level_with_first(competing, horizon_s)
    places = []
    for label, entrant in entrants.items():
        runs, ratio, bound = entrant["runs"], None, False
        if best is not None:
            ratio, bound = factor(times[label], times[best], horizon_s)
        stale = [value for value in runs["staleness"] if value is not None]
        places.append(
            Place(
                label=label,
                times_s=times[label],
                early_s=runs["early_s"],
                factor=ratio,
                bound=bound,
                leads=label == best,
                level=label in level,
                competes=label in competing,
                chosen=entrant["chosen"],
                busy=statistics.median(runs["busy"]),
                at_work=_rate(runs["client_s"], runs["end_s"]),
                staleness=statistics.median(stale) if stale else None,
                took_part=statistics.median(runs["took_part"]),
                gini=statistics.median(runs["gini"]),
                mb=statistics.median(runs["mb"]),
                visits=statistics.median(runs["visits"]),
                rate=_rate(runs["visits"], runs["end_s"]),
                best_accuracy=max(runs["best_accuracy"]),
            )
        )
    places.sort(key=lambda place: (place.median_s, -place.reached, place.label != best, -place.best_accuracy))
    return Standing(row["title"], row["fleet"], row["data"], horizon_s, targets["target"], targets["early"], places)


def _rate(amounts: Sequence[float], end_s: Sequence[float]) -> float:
    """Return an amount per second, the median over runs that lasted any time."""
    return statistics.median([amount / end for amount, end in zip(amounts, end_s, strict=True) if end] or [0.0])


@dataclass(frozen=True)
class Record:
    """A competitor over all rows in which it ran. factors: infinite if its median run misses the target."""

    label: str
    rows: int
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
    """Return the records of all competitors, best first: by share of rows first or level, then by mean rank.

    Rows in which no competitor reaches the target are left out.
    """
    decided = [standing for standing in standings if standing.first is not None]
    labels = list(dict.fromkeys(place.label for standing in decided for place in standing.competing))
    placed = [ranks({place.label: place.times_s for place in standing.competing}) for standing in decided]
    result = []
    for label in labels:
        places = [standing.of(label) for standing in decided if any(p.label == label for p in standing.competing)]
        factors = [math.inf if place.bound or place.factor is None else place.factor for place in places]
        result.append(
            Record(
                label=label,
                rows=len(places),
                firsts=sum(s.first is not None and s.first.label == label for s in decided),
                level=sum(place.level for place in places),
                mean_rank=statistics.fmean(rank[label] for rank in placed if label in rank),
                factors=factors,
                within_2=share_within({label: factors}, 2.0)[label],
                within_5=share_within({label: factors}, 5.0)[label],
            )
        )
    return sorted(result, key=lambda record: (-record.level / record.rows, record.mean_rank))


def statement(facts: Facts) -> tuple[bool, str]:
    """Return whether one strategy is first or level with the first in every row, and which comes closest, as text."""
    standings = read_standings(facts)
    everywhere = [record for record in records(standings) if record.rows == len(standings)]
    if not everywhere:
        return False, "no row is decided"
    best = everywhere[0]
    holds = best.level == best.rows
    missing = [
        f"{standing.title} ({standing.first.label} is first)"
        for standing in standings
        if standing.first is not None and not standing.of(best.label).level
    ]
    words = f"{best.label}: first or level in {best.level} of {best.rows} rows"
    return holds, words if holds else f"{words}; not in {'; '.join(missing)}"
