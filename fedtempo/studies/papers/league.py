"""The league, which no paper has: all strategies on the same fleets and data, by the time to a target."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from fedtempo.studies.papers.contest import run_contest
from fedtempo.studies.papers.contest_figures import draw_row
from fedtempo.studies.papers.contest_results import CellResult, ContestResults
from fedtempo.studies.papers.endings import endings
from fedtempo.studies.papers.grid_ends import grid_ends
from fedtempo.studies.papers.pages import render
from fedtempo.studies.papers.race import KEPT
from fedtempo.studies.papers.ranking import MARGIN, Ratio, median_coverage, ratio
from fedtempo.studies.papers.reproduction import Exhibit, Request, save_picture
from fedtempo.studies.papers.standings import Place, Standing, records, standings_of, statement
from fedtempo.studies.papers.verdicts import Row, Verdict


def league(request: Request) -> list[Row]:
    """Run the league, and draw one picture per row."""
    results = run_contest(request, "league")
    standings = standings_of(results)
    for standing in standings:
        save_picture(draw_row, request.folder, f"league-{standing.cell.name}", standing)
    return _rows(standings, len(results.missing))


def _rows(standings: Sequence[Standing], missing: int) -> list[Row]:
    """Return the result of every strategy in every cell, and whether one strategy suits all cells."""
    rows = []
    for standing in standings:
        for place in standing.places:
            ratio = "" if place.factor is None else f"{'> ' if place.bound else ''}{place.factor:.2f}"
            what = f"{standing.cell.title}: time to {standing.cell.goal:.0%}, {place.label}"
            rows.append(Row(what, "-", place.words, f"lr {place.result.lr:g}", ratio))
    verdict, words = statement(standings, missing)
    question = Row(f"one strategy is no later than every other (margin {MARGIN:g}) in every row", "-", words)
    return [*rows, replace(question, verdict=verdict).as_headline()]


@dataclass(frozen=True)
class FleetStandings:
    """The standings on one fleet, one per data set. name: as in the settings and in names of pictures."""

    name: str
    standings: Sequence[Standing]

    @property
    def title(self) -> str:
        return self.standings[0].cell.title.rpartition(", ")[0]

    @property
    def decided(self) -> list[Standing]:
        """Standings in which some strategy reaches the target."""
        return [standing for standing in self.standings if standing.first is not None]

    @property
    def always_level(self) -> list[str]:
        """Strategies that have the lowest median, or are level with the first, on every data set."""
        level = [{place.label for place in standing.ranked if place.level} for standing in self.standings]
        return [place.label for place in self.standings[0].ranked if all(place.label in labels for labels in level)]

    @property
    def cheapest(self) -> list[str]:
        """The strategies that reach the target with the fewest bytes, each once."""
        return list(
            dict.fromkeys(standing.cheapest.label for standing in self.standings if standing.cheapest is not None)
        )

    @property
    def sooner_with_examples(self) -> list[tuple[str, Place]]:
        """Titles of cells in which a strategy that takes raw examples is sooner than the first, with its place."""
        return [
            (standing.cell.title, place)
            for standing in self.standings
            for place in standing.places
            if not place.ranked and place.factor is not None and place.factor < 1 and not place.bound
        ]


@dataclass(frozen=True)
class Robustness:
    """What wrong estimates cost: times with them over times with exact ones, on the same seeds. title: of the fleet."""

    title: str
    ratios: Sequence[tuple[str, Place, Ratio]]


def _robustness(results: ContestResults, standings: Sequence[Standing]) -> list[Robustness]:
    """Return what wrong estimates cost each strategy that reaches both targets on some seed."""
    found = []
    for standing in standings:
        exact = results.cell(standing.cell.exact)
        if exact is None:
            continue
        ratios = [
            (place.label, place, ratio(place.result.times_s, exact.tried[place.label].times_s, exact.horizon_s))
            for place in standing.places
            if place.label in exact.tried and place.result.reached and exact.tried[place.label].reached
        ]
        found.append(Robustness(exact.title, sorted(ratios, key=lambda each: each[2].mean)))
    return found


_ANSWERS = {
    Verdict.REACHED: "Yes",
    Verdict.NOT_SHOWN: "Not shown",
    Verdict.NOT_REACHED: "No: every one is shown to be later than another in some row",
    None: "Open",
}


def _work(cell: CellResult) -> str:
    """Return the data and the network of a cell in words."""
    return f"{cell.data} ({cell.network})"


def league_page(results: ContestResults, command: str) -> str:
    """Return the page as Markdown. command: what wrote the results."""
    standings = standings_of(results)
    budgets = {_work(cell): cell.budget for cell in results.races}
    n_seeds = min(len(set(budget.seeds)) for budget in budgets.values())
    verdict, words = statement(standings, len(results.missing))
    coarsest = max(standings, key=lambda standing: standing.resolution or 0.0)
    return render(
        "league",
        short_of_visits=[*filter(None, map(_short_of_visits, standings))],
        coarsest=coarsest,
        cpu_hours=sum(cell.cpu_s for cell in results.cells) / 3600,
        command=command,
        budgets=budgets,
        sources=list(dict.fromkeys(cell.data for cell in results.races)),
        margin=MARGIN,
        n_seeds=n_seeds,
        covered=median_coverage(n_seeds),
        needs_examples=[label for label, notes in results.entrants.items() if not notes.ranked],
        standings=standings,
        verdict=verdict,
        answers=_ANSWERS,
        kept=KEPT,
        ends=list(endings(results.ends)),
        statement=words,
        records=records(standings),
        fleets=_fleets(standings),
        robustness=_robustness(results, standings),
        missing=results.missing,
        grid_ends=grid_ends([standing.cell for standing in standings]),
        infinity=math.inf,
    )


def _short_of_visits(standing: Standing) -> str:
    """Name the strategies of a cell whose visits did not suffice for all settings; empty if there are none."""
    tried = {place.label: len(place.result.trials) for place in standing.places}
    short = [label for label, count in tried.items() if count < max(tried.values())]
    return f"{', '.join(short)} ({standing.cell.title})" if short else ""


def _fleets(standings: Sequence[Standing]) -> list[FleetStandings]:
    names = dict.fromkeys(standing.cell.group for standing in standings)
    return [FleetStandings(name, [standing for standing in standings if standing.cell.group == name]) for name in names]


EXHIBITS = (
    Exhibit(
        "all/league",
        "all systems on the same fleets and data",
        league,
        (1, 270, 6000),
        ("digits", "fashion-mnist", "shakespeare"),
        page=league_page,
    ),
)
