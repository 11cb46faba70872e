"""Beyond the papers: FedHusky's schedule and mixing changed one thing at a time, on many fleets, data and networks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from fedtempo.record import write_json
from fedtempo.studies.papers.beyond_figures import draw_ratios
from fedtempo.studies.papers.cache import Cache, cache_file
from fedtempo.studies.papers.league_entrants import Row as Cell
from fedtempo.studies.papers.league_entrants import flattened
from fedtempo.studies.papers.race import Race, Target, as_comparison, reference, run_race, run_to_the_end
from fedtempo.studies.papers.ranking import ratio
from fedtempo.studies.papers.reproduction import Asked, Budget, Exhibit, Row
from fedtempo.studies.papers.standings import seconds
from fedtempo.studies.tuning.trials import Changes, in_processes

SETTINGS = "beyond"
FIRST = "the first variant of the cell"
NO_TARGET = Target(0.0, 0.0, 0.0)

S = TypeVar("S")
T = TypeVar("T")


@dataclass(frozen=True)
class Variant:
    """What is tried. title: in words. kept: as what it stays in fedtempo. points: settings to tune over. cells: where
    it is tried, everywhere where None.
    """

    label: str
    title: str
    kept: str
    points: Sequence[Changes]
    cells: Sequence[str] | None


def variants(asked: Asked) -> list[Variant]:
    """In the order of the settings; the first is what all others are compared with."""
    tables = asked.table(SETTINGS, "variants")
    return [
        Variant(
            label,
            table["title"],
            table["kept"],
            [flattened(point) for point in table["points"]],
            table.get("cells"),
        )
        for label, table in tables.items()
    ]


@dataclass(frozen=True)
class World:
    """Where variants are tried. target_of: the world whose target it takes."""

    cell: Cell
    budget: Budget
    target_of: str


def worlds(asked: Asked, table: str) -> list[World]:
    """Of the table `cells`, of times to a target, or `ends`, of accuracies at the horizon."""
    base, found = asked.settings(SETTINGS), []
    everywhere = list(asked.table(SETTINGS, table))
    scale = asked.table(SETTINGS, "beyond")[asked.scale]
    for name, own in asked.table(SETTINGS, table).items():
        if name in scale.get("without", []):
            continue
        config = base.with_changes(flattened(own.get("changes", {})) | flattened(scale.get("changes", {})))
        points = {
            variant.label: variant.points
            for variant in variants(asked)
            if (
                variant.label in own["variants"]
                if "variants" in own
                else name in (everywhere if variant.cells is None else variant.cells)
            )
        }
        cell = Cell(name, config.data.source, own["title"], config, points)
        found.append(World(cell, asked.budget(SETTINGS, own["study"]), own.get("target_of", name)))
    return found


def beyond(asked: Asked) -> list[Row]:
    """Run what is not there from an earlier try; leave `beyond.json`, a picture and each cell's configuration."""
    path, found = cache_file(SETTINGS), worlds(asked, "cells")
    most_visits: int = asked.table(SETTINGS, "beyond")[asked.scale]["most_visits"]
    own = [(world, path) for world in found if world.target_of == world.cell.fleet]
    targets = dict(zip((world.cell.fleet for world, _ in own), _all(asked, _reference, own), strict=True))
    races = [
        Race(world.cell, label, world.budget, targets[world.target_of], most_visits, path)
        for world in found
        for label in world.cell.points
    ]
    raced = _all(asked, run_race, races)
    ends = worlds(asked, "ends")
    to_the_end = [
        Race(world.cell, label, world.budget, NO_TARGET, most_visits, path)
        for world in ends
        for label in world.cell.points
    ]
    ended = _all(asked, run_to_the_end, to_the_end)
    facts: dict[str, Any] = {
        "scale": asked.scale,
        "most_visits": most_visits,
        "variants": {each.label: {"title": each.title, "kept": each.kept} for each in variants(asked)},
        "cells": [
            _told(world, targets[world.target_of])
            | {"tried": {race.label: own for race, own in zip(races, raced, strict=True) if race.row is world.cell}}
            for world in found
        ],
        "ends": [
            _told(world, NO_TARGET)
            | {
                "tried": {
                    race.label: own for race, own in zip(to_the_end, ended, strict=True) if race.row is world.cell
                }
            }
            for world in ends
        ],
    }
    write_json(asked.folder / "beyond.json", facts)
    for world, entry in zip(found, facts["cells"], strict=True):
        chosen = as_comparison(entry["tried"])
        asked.leave(world.cell.base.with_changes({**chosen, "run.target_accuracy": entry["target"]}), world.cell.fleet)
    for suffix in ("png", "svg"):
        draw_ratios(facts, asked.folder / f"beyond.{suffix}")
    return _rows(facts)


def _all(asked: Asked, function: Callable[[S], tuple[T, float]], jobs: Sequence[S]) -> list[T]:
    """What the jobs come to; the time that parts of them took earlier is noted."""
    made = in_processes(function, jobs)
    asked.earlier_s.extend(earlier_s for _, earlier_s in made)
    return [each for each, _ in made]


def _reference(job: tuple[World, Path | None]) -> tuple[Target, float]:
    world, path = job
    cache = Cache(path)
    return reference(world.cell, world.budget, cache), cache.earlier_s


def _told(world: World, target: Target) -> dict[str, Any]:
    cell, budget = world.cell, world.budget
    return {
        "name": cell.fleet,
        "title": cell.title,
        "data": cell.data,
        "network": cell.base.tables["model"]["network"],
        "clients": cell.base.data.clients,
        "horizon_s": cell.base.run.horizon,
        "reference": target.reference,
        "target": target.full,
        "budget": {"seeds": budget.seeds, "tuning_seeds": budget.tuning_seeds, "lr": budget.lr},
    }


def _rows(facts: Mapping[str, Any]) -> list[Row]:
    """Every variant's time against the first variant's, and in how many cells each is shown to be sooner or later."""
    rows, sooner, later = [], dict.fromkeys(facts["variants"], 0), dict.fromkeys(facts["variants"], 0)
    for cell in facts["cells"]:
        first = next(iter(cell["tried"]))
        base = cell["tried"][first]["runs"]["target_s"]
        for label, tried in cell["tried"].items():
            times = tried["runs"]["target_s"]
            found = ratio(times, base, cell["horizon_s"])
            what = f"{cell['title']}: time to {cell['target']:.0%}, {label}"
            rows.append(Row(what, "-", _words(times), "", "" if label == first else found.words))
            sooner[label] += found.high < 1
            later[label] += found.low > 1
    for label in list(facts["variants"])[1:]:
        tried_in = sum(label in list(cell["tried"])[1:] for cell in facts["cells"])
        if tried_in:
            words = f"sooner in {sooner[label]} and later in {later[label]} of {tried_in} cells"
            rows.append(Row(f"{label} against {FIRST}", "-", words))
    return rows


def _words(times: Sequence[float | None]) -> str:
    known = [time for time in times if time is not None]
    span = f"{seconds(min(known))} to {seconds(max(known))} s" if known else "never"
    return span if len(known) == len(times) else f"{span} ({len(known)} of {len(times)})"


EXHIBITS = (
    Exhibit(
        "all/beyond",
        "FedHusky taken further, one change at a time",
        beyond,
        (3, 60, 3000),
        ("digits", "fashion-mnist", "shakespeare"),
    ),
)
