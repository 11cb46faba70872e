"""Runs in folders: begun, killed, and gone on with."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from fedtempo.errors import ConfigError
from fedtempo.record import RunFolder, load_run, write_json
from fedtempo.record.journal import Journal, read_identity
from fedtempo.record.models import ModelFiles
from fedtempo.record.recorder import Observer
from fedtempo.record.strict_json import write_text
from fedtempo.runs.config import Config, load
from fedtempo.runs.identity import identity, must_agree, settings
from fedtempo.runs.launch import Watch, run_in_folder
from fedtempo.runs.world import World, build_world
from fedtempo.runtime.heartbeat import pulse


def run_to_folder(
    config: Config,
    path: Path,
    *,
    world: World | None = None,
    watch: Watch | None = None,
    observers: Iterable[Observer] = (),
) -> dict[str, Any]:
    """One run in its own new folder; returns its summary. The folder is claimed before anything is computed.

    observers: hear what happens, and decide nothing of it.
    """
    folder = RunFolder.create(path, config.run.seed)
    try:
        with folder:
            write_text(folder.config, config.dump(), sync=True)
            world = build_world(config) if world is None else world
            journal = Journal.create(folder.journal, identity(config, world.dataset.sha256))
            return _run(config, folder, journal, world, watch, observers)
    except ConfigError as error:
        if not error.keeps_run:
            shutil.rmtree(folder.path)  # nothing happened: nothing half-made stays
        raise


def complete(
    config: Config,
    path: Path,
    *,
    force: bool = False,
    world: World | None = None,
    watch: Watch | None = None,
    observers: Iterable[Observer] = (),
) -> dict[str, Any]:
    """The summary of the run in a folder: begun where there is none, gone on with where it is not finished."""
    folder = RunFolder(path)
    if not folder.config.exists():
        return run_to_folder(config, path, world=world, watch=watch, observers=observers)
    if not folder.finished:
        return resume(config, path, force=force, world=world, watch=watch, observers=observers)
    must_agree(path, settings(load(folder.config, own=False)), settings(config), force)
    summary = dict(load_run(path).summary or {})
    _tidy(folder, summary)
    return summary


def configuration(path: Path, sets: list[str]) -> Config:
    """What the run in a folder was configured as; sets: what is to be different, as `resume` allows it.

    Raises ConfigError where there is no run, or a change is none.
    """
    folder = RunFolder(path)
    if not folder.config.exists():
        raise ConfigError(f"{path} holds no run that could be resumed")
    label = read_identity(folder.journal).get("label")
    return load(folder.config, sets, own=False).with_changes({}, label=label)


def resume(
    config: Config,
    path: Path,
    *,
    force: bool = False,
    world: World | None = None,
    watch: Watch | None = None,
    observers: Iterable[Observer] = (),
) -> dict[str, Any]:
    """Go on with the run in a folder that was interrupted; returns its summary, the same as if it had never been.

    Raises ConfigError where the configuration, the data, versions or the code are not those that the run began with;
    force: only the first two matter. Raises RunError where the journal or a model is damaged.
    """
    with RunFolder.resume(path) as folder:
        world = build_world(config) if world is None else world
        now = identity(config, world.dataset.sha256)
        if folder.journal.exists():
            journal = Journal.resume(folder.journal)
            must_agree(folder.path, journal.identity, now, force)
        else:
            journal = Journal.create(folder.journal, now)
        folder.summary.unlink(missing_ok=True)
        return _run(config, folder, journal, world, watch, observers)


def _run(
    config: Config,
    folder: RunFolder,
    journal: Journal,
    world: World,
    watch: Watch | None,
    observers: Iterable[Observer],
) -> dict[str, Any]:
    with pulse(folder.now, watch) as watched:
        summary, model = run_in_folder(
            config, folder.path, world=world, watch=watched, journal=journal, observers=observers
        )
    models = ModelFiles(folder.models)
    if model is not None:
        models.add(model)
        models.sync()
    write_json(folder.summary, summary)
    if summary["ended"] != "interrupted":
        _tidy(folder, summary)
    return summary


def _tidy(folder: RunFolder, summary: Mapping[str, Any]) -> None:
    """The run has finished: its model stays, and nothing else of what it needed to be resumed."""
    folder.journal.unlink(missing_ok=True)
    ModelFiles(folder.models).keep({summary["model_sha256"]})
