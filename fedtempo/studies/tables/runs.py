"""Runs as tables for papers need them: which strategy and settings, which seed, and the summary."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from fedtempo.errors import ConfigError
from fedtempo.parts.text_files import parse_toml
from fedtempo.record import comparison, load_run, summarise
from fedtempo.record.reading import read_table
from fedtempo.runs.identity import FREE
from fedtempo.studies.compare import PLAN
from fedtempo.studies.grids import Competitor, checked_grid, competitors_of, value_text

STRATEGY = "strategy"
"""The name by which a table's rows or columns are strategies; all other names are keys of configurations."""

_IGNORED = ("executor", "deploy", "compare")


@dataclass(frozen=True)
class TableRun:
    """A run. label: as in comparisons; strategy: the label without a sweep's settings; point: these, by dotted key.

    config: the tables of its configuration. place: its folder, for errors.
    """

    label: str
    strategy: str
    point: Mapping[str, Any]
    seed: int
    config: Mapping[str, Any]
    summary: Mapping[str, Any]
    place: str

    def value(self, key: str) -> Any:
        """Return the run's value of a key: of the sweep's grid or the configuration, or its strategy; else None."""
        if key == STRATEGY:
            return self.strategy
        return self.point[key] if key in self.point else self.settings.get(key)

    @cached_property
    def settings(self) -> dict[str, Any]:
        """The values of its configuration by dotted key, without those that results do not depend on, and the seed."""
        return {key: value for key, value in _leaves(self.config) if not _is_free(key)}


def read_runs(folders: Iterable[Path], only: Sequence[Path] | None = None) -> list[TableRun]:
    """Read runs, one at a time; a folder without a run stands for the runs directly in it (only: some of them).

    The folders may come from anybody: nothing in them is executed or imported. Raises ConfigError if a folder holds no
    run.
    """
    runs = []
    for folder in folders:
        inner = [folder] if (folder / "run.sqlite").exists() else _inside(folder) if only is None else only
        if not inner:
            raise ConfigError(f"{folder} is not a run folder (no run.sqlite)")
        known = {each.label: each for each in plan_competitors(folder)}
        order = {label: position for position, label in enumerate(known)}
        of_folder = [_read(path, known) for path in inner]
        runs += sorted(of_folder, key=lambda run: (order.get(run.label, len(order)), run.seed))
    return runs


def table_run(
    label: str, config: Mapping[str, Any], summary: Mapping[str, Any], place: str, competitor: Competitor | None = None
) -> TableRun:
    """Return a run for tables. competitor: which of a sweep's it is, if it belongs to one."""
    strategy, point = (label, {}) if competitor is None else (competitor.strategy, competitor.point)
    return TableRun(label, strategy, point, int(summary["seed"]), config, summary, place)


def plan_competitors(folder: Path) -> list[Competitor]:
    """Return the competitors of the comparison or sweep in a folder, in order; none if it holds no plan."""
    tables = read_table(folder, PLAN, parse_toml) or {}
    labels, grid = tables.get("strategies", []), tables.get("grid", {})
    if not isinstance(labels, list) or not isinstance(grid, dict):
        raise ConfigError(f"{folder / PLAN} cannot be read: strategies must be a list, and grid a table")
    return competitors_of(list(map(str, labels)), checked_grid(grid))


def comparison_of(runs: Sequence[TableRun]) -> dict[str, Any]:
    """Return the comparison of runs by label, see `fedtempo.record.comparison`."""
    summaries: dict[str, list[Mapping[str, Any]]] = {}
    for run in runs:
        summaries.setdefault(run.label, []).append(run.summary)
    return comparison(summaries)


def varying(runs: Sequence[TableRun]) -> list[str]:
    """Return the keys in which runs differ: the strategy, the keys of sweeps, names of parts, then all others."""
    points = list(dict.fromkeys(key for run in runs for key in run.point))
    settings = [run.settings for run in runs]
    others = sorted(
        {key for own in settings for key in own} - set(points), key=lambda key: (not _names_a_part(key), key)
    )
    first, *_ = runs
    differing = [key for key in others if any(own.get(key) != settings[0].get(key) for own in settings)]
    return [
        key
        for key in [STRATEGY, *points, *differing]
        if key in differing or any(value_text(run.value(key)) != value_text(first.value(key)) for run in runs)
    ]


def check_one_setting(group: Sequence[TableRun], where: str, hint: str) -> None:
    """Raise ConfigError if runs that are shown as seeds of one setting differ in anything else, or are the same run."""
    first = group[0]
    seeds: dict[int, TableRun] = {}
    for run in group:
        both = f"{first.place} and {run.place}"
        if run.strategy != first.strategy:
            raise ConfigError(
                f"{both} are {where} but differ in {STRATEGY} ({first.strategy} and {run.strategy}): {hint}"
            )
        for key in sorted(run.settings.keys() | first.settings.keys()):
            values = [value_text(each.settings.get(key)) for each in (first, run)]
            if values[0] != values[1]:
                raise ConfigError(f"{both} are {where} but differ in {key} ({' and '.join(values)}): {hint}")
        if (same := seeds.get(run.seed)) is not None:
            raise ConfigError(f"{same.place} and {run.place} are {where}, but are the same run twice (seed {run.seed})")
        seeds[run.seed] = run


def _names_a_part(key: str) -> bool:
    return key.rpartition(".")[2] in ("preset", "source", "network", "kind", "name")


def _inside(folder: Path) -> list[Path]:
    inner = sorted(path.parent for path in folder.glob("*/run.sqlite"))
    if links := [path for path in inner if path.is_symlink()]:
        raise ConfigError(f"{links[0]} leads to {links[0].resolve()}: name the runs' folders themselves")
    return inner


def _read(folder: Path, known: Mapping[str, Competitor]) -> TableRun:
    run = load_run(folder)
    return table_run(run.label, run.config, summarise(run), str(folder), known.get(run.label))


def _leaves(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the values of nested tables by dotted key, also those of tables with a kind."""
    for name, value in table.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _is_free(key: str) -> bool:
    section, _, name = key.partition(".")
    return key == "run.seed" or section in _IGNORED or name in FREE.get(section, ())
