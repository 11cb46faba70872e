"""The comparison that no paper has: all systems on the same fleets and data, by the time to a target."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fedtempo.record import write_json
from fedtempo.studies.papers.cache import Cache, cache_file
from fedtempo.studies.papers.league_entrants import REFERENCE_FLEET, SETTINGS, budget, most_visits, rows
from fedtempo.studies.papers.league_figures import draw_times
from fedtempo.studies.papers.race import Race, Target, as_comparison, reference, run_race
from fedtempo.studies.papers.reproduction import Asked, Budget, Exhibit, Row, claim
from fedtempo.studies.papers.standings import judged, statement
from fedtempo.studies.tuning.trials import in_processes


def league(asked: Asked) -> list[Row]:
    """Run what is not there from an earlier try; leave `league.json`, a picture a fleet and each row's configuration.

    The targets are set before anything else is looked at: they come from FedAvg alone (see `race.reference`).
    """
    path, found = cache_file(SETTINGS), rows(asked)
    budgets = {row.data: budget(asked, row.data) for row in found}
    cache = Cache(path)
    targets = {row.data: reference(row, budgets[row.data], cache) for row in found if row.fleet == REFERENCE_FLEET}
    asked.earlier_s.append(cache.earlier_s)
    races = [
        Race(row, label, budgets[row.data], targets[row.data], most_visits(asked), path)
        for row in found
        for label in row.points
    ]
    made = in_processes(run_race, races)
    asked.earlier_s.extend(earlier_s for _, earlier_s in made)
    table: list[dict[str, Any]] = [
        {
            "fleet": row.fleet,
            "data": row.data,
            "title": row.title,
            "horizon_s": row.base.run.horizon,
            "entrants": {race.label: facts for race, (facts, _) in zip(races, made) if race.row is row},
        }
        for row in found
    ]
    facts = _facts(asked, budgets, targets, table)
    write_json(asked.folder / "league.json", facts)
    for row, entry in zip(found, table, strict=True):
        aim = {"run.target_accuracy": targets[row.data].full}
        asked.leave(row.base.with_changes({**as_comparison(entry["entrants"]), **aim}), f"{row.fleet}-{row.data}")
    for fleet in dict.fromkeys(row.fleet for row in found):
        for suffix in ("png", "svg"):
            draw_times(facts, fleet, asked.folder / f"league-{fleet}.{suffix}")
    return _rows(facts)


def _facts(
    asked: Asked, budgets: Mapping[str, Budget], targets: Mapping[str, Target], table: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    return {
        "scale": asked.scale,
        "budgets": {
            data: {"seeds": own.seeds, "tuning_seeds": own.tuning_seeds, "lr": own.lr} for data, own in budgets.items()
        },
        "most_visits": most_visits(asked),
        "targets": {
            data: {"reference": target.reference, "early": target.early, "target": target.full}
            for data, target in targets.items()
        },
        "rows": table,
    }


def _rows(facts: Mapping[str, Any]) -> list[Row]:
    """Every competitor on every row, and what the league says of one strategy for all."""
    said = []
    for row in judged(facts):
        for place in row.places:
            ratio = "" if place.factor is None else f"{'> ' if place.bound else ''}{place.factor:.2f}"
            what = f"{row.title}: time to {row.target:.0%}, {place.label}"
            said.append(Row(what, "-", place.words, f"lr {place.lr:g}", ratio))
    holds, words = statement(facts)
    return [*said, claim("a strategy that is first or level with the first in every row", "open", words, holds)]


EXHIBITS = (
    Exhibit(
        "all/league", "all systems on the same fleets and data", league, (2, 20, 1500), ("digits", "fashion-mnist")
    ),
)
