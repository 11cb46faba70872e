"""Sweeps: comparisons over a grid of settings, in one folder that can be continued, extended and collected."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from fedtempo.errors import ConfigError, FedtempoError, Interrupted
from fedtempo.parts.machine import usable_cpus
from fedtempo.record import write_json
from fedtempo.record.folder import RunFolder, claim
from fedtempo.record.strict_json import to_json, write_text
from fedtempo.runs.config import Config
from fedtempo.runs.identity import settings
from fedtempo.runs.run import Run
from fedtempo.studies.compare import PLAN, Plan, complete, grown, new_folder, read_plan, write_plan
from fedtempo.studies.competitors import competitors, whole_seeds
from fedtempo.studies.display import HIDDEN, Display
from fedtempo.studies.grids import checked_grid
from fedtempo.studies.slurm import write_script
from fedtempo.studies.spreading import BY_CLUSTER
from fedtempo.studies.tables.pivot import pivot
from fedtempo.studies.tables.runs import TableRun, comparison_of, read_runs
from fedtempo.studies.tables.typesetting import typeset

TABLES = {"table.md": "markdown", "table.csv": "csv"}
"""Files with the sweep's table, in its folder, and their formats."""

PAGE_COMPETITORS = 20
"""Largest number of settings for which report.html is written; with more, no picture could be read."""


def jobs_for(config: Config, jobs: int | None) -> int:
    """Return the number of parallel runs: as asked, or as many as suit the configuration's executor if None."""
    if jobs is not None and jobs < 1:
        raise ConfigError(f"jobs = {jobs}: must be at least 1")
    if jobs is not None:
        return jobs
    if config.executor.kind == "ray":
        return BY_CLUSTER
    return usable_cpus() if config.executor.device == "cpu" else 1


def plan_sweep(
    base: Config, grid: Mapping[str, Sequence[Any]], strategies: str | Iterable[str] | None, seeds: int | Iterable[int]
) -> Plan:
    """Return what a sweep runs.

    Raises ConfigError for keys, values, strategies or seeds that cannot be used, so that nothing fails in the middle.
    """
    if not grid:
        raise ConfigError("grid: give at least one key with its values, such as training.lr=0.1,0.3")
    plan = Plan(base, competitors(strategies or [base.label], base), whole_seeds(seeds), checked_grid(grid))
    _ = plan.checked
    return plan


def default_folder(plan: Plan) -> Path:
    """Return a folder below runs/ with the same name for the same sweep, so that the same command continues it."""
    grid = {key: list(values) for key, values in plan.grid.items()}
    sha256 = hashlib.sha256(to_json([plan.labels, grid, plan.seeds, settings(plan.base)]).encode()).hexdigest()
    return Path("runs") / f"sweep-{'-'.join(plan.labels[:3])}-{sha256[:8]}".replace(":", "-")


def take_folder(folder: Path, plan: Plan) -> None:
    """Make a folder for a sweep, or take the one that holds it already, perhaps with fewer seeds and values.

    Raises ConfigError if it holds anything else.
    """
    if (folder / PLAN).exists():
        grown(folder, plan)
    else:
        for path in folder.glob(f".{PLAN}.*"):  # half written by a command that was killed
            path.unlink()
        new_folder(folder)
    write_plan(folder, plan)


def run_sweep(folder: Path, plan: Plan, display: Display = HIDDEN, jobs: int = 1) -> tuple[list[TableRun], list[str]]:
    """Complete a sweep's runs in its folder, and `collect` them.

    jobs: number of parallel runs. Raises Interrupted after Ctrl-C, RunError at the end if runs failed.
    """
    take_folder(folder, plan)
    lock, failure = claim(folder), None
    try:
        try:
            complete(folder, plan, plan.checked, force=False, display=display, jobs=jobs)
        except Interrupted:
            raise
        except FedtempoError as error:
            failure = error
            if not any(RunFolder(folder / name).finished for name in plan.names()):
                raise
        collected = collect(folder)
        if failure is not None:
            raise failure
        return collected
    finally:
        lock.release()


def slurm_script(folder: Path, plan: Plan, jobs: int | None = None) -> Path:
    """Prepare a sweep's folder for Slurm; return the script of an array job with a task for each unfinished run."""
    take_folder(folder, plan)
    left = [number for number, name in enumerate(plan.names()) if not RunFolder(folder / name).finished]
    return write_script(folder, plan.base, left, jobs)


def run_task(folder: Path, number: int, display: Display = HIDDEN) -> dict[str, Any]:
    """Complete one run of a sweep, counted from 0, as a task of a cluster's queue does; return its summary.

    Raises ConfigError if the folder holds no sweep or the sweep no such run, and as a single run does.
    """
    run = read_plan(folder).run(number)
    config, target = run.config, folder / run.name
    if config.executor.kind in ("processes", "ray") and config.executor.device == "cpu":
        cpus = usable_cpus()  # what the queue has given, which may not be what the script asked for
        changes = {"executor.kind": "processes" if cpus > 1 else "inline", "executor.workers": cpus}
        config = config.with_changes(changes, label=config.label)
    with display.observing(config, target) as observers, display.watching(config) as watch:
        return Run(config, None, observers, watch, page=False).complete(target)


def collect(folder: Path) -> tuple[list[TableRun], list[str]]:
    """Write the results of a sweep's finished runs into its folder; return these runs, and the names of the others.

    Writes comparison.json, the table as Markdown and CSV, and report.html if there are few settings. Raises ConfigError
    if the folder holds no comparison, or no run has finished.
    """
    plan = read_plan(folder)
    names = plan.names()
    finished = {name: folder / name for name in names if RunFolder(folder / name).finished}
    if not finished:
        raise ConfigError(f"{folder}: none of the {len(names)} runs has finished")
    runs = read_runs([folder], only=list(finished.values()))
    compared = comparison_of(runs)
    write_json(folder / "comparison.json", compared)
    table = pivot(runs)
    for name, kind in TABLES.items():
        write_text(folder / name, typeset(table, kind))
    if len(plan.competitors) <= PAGE_COMPETITORS:
        from fedtempo.record import load_run
        from fedtempo.report.html import write_report

        write_report(folder / "report.html", [load_run(path) for path in finished.values()], compared)
    return runs, [name for name in names if name not in finished]
