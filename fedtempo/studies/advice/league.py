"""What the league's nearest rows say of the strategies that advice compares. It never changes their order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from fedtempo.report import words
from fedtempo.report.columns import Column
from fedtempo.runs.config import Config
from fedtempo.studies.advice.prior import Features, Nearness, Prior, entrant_of, nearest
from fedtempo.studies.papers.ranking import Relation, factor, first, relations


@dataclass(frozen=True)
class Said:
    """What a row says of a strategy. entrant: its label there. told: more than the mean times of clients.

    ratio: its time relative to that of the first of the strategies compared, None if none of them reaches the target
    there. bound: whether that is a lower bound. relation: to the first; None if it is not ranked.
    """

    entrant: str
    told: Sequence[str]
    ratio: float | None
    bound: bool
    relation: Relation | None

    @property
    def words(self) -> str:
        if self.ratio is None:
            return "target missed"
        if self.relation is Relation.FIRST:
            return "first"
        ratio = f"{'> ' if self.bound else ''}{self.ratio:.1f}×"
        return ratio if self.relation is None else f"{ratio} {self.relation}"


@dataclass(frozen=True)
class RowSays:
    """A row, how near it is, and what it says of strategies by label; those that are not in the row are left out."""

    nearness: Nearness
    said: Mapping[str, Said]

    @property
    def title(self) -> str:
        return self.nearness.row.title

    @property
    def first(self) -> str | None:
        """The strategy with the lowest median of those compared; None if none reaches the target."""
        return next((label for label, said in self.said.items() if said.relation is Relation.FIRST), None)


@dataclass(frozen=True)
class LeagueSays:
    """What the league says beside advice. features: of the fleet. rows: nearest first, with a strategy each."""

    features: Features
    rows: Sequence[RowSays]

    @property
    def is_near(self) -> bool:
        return bool(self.rows) and self.rows[0].nearness.is_near

    def sentences(self, best: str) -> list[str]:
        """Return the evidence in sentences, beside the strategy that short trainings recommend."""
        decided = [row for row in self.rows if row.first is not None]
        if not decided:
            return []
        if self.is_near:
            near = (
                f"rows near this fleet ({len(decided)})"
                if len(decided) > 1
                else f"row near this fleet, {decided[0].title}"
            )
            where = f"In the league's {near}"
        else:
            where = (
                f"No row of the league is near this fleet. In the nearest, {decided[0].title}, which differs in "
                f"{words.listed(self.rows[0].nearness.differs)}"
            )
        counts = Counter(str(row.first) for row in decided)
        if len(decided) == 1:
            firsts = f"{decided[0].first} has the lowest median time of these strategies"
        else:
            of_all = [f"{label} ({count} of {len(decided)})" for label, count in counts.items()]
            firsts = f"the lowest median time of these strategies is that of {words.listed(of_all)}"
        return [f"{where}, {firsts}{self._of(best, decided)}. The ranking does not count this."]

    def _of(self, best: str, decided: Sequence[RowSays]) -> str:
        """Return what rows say of the recommended strategy, if another one is first: of the worst for it."""
        there = [row for row in decided if best in row.said]
        if not there:
            return f"; {best} did not run there"
        row = max(there, key=lambda row: (row.said[best].relation is Relation.LATER, row.said[best].ratio or 0.0))
        said = row.said[best]
        if said.relation is Relation.FIRST or said.ratio is None:
            return ""
        where = "" if len(decided) == 1 else f" in {row.title}"
        at_least = "at least " if said.bound else ""
        shown = {
            Relation.LATER: "shown to be later",
            Relation.LEVEL: "level with it",
            Relation.UNKNOWN: "not told apart",
        }
        how = f" ({shown[said.relation]})" if said.relation in shown else ""
        ratio = f"{best} takes {at_least}{said.ratio:.1f} times as long{how}{where}"
        return f", and {ratio}: compare it with {row.first} to the full horizon, on several seeds"

    def columns(self, labels: Sequence[str]) -> list[Column]:
        """Return a column for each row: the time relative to the first of the strategies, and what the seeds show."""
        columns = [Column("strategy", tuple(labels))]
        for row in self.rows:
            cells = tuple(row.said[label].words if label in row.said else "" for label in labels)
            columns.append(Column(row.nearness.row.name, cells))
        told = tuple(", ".join(self._told(label)) for label in labels)
        return [*columns, Column("told", told)] if any(told) else columns

    def _told(self, label: str) -> Sequence[str]:
        return next((row.said[label].told for row in self.rows if label in row.said), ())

    def facts(self) -> dict[str, Any]:
        """Return everything as JSON values."""
        return {
            "decides": False,
            "features": asdict(self.features),
            "rows": [
                {
                    "name": row.nearness.row.name,
                    "title": row.title,
                    "near": row.nearness.is_near,
                    "differs": list(row.nearness.differs),
                    "features": asdict(row.nearness.row.features),
                    "target": row.nearness.row.target,
                    "seeds": len(next(iter(row.nearness.row.entrants.values())).times_s),
                    "strategies": {label: asdict(said) for label, said in row.said.items()},
                }
                for row in self.rows
            ],
        }


def league_says(features: Features, prior: Prior, configs: Mapping[str, Config]) -> LeagueSays:
    """Return what the nearest rows say of strategies, by label; rows in which none of them ran are left out."""
    rows = [RowSays(nearness, _said(nearness, configs)) for nearness in nearest(features, prior)]
    return LeagueSays(features, [row for row in rows if row.said])


def _said(nearness: Nearness, configs: Mapping[str, Config]) -> dict[str, Said]:
    row = nearness.row
    entrants = {label: entrant_of(config, row) for label, config in configs.items()}
    ran = {label: row.entrants[entrant] for label, entrant in entrants.items() if entrant is not None}
    times = {label: entrant.times_s for label, entrant in ran.items() if entrant.ranked}
    best, related = first(times), relations(times, row.horizon_s, row.resolution_s)
    said = {}
    for label, entrant in ran.items():
        ratio, bound = (None, False) if best is None else factor(entrant.times_s, times[best], row.horizon_s)
        told = [what for what in entrant.told if what != "times"]
        said[label] = Said(entrants[label] or "", told, ratio, bound, related.get(label))
    return said
