"""The league, which no paper has: all strategies on the same fleets and data, by the time to a target."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fedtempo.record import write_json
from fedtempo.studies.papers.cache import Cache, cache_file
from fedtempo.studies.papers.league_entrants import REFERENCE_FLEET, SETTINGS, budget, most_visits, rows
from fedtempo.studies.papers.league_figures import draw_times
from fedtempo.studies.papers.race import Race, Target, as_comparison, reference, run_race
from fedtempo.studies.papers.reproduction import Budget, Exhibit, Request, Row, claim
from fedtempo.studies.papers.standings import read_standings, statement
from fedtempo.studies.tuning.trials import in_processes


def league(request: Request) -> list[Row]:
    """Run the league; write `league.json`, one picture per fleet and each row's configuration.

    Outcomes of an interrupted earlier attempt are reused. Targets are set first, from FedAvg alone (see
    `race.reference`).
    """
    path, league_rows = cache_file(SETTINGS), rows(request)
    budgets = {row.data: budget(request, row.data) for row in league_rows}
    cache = Cache(path)
    targets = {
        row.data: reference(row, budgets[row.data], cache) for row in league_rows if row.fleet == REFERENCE_FLEET
    }
    request.earlier_s.append(cache.earlier_s)
    races = [
        Race(row, label, budgets[row.data], targets[row.data], most_visits(request), path)
        for row in league_rows
        for label in row.points
    ]
    results = in_processes(run_race, races)
    request.earlier_s.extend(earlier_s for _, earlier_s in results)
    table: list[dict[str, Any]] = [
        {
            "fleet": row.fleet,
            "data": row.data,
            "title": row.title,
            "horizon_s": row.base.run.horizon,
            "entrants": {race.label: facts for race, (facts, _) in zip(races, results) if race.row is row},
        }
        for row in league_rows
    ]
    facts = _facts(request, budgets, targets, table)
    write_json(request.folder / "league.json", facts)
    for row, entry in zip(league_rows, table, strict=True):
        aim = {"run.target_accuracy": targets[row.data].full}
        request.save_config(
            row.base.with_changes({**as_comparison(entry["entrants"]), **aim}), f"{row.fleet}-{row.data}"
        )
    for fleet in dict.fromkeys(row.fleet for row in league_rows):
        for suffix in ("png", "svg"):
            draw_times(facts, fleet, request.folder / f"league-{fleet}.{suffix}")
    return _rows(facts)


def _facts(
    request: Request, budgets: Mapping[str, Budget], targets: Mapping[str, Target], table: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    return {
        "scale": request.scale,
        "budgets": {
            data: {"seeds": cost.seeds, "tuning_seeds": cost.tuning_seeds, "lr": cost.lr}
            for data, cost in budgets.items()
        },
        "most_visits": most_visits(request),
        "targets": {
            data: {"reference": target.reference, "early": target.early, "target": target.full}
            for data, target in targets.items()
        },
        "rows": table,
    }


def _rows(facts: Mapping[str, Any]) -> list[Row]:
    """Return the result of every competitor in every row, and whether one strategy suits all rows."""
    results = []
    for row in read_standings(facts):
        for place in row.places:
            ratio = "" if place.factor is None else f"{'> ' if place.bound else ''}{place.factor:.2f}"
            what = f"{row.title}: time to {row.target:.0%}, {place.label}"
            results.append(Row(what, "-", place.words, f"lr {place.lr:g}", ratio))
    holds, words = statement(facts)
    return [*results, claim("a strategy that is first or level with the first in every row", "open", words, holds)]


EXHIBITS = (
    Exhibit(
        "all/league", "all systems on the same fleets and data", league, (2, 20, 1500), ("digits", "fashion-mnist")
    ),
)
