"""Runs in folders: begun, killed, and gone on with."""

from __future__ import annotations

import hashlib
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import fedtempo
from fedtempo.config import Config, load
from fedtempo.errors import ConfigError
from fedtempo.launch import Watch, World, build_world, run_in_folder
from fedtempo.record import RunFolder, load_run, write_json
from fedtempo.record.folder import versions
from fedtempo.record.journal import Journal, read_identity
from fedtempo.record.models import ModelFiles
from fedtempo.record.strict_json import plain, write_text

_FREE = ("checkpoint_every", "verify")
"""Keys of `[run]` on which no result depends."""

_COMPUTING = ("python", "fedtempo", "torch", "numpy", "scipy", "scikit-learn")
"""Whose versions results depend on."""


def run_to_folder(
    config: Config, path: Path, *, world: World | None = None, watch: Watch | None = None
) -> dict[str, Any]:
    """One run in its own new folder; returns its summary. The folder is claimed before anything is computed."""
    folder = RunFolder.create(path, config.run.seed)
    try:
        with folder:
            write_text(folder.config, config.dump())
            world = build_world(config) if world is None else world
            return _run(config, folder, Journal.create(folder.journal, identity(config, world)), world, watch)
    except ConfigError:
        shutil.rmtree(folder.path)  # nothing happened: nothing half-made stays
        raise


def complete(
    config: Config, path: Path, *, force: bool = False, world: World | None = None, watch: Watch | None = None
) -> dict[str, Any]:
    """The summary of the run in a folder: begun where there is none, gone on with where it is not finished."""
    folder = RunFolder(path)
    if not folder.config.exists():
        return run_to_folder(config, path, world=world, watch=watch)
    if not folder.finished:
        return resume(config, path, force=force, world=world, watch=watch)
    _must_agree(path, _settings(load(folder.config)), _settings(config), force)
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
    return load(folder.config, sets).with_changes({}, label=label)


def resume(
    config: Config, path: Path, *, force: bool = False, world: World | None = None, watch: Watch | None = None
) -> dict[str, Any]:
    """Go on with the run in a folder that was interrupted; returns its summary, the same as if it had never been.

    Raises ConfigError where the configuration, the data, versions or the code are not those that the run began with;
    force: only the first two matter. Raises RunError where the journal or a model is damaged.
    """
    with RunFolder.resume(path) as folder:
        world = build_world(config) if world is None else world
        now = identity(config, world)
        if folder.journal.exists():
            journal = Journal.resume(folder.journal)
            _must_agree(folder.path, journal.identity, now, force)
        else:
            journal = Journal.create(folder.journal, now)
        folder.summary.unlink(missing_ok=True)
        return _run(config, folder, journal, world, watch)


def _run(config: Config, folder: RunFolder, journal: Journal, world: World, watch: Watch | None) -> dict[str, Any]:
    summary, model = run_in_folder(config, folder.path, world=world, watch=watch, journal=journal)
    models = ModelFiles(folder.models)
    if model is not None:
        models.add(model)
    write_json(folder.summary, summary)
    if summary["ended"] != "interrupted":
        _tidy(folder, summary)
    return summary


def _tidy(folder: RunFolder, summary: Mapping[str, Any]) -> None:
    """The run has finished: its model stays, and nothing else of what it needed to be resumed."""
    folder.journal.unlink(missing_ok=True)
    ModelFiles(folder.models).keep({summary["model_sha256"]})


def identity(config: Config, world: World) -> dict[str, Any]:
    """All that a run's result depends on, as JSON values: a run is resumed only where it is the same."""
    return {
        "label": config.label,
        "configuration": _settings(config),
        "data": {"sha256": world.dataset.sha256},
        "versions": {**{name: versions()[name] for name in _COMPUTING}, "code": code_sha256(config)},
    }


def _settings(config: Config) -> dict[str, Any]:
    """The tables of a configuration on which results depend, as JSON values."""
    settings = {name: table for name, table in config.tables.items() if name not in ("compare", "executor")}
    settings["run"] = {key: value for key, value in settings["run"].items() if key not in _FREE}
    settings["executor"] = {"trains": config.executor.kind != "none"}
    if config.executor.kind != "none" and config.executor.device != "cpu":
        settings["executor"]["device"] = "cuda"
    return dict(plain(settings))


def code_sha256(config: Config) -> str:
    """Hash of fedtempo's source, and of the user's modules that a configuration names as `module:name`."""
    root = Path(fedtempo.__file__).parent
    files = sorted(root.rglob("*.py"))
    modules = {text.partition(":")[0] for text in _texts(config.tables) if ":" in text}
    users = [getattr(sys.modules.get(module), "__file__", None) for module in sorted(modules)]
    digest = hashlib.sha256()
    for path in [*files, *(Path(user) for user in users if user is not None)]:
        digest.update(path.name.encode() + b"\n" + path.read_bytes())
    return digest.hexdigest()


def _must_agree(path: Path, before: Mapping[str, Any], now: Mapping[str, Any], force: bool) -> None:
    """Raises ConfigError that says what differs."""
    found = list(differences(before, now))
    if force:
        found = [name for name in found if not name.startswith("versions.")]
    if found:
        hint = "" if any(not name.startswith("versions.") for name in found) else "; --force resumes nevertheless"
        raise ConfigError(f"{path} cannot be resumed: {'; '.join(found)}{hint}")


def differences(before: Any, now: Any, name: str = "") -> Iterator[str]:
    """What is not the same in two tables of JSON values, key by key."""
    if isinstance(before, dict) and isinstance(now, dict):
        for key in sorted(before.keys() | now.keys()):
            inner = f"{name}.{key}" if name else key
            yield from differences(before.get(key), now.get(key), inner.removeprefix("configuration."))
    elif before != now:
        yield f"{name} was {before!r} and is {now!r}"


def _texts(value: Any) -> Iterator[str]:
    """All strings in tables and lists."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | list):
        for item in value.values() if isinstance(value, Mapping) else value:
            yield from _texts(item)
