"""The file that marks a folder as that of an unfinished deployment, and holds what is needed to resume it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedtempo.errors import ConfigError
from fedtempo.parts.text_files import parse_json
from fedtempo.record import RunFolder
from fedtempo.record.folder import claim
from fedtempo.record.reading import read_table
from fedtempo.record.strict_json import write_json

_DEPLOYMENT = "deployment.json"


def remembered(path: Path) -> dict[str, Any] | None:
    """Return the values passed to `remember` for the deployment in a folder; None if there is none to resume.

    Raises ConfigError if its file holds anything else.
    """
    values = read_table(path, _DEPLOYMENT, parse_json)
    if values is None:
        return None
    local, session = values.get("local"), values.get("session")
    known = {"token": str, "run_id": int, "task_id": int, "node_id": int, "run": str}
    is_local = local is None or (isinstance(local, int) and not isinstance(local, bool) and local > 0)
    is_session = session is None or (
        isinstance(session, dict)
        and session.keys() == known.keys()
        and all(type(session[name]) is kind for name, kind in known.items())
    )
    if not is_local or not is_session:
        raise ConfigError(
            f"{path / _DEPLOYMENT} is damaged: {'session' if is_local else 'local'} holds something else; restore the "
            "file, without which the deployment cannot go on"
        )
    return values


def remember(folder: RunFolder, values: Mapping[str, Any]) -> None:
    """Write the values to a file that only its owner may read: they may allow to act for the run.

    A folder that has such a file always has a whole one, even if this process is killed. Raises RunError.
    """
    write_json(folder.path / _DEPLOYMENT, values, sync=True, private=True)


def forget(folder: RunFolder) -> None:
    """Delete what only resuming a deployment needs: it has finished."""
    folder.journal.unlink(missing_ok=True)
    (folder.path / _DEPLOYMENT).unlink(missing_ok=True)


def forget_unbegun(path: Path) -> None:
    """Delete what a deployment left that was killed before it had written its configuration: it can be begun again.

    Raises ConfigError if another process works in the folder.
    """
    if (path / _DEPLOYMENT).exists() and not RunFolder(path).config.exists():
        with claim(path):
            if not RunFolder(path).config.exists():
                (path / _DEPLOYMENT).unlink(missing_ok=True)
