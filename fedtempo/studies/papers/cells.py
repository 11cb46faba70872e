"""Contests as settings files describe them: the entrants, and the cells (a fleet with data each) where they compete."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Annotated, Any, Literal

from pydantic import Field
from pydantic.dataclasses import dataclass as component

from fedtempo.errors import ConfigError, nearest
from fedtempo.parts.construct import construct
from fedtempo.parts.fields import STRICT
from fedtempo.runs.config import SECTIONS, Config
from fedtempo.studies.papers.contest_results import ContestBudget
from fedtempo.studies.papers.reproduction import Request, Scale, flattened
from fedtempo.studies.phones import fleet_of_phones, recorded_intervals
from fedtempo.studies.tuning.trials import Changes

REFERENCE = "fedavg"
"""The entrant from whose final accuracy targets are taken."""
Names = Annotated[tuple[str, ...], Field(strict=False)]
Points = list[dict[str, Any]]
Told = Literal["times", "presence", "losses", "labels", "examples"]
"""What a server may be told: clients' mean times, when they are present, losses of models at them, numbers of their
examples by label, raw examples."""


@component(frozen=True, config=STRICT)
class Entrant:
    """A table `[entrants.<label>]`: a strategy that competes, apart from its configuration.

    points: settings to tune, besides the learning rate. title: what it is. option: the one that offers it in fedtempo.
    ranked: False if it only runs beside the others. told: what its server is told, besides who answers. cells: names of
    the cells where it competes, None for all.
    """

    points: Points
    title: str = ""
    option: str = ""
    ranked: bool = True
    told: Annotated[tuple[Told, ...], Field(strict=False)] = ()
    cells: Names | None = None


@dataclass(frozen=True)
class Cell:
    """A fleet with data on which entrants compete. group: cells of a group are shown together.

    base: the configuration that all entrants share, without a target. points: settings to tune, by entrant.
    target_of: the cell whose target it has; None if entrants run to the horizon and their accuracy there counts.
    interpolated: whether times to the target lie between evaluations. exact: as of `CellResult`.
    """

    name: str
    group: str
    title: str
    base: Config
    budget: ContestBudget
    points: Mapping[str, Sequence[Changes]]
    target_of: str | None
    interpolated: bool = False
    exact: str = ""

    @property
    def data(self) -> str:
        return self.base.data.source

    def settings(self, label: str) -> list[Changes]:
        """Return the settings that an entrant may try: each point with the learning rates, unless it fixes one."""
        points = self.points[label]
        if all("training.lr" in point for point in points):
            return list(points)
        return [{**point, "training.lr": lr} for point in points for lr in self.budget.lr]


@dataclass(frozen=True)
class Contest:
    """Entrants and cells at a scale."""

    entrants: Mapping[str, Entrant]
    cells: Sequence[Cell]


@component(frozen=True, config=STRICT)
class _ScaleTable:
    """A table `[contest.<scale>]`. without: cells that are left out unless asked for by data. changes: of all cells.

    interpolated: as of `Cell`.
    """

    without: Names = ()
    changes: dict[str, Any] = field(default_factory=dict)
    interpolated: bool = False


@component(frozen=True, config=STRICT)
class _CellTable:
    """A table `[cells.<name>]`, or a part `[parts.<name>]` that several cells share.

    changes: of the configuration. at: further changes at a scale. numbers: values for points such as "$few". points:
    those that differ here, by entrant. budget: a table of learning rates and seeds. entrants: who competes (default:
    as the entrants say). aim: "end" if entrants run to the horizon. exact: as of `Cell`. recorded: a recorded fleet, to
    which changes are made.
    """

    title: str = ""
    parts: Names = ()
    recorded: Literal["", "phones"] = ""
    changes: dict[str, Any] = field(default_factory=dict)
    at: dict[Scale, dict[str, Any]] = field(default_factory=dict)
    numbers: dict[str, Any] = field(default_factory=dict)
    points: dict[str, Points] = field(default_factory=dict)
    budget: str = ""
    target_of: str = ""
    entrants: Names | None = None
    aim: Literal["target", "end"] = "target"
    exact: str = ""

    def merged(self, later: _CellTable) -> _CellTable:
        """Return this table with those values of a later one that are given there."""
        return _CellTable(
            title=", ".join(filter(None, (self.title, later.title))),
            parts=self.parts or later.parts,
            recorded=later.recorded or self.recorded,
            changes={**flattened(self.changes), **flattened(later.changes)},
            at={
                scale: flattened(self.at.get(scale, {})) | flattened(later.at.get(scale, {}))
                for scale in {**self.at, **later.at}
            },
            numbers={**self.numbers, **later.numbers},
            points={**self.points, **later.points},
            budget=later.budget or self.budget,
            target_of=later.target_of or self.target_of,
            entrants=self.entrants if later.entrants is None else later.entrants,
            aim=later.aim,
            exact=later.exact,
        )


def read_contest(request: Request, name: str) -> Contest:
    """Return the contest of `settings/<name>.toml` at the requested scale.

    Raises ConfigError for a table that is wrong, for data on which no cell runs, and if entrants of a cell have
    different numbers of settings to tune.
    """
    entrants, compare = {}, {}
    for label, table in request.table(name, "entrants").items():
        compare[label] = {key: value for key, value in table.items() if key in SECTIONS}
        notes = {key: value for key, value in table.items() if key not in SECTIONS}
        entrants[label] = construct(Entrant, notes, f"entrants.{label}")
    scale = construct(_ScaleTable, request.table(name, "contest").get(request.scale, {}), f"contest.{request.scale}")
    parts = {
        part: construct(_CellTable, table, f"parts.{part}") for part, table in request.table(name, "parts").items()
    }
    shared = request.settings(name).with_changes({f"compare.{label}": table for label, table in compare.items()})
    cells = []
    for cell, table in request.table(name, "cells").items():
        cell_table = construct(_CellTable, table, f"cells.{cell}")
        _check_names(f"cells.{cell}.parts", cell_table.parts, parts)
        _check_names(f"cells.{cell}.entrants", cell_table.entrants or (), entrants)
        layers = [*(parts[part] for part in cell_table.parts), cell_table]
        cells.append(_cell(request, name, cell, reduce(_CellTable.merged, layers), shared, scale, entrants))
    on_data = [cell for cell in cells if request.data in (None, cell.data)]
    if not on_data:
        sources = ", ".join(dict.fromkeys(cell.data for cell in cells))
        raise ConfigError(f"data = {request.data}: {name} runs on {sources} only")
    chosen = [cell for cell in on_data if cell.name not in scale.without] or on_data
    for chosen_cell in chosen:
        _check(chosen_cell, {cell.name for cell in chosen})
    return Contest(entrants, chosen)


def _cell(
    request: Request,
    contest: str,
    name: str,
    table: _CellTable,
    shared: Config,
    scale: _ScaleTable,
    entrants: Mapping[str, Entrant],
) -> Cell:
    changes = flattened(table.changes) | flattened(table.at.get(request.scale, {})) | flattened(scale.changes)
    if table.recorded:
        changes = _recorded_fleet(changes["run.horizon"]) | changes
    base = shared.with_changes(changes)
    points = {
        label: [_filled(point, table.numbers, f"cells.{name}") for point in table.points.get(label, entrant.points)]
        for label, entrant in entrants.items()
        if _competes(name, table, label, entrant)
    }
    target_of = (table.target_of or name) if table.aim == "target" else None
    of = table.budget or "study"
    budget = construct(ContestBudget, request.table(contest, of)[request.scale], f"{of}.{request.scale}")
    group = table.parts[0] if table.parts else name
    return Cell(name, group, table.title, base, budget, points, target_of, scale.interpolated, table.exact)


def _recorded_fleet(horizon_s: float) -> Changes:
    """Return changes to the fleet of phones, whose windows up to the horizon are part of the configuration."""
    intervals = recorded_intervals(horizon_s)
    return flattened({"fleet": fleet_of_phones({"kind": "trace", "intervals": intervals, "sample": True})})


def _competes(name: str, table: _CellTable, label: str, entrant: Entrant) -> bool:
    if table.entrants is not None:
        return label in table.entrants
    return entrant.cells is None or name in entrant.cells


def _filled(point: Mapping[str, Any], numbers: Mapping[str, Any], where: str) -> Changes:
    """Return a point as changes of a configuration, with the cell's number for each value such as "$few"."""
    changes = flattened(point)
    for key, value in changes.items():
        if isinstance(value, str) and value.startswith("$"):
            if value[1:] not in numbers:
                raise ConfigError(f"{where}.numbers: {key} needs {value[1:]}{nearest(value[1:], numbers)}")
            changes[key] = numbers[value[1:]]
    return changes


def _check_names(where: str, names: Sequence[str], known: Mapping[str, Any]) -> None:
    for name in names:
        if name not in known:
            raise ConfigError(f"{where}: {name} is not in the settings{nearest(name, known)}")


def _check(cell: Cell, names: set[str]) -> None:
    if cell.base.run.horizon is None:
        raise ConfigError(f"cells.{cell.name}: run.horizon is missing; runs without a target go to the horizon")
    counts = {label: len(cell.settings(label)) for label in cell.points}
    if len(set(counts.values())) > 1:
        raise ConfigError(f"cells.{cell.name}: entrants have different numbers of settings to tune: {counts}")
    if cell.target_of is not None and cell.target_of not in names:
        raise ConfigError(f"cells.{cell.name}.target_of: {cell.target_of} is no cell at this scale")
    if cell.target_of == cell.name and REFERENCE not in cell.points:
        raise ConfigError(f"cells.{cell.name}: {REFERENCE} must compete here, since it sets the target")
