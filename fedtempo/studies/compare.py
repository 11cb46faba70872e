"""Comparisons: their runs, what these share, and their folder."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import tomli_w

from fedtempo.errors import ConfigError, Interrupted
from fedtempo.record import Run as RecordedRun
from fedtempo.record import load_run, write_json
from fedtempo.record.folder import RunFolder, claim
from fedtempo.record.strict_json import write_text
from fedtempo.runs.config import Config, assignment, parse
from fedtempo.runs.extension import extends
from fedtempo.runs.run import Run, may_go_on
from fedtempo.runs.world import World, build_world
from fedtempo.studies.competitors import configured
from fedtempo.studies.display import HIDDEN, Display
from fedtempo.studies.significance import compared, resolution_of

PLAN = "comparison.toml"
"""File in a comparison's folder that lists its runs."""


def runs_of(base: Config, labels: Sequence[str], seeds: Sequence[int]) -> Iterator[tuple[Config, World]]:
    """Yield every run of a comparison, seed by seed; competitors with the same data and fleet share them."""
    for seed in seeds:
        worlds: list[tuple[Mapping[str, Any], World]] = []
        for seeded in _seeded(base, labels, [seed]):
            tables = {name: seeded.tables[name] for name in ("data", "fleet")}
            world = next((world for known, world in worlds if known == tables), None)
            if world is None:
                world = build_world(seeded)
                worlds.append((tables, world))
            yield seeded, world


def _seeded(base: Config, labels: Sequence[str], seeds: Sequence[int]) -> Iterator[Config]:
    """Yield the configuration of every run of a comparison, seed by seed."""
    configs = configured(base, labels)
    for seed in seeds:
        for config in configs:
            yield config.with_changes({"run.seed": seed}, label=config.label)


def begin(
    folder: Path, base: Config, labels: Sequence[str], seeds: Sequence[int], display: Display = HIDDEN
) -> list[RecordedRun]:
    """Run a comparison in a new folder; return its runs.

    Raises ConfigError if the folder holds something or a competitor is not usable, Interrupted after Ctrl-C.
    """
    configured(base, labels)
    new_folder(folder)
    lock = claim(folder)
    try:
        plan = {"strategies": list(labels), "seeds": list(seeds), "configuration": base.given}
        write_text(folder / PLAN, tomli_w.dumps(plan))
        return _complete(folder, base, labels, seeds, force=False, display=display)
    finally:
        lock.release()


def resume(folder: Path, sets: Iterable[str], *, force: bool, display: Display = HIDDEN) -> list[RecordedRun]:
    """Complete the comparison in a folder: begin the runs that are missing, continue those that are not finished.

    Returns and raises as `begin`; sets and force as for a single run. With a later end, finished runs go on, if all
    runs are finished.
    """
    try:
        plan = tomllib.loads((folder / PLAN).read_text(encoding="utf-8"))
        lock = claim(folder)
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{folder} cannot be resumed: {error}") from error
    try:
        before = parse(plan["configuration"])
        base = before.with_changes(dict(map(assignment, sets)))
        if extends(before.run, base.run):
            for config in _seeded(base, plan["strategies"], plan["seeds"]):
                target = run_folder(folder, config.label, config.run.seed)
                if not RunFolder(target).finished:
                    raise ConfigError(f"{target}: the run has not finished; resume the comparison first")
                may_go_on(target, config)
            write_text(folder / PLAN, tomli_w.dumps({**plan, "configuration": base.given}))
        return _complete(folder, base, plan["strategies"], plan["seeds"], force=force, display=display)
    finally:
        lock.release()


def run_folder(folder: Path, label: str, seed: int) -> Path:
    """Return the folder of one run of a comparison."""
    return folder / f"{label.replace(':', '-')}-seed{seed}"


def _complete(
    folder: Path, base: Config, labels: Sequence[str], seeds: Sequence[int], *, force: bool, display: Display
) -> list[RecordedRun]:
    summaries: dict[str, list[dict[str, Any]]] = {label: [] for label in labels}
    folders = []
    for config, world in runs_of(base, labels, seeds):
        target = run_folder(folder, config.label, config.run.seed)
        with display.observing(config, target) as observers, display.watching(config) as watch:
            summary = Run(config, world, observers, watch, page=False).complete(target, force=force)
        if summary["ended"] == "interrupted":
            raise Interrupted(f"the comparison in {folder} was interrupted; `fedtempo resume {folder}` continues it")
        summaries[config.label].append(summary)
        folders.append(target)
    from fedtempo.report.html import write_report

    runs = [load_run(target) for target in folders]
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
