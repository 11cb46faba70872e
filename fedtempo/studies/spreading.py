"""The runs of a comparison or sweep, one after another, in parallel processes, or spread over a Ray cluster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import BrokenExecutor, as_completed
from pathlib import Path
from typing import Any

from fedtempo.errors import ConfigError, FedtempoError, RunError
from fedtempo.record.folder import RunFolder
from fedtempo.runs.config import Config, load
from fedtempo.runs.extension import extends
from fedtempo.runs.run import Run
from fedtempo.studies.compare import PlannedRun, Worlds
from fedtempo.studies.display import HIDDEN, Display

Outcome = dict[str, Any] | FedtempoError
"""The summary of a run, or the error that ended it."""

BY_CLUSTER = 0
"""Number of jobs with which a Ray cluster runs as many as it has room for."""

_worlds = Worlds()
"""Of this process: a worker process has several runs, often with the same data and fleet."""


def spread(
    folder: Path, runs: Sequence[PlannedRun], *, force: bool, display: Display, jobs: int
) -> Iterator[tuple[PlannedRun, Outcome]]:
    """Complete runs in their folders below `folder`; yield each with its outcome as it ends.

    jobs: number of parallel runs, each in a process of its own that trains alone. With more than one (or `BY_CLUSTER`)
    and the executor "ray", each run is a task of the cluster.
    """
    left = []
    for run in runs:
        if _has_ended(folder / run.name, run.config):
            yield run, _attempted(Run(run.config, page=False), folder / run.name, force)
        else:
            left.append(run)
    if not left:
        return
    if jobs == 1 or (len(left) < 2 and jobs != BY_CLUSTER):
        yield from _one_after_another(folder, left, force, display)
        return
    if left[0].config.executor.kind == "ray":
        from fedtempo.studies.on_ray import on_ray

        outcomes = on_ray(folder, left, force, jobs)
    else:
        outcomes = _in_processes(folder, left, force, jobs)
    for number, (run, outcome) in enumerate(outcomes, start=len(runs) - len(left) + 1):
        display.say(f"{number} of {len(runs)} runs: {run.name}")
        yield run, outcome


def _has_ended(target: Path, config: Config) -> bool:
    """Return whether a folder holds a finished run that this configuration does not continue to a later end."""
    folder = RunFolder(target)
    try:
        return folder.finished and not extends(load(folder.config, own=False).run, config.run)
    except ConfigError:  # what cannot be read is an error when the run is completed
        return False


def complete_alone(run: PlannedRun, target: Path, force: bool) -> Outcome:
    """Complete a run in this process, without workers of its own; return its summary or its error."""
    config = run.config
    if config.executor.kind in ("processes", "ray") and config.executor.device == "cpu":
        config = config.with_changes({"executor.kind": "inline"}, label=config.label)
    try:
        with HIDDEN.observing(config, target) as observers:
            alone = Run(config, _worlds.of(config), observers, page=False, quiet=True)
            return _attempted(alone, target, force)
    except FedtempoError as error:
        return _portable(error)


def _one_after_another(
    folder: Path, runs: Sequence[PlannedRun], force: bool, display: Display
) -> Iterator[tuple[PlannedRun, Outcome]]:
    worlds = Worlds()
    for run in runs:
        outcome: Outcome
        try:
            world, target = worlds.of(run.config), folder / run.name
            with display.observing(run.config, target) as observers, display.watching(run.config) as watch:
                outcome = Run(run.config, world, observers, watch, page=False).complete(target, force=force)
        except FedtempoError as error:
            outcome = error
        yield run, outcome


def _in_processes(
    folder: Path, runs: Sequence[PlannedRun], force: bool, jobs: int
) -> Iterator[tuple[PlannedRun, Outcome]]:
    from fedtempo.studies.tuning.trials import _worker_processes

    try:
        with _worker_processes(min(jobs, len(runs))) as pool:
            begun = {pool.submit(complete_alone, run, folder / run.name, force): run for run in runs}
            for future in as_completed(begun):
                yield begun[future], future.result()
    except BrokenExecutor as error:
        raise RunError(
            f"a process with a run of {folder} was killed; if memory ran out, use fewer jobs; "
            f"`fedtempo resume {folder}` continues"
        ) from error


def _attempted(run: Run, target: Path, force: bool) -> Outcome:
    try:
        return run.complete(target, force=force)
    except FedtempoError as error:
        return _portable(error)


def _portable(error: FedtempoError) -> FedtempoError:
    """Return an error that can be sent to another process: its kind, its line and the user's lines of code."""
    portable = (ConfigError if isinstance(error, ConfigError) else RunError)(str(error))
    portable.frames = error.frames
    return portable
