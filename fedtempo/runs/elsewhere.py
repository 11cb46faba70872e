"""What a configuration that lies in a run folder may change elsewhere when the run is resumed.

The folder may come from anybody. So nothing that it names is created outside of it: only the user's own `--set` does
that. No result depends on these settings.
"""

from __future__ import annotations

import contextlib
import logging
import sqlite3
from collections.abc import Iterable
from pathlib import Path

from fedtempo.errors import ConfigError
from fedtempo.record.result_store import is_store
from fedtempo.runs.config import Config, assignment

log = logging.getLogger("fedtempo")

_FLOWER_TABLE = "task_logs"
"""A table that the state of a SuperLink always has."""


def without_new_store(config: Config, sets: Iterable[str]) -> Config:
    """Return the configuration of a run to resume, without `executor.reuse` if its folder holds no store yet.

    sets: "section.key=value" changes by the user, who may name a new folder.
    """
    folder = config.executor.reuse_folder
    if not config.executor.reuse or folder is None or _is_set("executor.reuse_folder", sets):
        return config
    if is_store(Path(folder).expanduser()):
        return config
    log.warning(
        "executor.reuse_folder = %r holds no store of results, and resuming creates none: no results are reused "
        "(--set executor.reuse_folder=%s creates it)",
        folder,
        folder,
    )
    return config.with_changes({"executor.reuse": False}, label=config.label)


def must_be_state(config: Config, sets: Iterable[str]) -> None:
    """Raise ConfigError if `deploy.database` of a deployment to resume is not the state of a SuperLink already.

    sets: as above.
    """
    if (database := config.deploy.database) is None or _is_set("deploy.database", sets):
        return
    with contextlib.suppress(sqlite3.Error, ValueError, OSError):
        address = f"{Path(database).resolve().as_uri()}?mode=ro"
        with contextlib.closing(sqlite3.connect(address, uri=True)) as connection:
            if connection.execute("SELECT 1 FROM sqlite_schema WHERE name = ?", [_FLOWER_TABLE]).fetchone():
                return
    raise ConfigError(
        f"deploy.database = {database!r}: holds no state of a SuperLink, and resuming creates none; give it with "
        f"--set deploy.database={database}, or restore the file"
    )


def _is_set(key: str, sets: Iterable[str]) -> bool:
    return any(assignment(text)[0] in (key, key.partition(".")[0]) for text in sets)
