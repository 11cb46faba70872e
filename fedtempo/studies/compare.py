"""Comparisons and sweeps: their runs, what these share, and their folder."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import tomli_w

from fedtempo.errors import ConfigError, FedtempoError, Interrupted, RunError
from fedtempo.parts.text_files import parse_toml, read_text
from fedtempo.record import Run as RecordedRun
from fedtempo.record import load_run, write_json
from fedtempo.record.folder import RunFolder, claim
from fedtempo.record.strict_json import write_text
from fedtempo.runs.config import Config, assignment, parse
from fedtempo.runs.elsewhere import without_new_store
from fedtempo.runs.extension import extends
from fedtempo.runs.identity import must_agree, settings
from fedtempo.runs.run import may_go_on
from fedtempo.runs.world import World, build_world
from fedtempo.studies.competitors import competitors, whole_seeds
from fedtempo.studies.display import HIDDEN, Display
from fedtempo.studies.grids import NO_GRID, Competitor, Grid, checked_grid, competitors_of
from fedtempo.studies.same_work import check_same_work
from fedtempo.studies.significance import compared, resolution_of

PLAN = "comparison.toml"
"""File in a comparison's folder that lists its runs."""

_WORLDS = 4
"""Worlds of a seed that are kept for later runs."""


class PlannedRun(NamedTuple):
    """A run of a comparison. name: of its folder."""

    config: Config
    name: str


@dataclass(frozen=True)
class Plan:
    """What a comparison runs: each strategy in `labels`, with each combination of a sweep's grid, on each seed."""

    base: Config
    labels: Sequence[str]
    seeds: Sequence[int]
    grid: Grid = field(default_factory=dict)

    @cached_property
    def competitors(self) -> list[Competitor]:
        return competitors_of(self.labels, self.grid)

    @property
    def count(self) -> int:
        """The number of runs."""
        return len(self.competitors) * len(self.seeds)

    @cached_property
    def checked(self) -> list[PlannedRun]:
        """All runs, as by `runs`.

        Raises ConfigError if one is not usable, or if they do different work in the same time.
        """
        runs = list(self.runs())
        check_same_work((run.config.label, run.config.tables) for run in runs[: len(self.competitors)])
        return runs

    def runs(self) -> Iterator[PlannedRun]:
        """Yield all runs, seed by seed; those of one seed with the same settings of the grid follow each other."""
        configs: list[tuple[Config, Competitor]] = []
        for seed in self.seeds:
            if not configs:
                configs = [(self._config(each), each) for each in self._in_order()]
            for config, competitor in configs:
                yield _seeded(config, competitor, seed)

    def run(self, number: int) -> PlannedRun:
        """Return one run, counted from 0. Raises ConfigError if there is no such run."""
        if not 0 <= number < self.count:
            raise ConfigError(f"run {number}: the sweep has runs 0 to {self.count - 1}")
        which, competitor = divmod(number, len(self.competitors))
        chosen = self._in_order()[competitor]
        return _seeded(self._config(chosen), chosen, self.seeds[which])

    def names(self) -> list[str]:
        """Return the names of all runs' folders, in the order of `runs`."""
        return [_run_name(each, seed) for seed in self.seeds for each in self._in_order()]

    def tables(self) -> dict[str, Any]:
        """Return the plan as TOML's tables."""
        grid = {"grid": {key: list(values) for key, values in self.grid.items()}} if self.grid else {}
        return {"strategies": list(self.labels), "seeds": list(self.seeds), **grid, "configuration": self.base.given}

    def _in_order(self) -> list[Competitor]:
        """Return the competitors setting by setting, so that those with the same data follow each other."""
        every, points = self.competitors, len(self.competitors) // len(self.labels)
        return [every[label * points + point] for point in range(points) for label in range(len(self.labels))]

    def _config(self, competitor: Competitor) -> Config:
        config = self.base.for_comparison(competitor.strategy)
        if not competitor.point:
            return config
        try:
            return config.with_changes(competitor.point, label=competitor.label)
        except ConfigError as error:
            if len(self.labels) == 1:
                raise
            raise ConfigError(f"{competitor.strategy}: {error}") from error


