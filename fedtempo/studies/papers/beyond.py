"""Beyond the papers: FedHusky's schedule and mixing, one change at a time, on many fleets, data and networks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from fedtempo.record import write_json
from fedtempo.studies.papers.beyond_figures import draw_ratios
from fedtempo.studies.papers.cache import Cache, cache_file
from fedtempo.studies.papers.league_entrants import LeagueRow, flattened
from fedtempo.studies.papers.race import Race, Target, as_comparison, reference, run_race, run_to_the_end
from fedtempo.studies.papers.ranking import ratio
from fedtempo.studies.papers.reproduction import Budget, Exhibit, Request, Row
from fedtempo.studies.papers.standings import seconds
from fedtempo.studies.tuning.trials import Changes, in_processes

SETTINGS = "beyond"
FIRST = "the first variant of the cell"
NO_TARGET = Target(0.0, 0.0, 0.0)

S = TypeVar("S")
T = TypeVar("T")


@dataclass(frozen=True)
class Variant:
    """A variant to try. title: its description. kept: what offers it in fedtempo now. points: settings to tune.

    cells: names of the cells in which it is tried, None for all.
    """

    label: str
    title: str
    kept: str
    points: Sequence[Changes]
    cells: Sequence[str] | None


def variants(request: Request) -> list[Variant]:
    """Return the variants in the order of the settings; all others are compared with the first."""
    tables = request.table(SETTINGS, "variants")
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
class CellStudy:
    """A cell in which variants are tried. target_of: name of the cell whose target it takes."""

    cell: LeagueRow
    budget: Budget
    target_of: str


def cell_studies(request: Request, table: str) -> list[CellStudy]:
    """Return the studies of a table: "cells" for times to a target, "ends" for accuracies at the horizon."""
    base, studies = request.settings(SETTINGS), []
    everywhere = list(request.table(SETTINGS, table))
    scale = request.table(SETTINGS, "beyond")[request.scale]
    for name, entry in request.table(SETTINGS, table).items():
        if name in scale.get("without", []):
            continue
        config = base.with_changes(flattened(entry.get("changes", {})) | flattened(scale.get("changes", {})))
        points = {
            variant.label: variant.points
            for variant in variants(request)
            if (
                variant.label in entry["variants"]
                if "variants" in entry
                else name in (everywhere if variant.cells is None else variant.cells)
            )
        }
        cell = LeagueRow(name, config.data.source, entry["title"], config, points)
        studies.append(CellStudy(cell, request.budget(SETTINGS, entry["study"]), entry.get("target_of", name)))
    return studies


def beyond(request: Request) -> list[Row]:
    """Run all studies; write `beyond.json`, a picture and each cell's configuration.

    Outcomes of an interrupted earlier attempt are reused.
    """
    path, studies = cache_file(SETTINGS), cell_studies(request, "cells")
    most_visits: int = request.table(SETTINGS, "beyond")[request.scale]["most_visits"]
    references = [(study, path) for study in studies if study.target_of == study.cell.fleet]
    targets = dict(
        zip((study.cell.fleet for study, _ in references), _run_jobs(request, _reference, references), strict=True)
    )
    races = [
        Race(study.cell, label, study.budget, targets[study.target_of], most_visits, path)
        for study in studies
        for label in study.cell.points
    ]
    raced = _run_jobs(request, run_race, races)
    ends = cell_studies(request, "ends")
    to_the_end = [
        Race(study.cell, label, study.budget, NO_TARGET, most_visits, path)
        for study in ends
        for label in study.cell.points
    ]
    ended = _run_jobs(request, run_to_the_end, to_the_end)
    facts: dict[str, Any] = {
        "scale": request.scale,
        "most_visits": most_visits,
        "variants": {each.label: {"title": each.title} for each in variants(request)},
        "cells": [
            _cell_facts(study, targets[study.target_of])
            | {"tried": {race.label: own for race, own in zip(races, raced, strict=True) if race.row is study.cell}}
            for study in studies
        ],
        "ends": [
            _cell_facts(study, NO_TARGET)
            | {
                "tried": {
                    race.label: own for race, own in zip(to_the_end, ended, strict=True) if race.row is study.cell
                }
            }
            for study in ends
        ],
    }
    write_json(request.folder / "beyond.json", facts)
    for study, entry in zip(studies, facts["cells"], strict=True):
        chosen = as_comparison(entry["tried"])
        request.save_config(
            study.cell.base.with_changes({**chosen, "run.target_accuracy": entry["target"]}), study.cell.fleet
        )
    for suffix in ("png", "svg"):
        draw_ratios(facts, request.folder / f"beyond.{suffix}")
    return _rows(facts)


def _run_jobs(request: Request, function: Callable[[S], tuple[T, float]], jobs: Sequence[S]) -> list[T]:
    """Run jobs in processes and return their results; note the time that cached parts of them took earlier."""
    results = in_processes(function, jobs)
    request.earlier_s.extend(earlier_s for _, earlier_s in results)
    return [result for result, _ in results]


def _reference(job: tuple[CellStudy, Path | None]) -> tuple[Target, float]:
    study, path = job
    cache = Cache(path)
    return reference(study.cell, study.budget, cache), cache.earlier_s


def _cell_facts(study: CellStudy, target: Target) -> dict[str, Any]:
    cell, budget = study.cell, study.budget
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
    """Return every variant's time relative to the first's, and in how many cells it proved sooner or later."""
    rows, sooner, later = [], dict.fromkeys(facts["variants"], 0), dict.fromkeys(facts["variants"], 0)
    for cell in facts["cells"]:
        first = next(iter(cell["tried"]))
        base = cell["tried"][first]["runs"]["target_s"]
        for label, tried in cell["tried"].items():
            times = tried["runs"]["target_s"]
            relative = ratio(times, base, cell["horizon_s"])
            what = f"{cell['title']}: time to {cell['target']:.0%}, {label}"
            rows.append(Row(what, "-", _words(times), "", "" if label == first else relative.words))
            sooner[label] += relative.high < 1
            later[label] += relative.low > 1
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
