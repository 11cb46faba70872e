"""The league's page, computed from `league.json`: who is first on which fleet, and which strategy to choose."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fedtempo.studies.papers.league_entrants import NEEDS_EXAMPLES
from fedtempo.studies.papers.pages import render
from fedtempo.studies.papers.ranking import median_coverage
from fedtempo.studies.papers.standings import Place, Standing, read_standings, records, statement

Facts = Mapping[str, Any]


@dataclass(frozen=True)
class FleetStandings:
    """The standings on one fleet, one per data set. name: as in the settings and in names of pictures."""

    name: str
    standings: Sequence[Standing]

    @property
    def title(self) -> str:
        return self.standings[0].title.rpartition(", ")[0]

    @property
    def decided(self) -> list[Standing]:
        """Standings in which some strategy reaches the target."""
        return [standing for standing in self.standings if standing.first is not None]

    @property
    def always_level(self) -> list[str]:
        """Strategies that are first, or level with the first, on every data set."""
        level = [{place.label for place in standing.competing if place.level} for standing in self.standings]
        first_row = self.standings[0].competing
        return [place.label for place in first_row if all(place.label in labels for labels in level)]

    @property
    def cheapest(self) -> list[str]:
        """The strategies that reach the target with the fewest bytes, each once."""
        return list(
            dict.fromkeys(standing.cheapest.label for standing in self.standings if standing.cheapest is not None)
        )

    @property
    def sooner_with_examples(self) -> list[tuple[str, Place]]:
        """Data sets on which a strategy that takes raw examples is sooner than the first, with its place."""
        return [
            (standing.data, place)
            for standing in self.standings
            for place in standing.places
            if not place.competes and place.factor is not None and place.factor < 1 and not place.bound
        ]


@dataclass(frozen=True)
class GridEnds:
    """Choices at the lowest or highest learning rate of a data set's grid, among those that reach the target.

    count: how many, out of `of`. labels: the strategies that made them.
    """

    data: str
    count: int
    of: int
    labels: Sequence[str]


def league_page(facts: Facts, command: str) -> str:
    """Return the page as Markdown.

    facts: the contents of `league.json`. command: what wrote that file.
    """
    standings = read_standings(facts)
    n_seeds = min(len(set(budget["seeds"])) for budget in facts["budgets"].values())
    holds, words = statement(facts)
    return render(
        "league",
        command=command,
        budgets=[{"data": data, **budget} for data, budget in facts["budgets"].items()],
        targets=facts["targets"],
        most_visits=facts["most_visits"],
        n_seeds=n_seeds,
        covered=median_coverage(n_seeds),
        needs_examples=NEEDS_EXAMPLES,
        standings=standings,
        holds=holds,
        statement=words,
        records=records(standings),
        fleets=_fleets(standings),
        grid_ends=_grid_ends(facts, standings),
        infinity=math.inf,
    )


def _fleets(standings: Sequence[Standing]) -> list[FleetStandings]:
    names = dict.fromkeys(standing.fleet for standing in standings)
    return [FleetStandings(name, [standing for standing in standings if standing.fleet == name]) for name in names]


def _grid_ends(facts: Facts, standings: Sequence[Standing]) -> list[GridEnds]:
    """Find choices that a wider grid of learning rates might have improved."""
    grid_ends = []
    for data, budget in facts["budgets"].items():
        ends = min(budget["lr"]), max(budget["lr"])
        places = [
            place for standing in standings if standing.data == data for place in standing.places if place.reached
        ]
        at_end = [place.label for place in places if place.lr in ends]
        if len(budget["lr"]) > 2 and at_end:
            grid_ends.append(GridEnds(data, len(at_end), len(places), list(dict.fromkeys(at_end))))
    return grid_ends