def runs_of(
    base: Config, labels: Sequence[str], seeds: Sequence[int], grid: Grid = NO_GRID
) -> Iterator[tuple[Config, World]]:
    """Yield every run of a comparison, seed by seed; competitors with the same data and fleet share them."""
    worlds = Worlds()
    for run in Plan(base, labels, seeds, grid).checked:
        yield run.config, worlds.of(run.config)


class Worlds:
    """Builds worlds, and keeps the last few, since runs of one seed with the same data and fleet share theirs."""

    def __init__(self) -> None:
        self._kept: list[tuple[int, Mapping[str, Any], World]] = []

    def of(self, config: Config) -> World:
        """Return the world of a run."""
        seed, tables = config.run.seed, {name: config.tables[name] for name in ("data", "fleet")}
        if any(known != seed for known, _, _ in self._kept):
            self._kept.clear()
        world = next((world for _, known, world in self._kept if known == tables), None)
        if world is None:
            world = build_world(config)
            self._kept = [*self._kept[1 - _WORLDS :], (seed, tables, world)]
        return world


def begin(
    folder: Path, base: Config, labels: Sequence[str], seeds: Sequence[int], display: Display = HIDDEN, jobs: int = 1
) -> list[RecordedRun]:
    """Run a comparison in a new folder; return its runs.

    jobs: number of parallel runs. Raises ConfigError if the folder holds something or a competitor is not usable,
    Interrupted after Ctrl-C.
    """
    plan = Plan(base, labels, seeds)
    runs = plan.checked
    new_folder(folder)
    lock = claim(folder)
    try:
        write_plan(folder, plan)
        complete(folder, plan, runs, force=False, display=display, jobs=jobs)
        return write_results(folder, plan)
    finally:
        lock.release()


def resume(
    folder: Path, sets: Iterable[str], *, force: bool, display: Display = HIDDEN, jobs: int = 1
) -> list[RecordedRun]:
    """Complete the comparison in a folder: begin the runs that are missing, continue those that are not finished.

    Returns (for a sweep nothing) and raises as `begin`; sets and force as for a single run. With a later end, finished
    runs go on, if all runs are finished.
    """
    before, sets = read_plan(folder), list(sets)
    lock = _claimed(folder)
    try:
        plan = replace(before, base=before.base.with_changes(dict(map(assignment, sets))))
        runs = plan.checked
        if extends(before.base.run, plan.base.run):
            for run in runs:
                target = folder / run.name
                if not RunFolder(target).finished:
                    raise ConfigError(f"{target}: the run has not finished; resume the comparison first")
                may_go_on(target, run.config)
            write_plan(folder, plan)
        runs = [run._replace(config=without_new_store(run.config, sets)) for run in runs]
        complete(folder, plan, runs, force=force, display=display, jobs=jobs)
        return [] if plan.grid else write_results(folder, plan)
    finally:
        lock.release()


def complete(folder: Path, plan: Plan, runs: Sequence[PlannedRun], *, force: bool, display: Display, jobs: int) -> None:
    """Complete the runs of a plan. A sweep goes on after a failed run, and fails at its end.

    Raises Interrupted after Ctrl-C, RunError or ConfigError for failed runs.
    """
    from fedtempo.studies.spreading import spread

    failed: list[tuple[PlannedRun, FedtempoError]] = []
    what = "sweep" if plan.grid else "comparison"
    interrupted = Interrupted(f"the {what} in {folder} was interrupted; `fedtempo resume {folder}` continues it")
    try:
        for run, outcome in spread(folder, runs, force=force, display=display, jobs=jobs):
            if isinstance(outcome, FedtempoError):
                if not plan.grid:
                    raise outcome
                failed.append((run, outcome))
            elif outcome["ended"] == "interrupted":
                raise interrupted
    except KeyboardInterrupt as stopped:
        raise interrupted from stopped
    if failed:
        run, error = failed[0]
        raise RunError(
            f"{len(failed)} of {len(runs)} runs failed, first {folder / run.name}: {error}; `fedtempo resume {folder}` "
            "repeats them"
        ) from error


def write_plan(folder: Path, plan: Plan) -> None:
    """Write what a comparison runs into its folder."""
    write_text(folder / PLAN, tomli_w.dumps(plan.tables()))


def read_plan(folder: Path) -> Plan:
    """Return the plan of the comparison in a folder. Raises ConfigError if there is none that can be used."""
    try:
        tables = parse_toml(read_text(folder / PLAN))
    except (OSError, ValueError) as error:
        raise ConfigError(f"{folder} holds no comparison or sweep that can be read: {error}") from error
    configuration, grid = tables.get("configuration"), tables.get("grid", {})
    if not isinstance(configuration, dict) or not isinstance(grid, dict):
        raise ConfigError(f"{folder / PLAN} cannot be read: configuration and grid must be tables")
    seeds, labels = tables.get("seeds"), tables.get("strategies")
    if not isinstance(seeds, list) or not isinstance(labels, list) or not all(isinstance(name, str) for name in labels):
        raise ConfigError(f"{folder / PLAN} cannot be read: strategies and seeds must be lists")
    base = parse(configuration)
    return Plan(base, competitors(labels, base), whole_seeds(seeds), checked_grid(grid))


def grown(folder: Path, plan: Plan) -> Plan:
    """Return the plan of a sweep in a folder that already holds one, which may have gained seeds, values, strategies.

    Raises ConfigError if the folder holds something else, or if anything else differs.
    """
    before = read_plan(folder)
    must_agree(folder, settings(before.base), settings(plan.base), force=False)
    ours, theirs = (", ".join(each.grid) or "no keys" for each in (plan, before))
    if ours != theirs:
        raise ConfigError(f"{folder} holds a sweep over {theirs}, not {ours}; choose another folder")
    pairs = [("seeds", before.seeds, plan.seeds), ("strategies", before.labels, plan.labels)]
    pairs += [(key, before.grid[key], plan.grid[key]) for key in plan.grid]
    for name, old, new in pairs:
        if missing := [value for value in old if value not in new]:
            raise ConfigError(
                f"{folder}: its sweep has {name} = {', '.join(map(str, old))}; {missing[0]} is missing in "
                f"{', '.join(map(str, new))} (values can be added, not removed)"
            )
    return plan


def write_results(folder: Path, plan: Plan) -> list[RecordedRun]:
    """Write comparison.json and the page of a finished comparison; return its runs."""
    from fedtempo.record import summarise
    from fedtempo.report.html import write_report

    runs = [load_run(folder / name) for name in plan.names()]
    summaries: dict[str, list[dict[str, Any]]] = {each.label: [] for each in plan.competitors}
    for run in runs:
        summaries[run.label].append(dict(run.summary or summarise(run)))
    facts = compared(summaries, resolution_of([run.config for run in runs]))
    write_json(folder / "comparison.json", facts)
    write_report(folder / "report.html", runs, facts)
    return runs


def new_folder(path: Path) -> Path:
    """Make a folder, or take an empty one. Raises ConfigError if it holds something or cannot be made."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        occupied = any(path.iterdir())
    except OSError as error:
        raise ConfigError(f"{path} cannot hold results: {error.strerror or error}") from error
    if occupied:
        raise ConfigError(f"{path} is not empty; choose another folder (nothing was overwritten)")
    return path


def _claimed(folder: Path) -> Any:
    try:
        return claim(folder)
    except OSError as error:
        raise ConfigError(f"{folder} cannot be resumed: {error}") from error


def _seeded(config: Config, competitor: Competitor, seed: int) -> PlannedRun:
    return PlannedRun(config.with_changes({"run.seed": seed}, label=config.label), _run_name(competitor, seed))


def _run_name(competitor: Competitor, seed: int) -> str:
    return f"{competitor.folder_name}-seed{seed}"
