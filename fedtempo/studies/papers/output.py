"""What an experiment leaves on the disk: a page and its numbers, in place of what it left there before."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from fedtempo.errors import ConfigError
from fedtempo.record import write_json
from fedtempo.record.folder import environment
from fedtempo.studies.papers.pages import render
from fedtempo.studies.papers.reproduction import Asked, Exhibit, Row, overall
from fedtempo.studies.tuning.trials import kept_workers

RESULT = "result.json"


def run_exhibit(exhibit: Exhibit, asked: Asked) -> tuple[str, Sequence[Row]]:
    """Pictures, `result.json` and `result.md` in the folder that was asked for; returns the title and the rows."""
    began_s = _computed_s()
    with kept_workers():
        rows = exhibit.reproduce(asked)
    setting = measured_with(asked.folder) if exhibit.data else {}
    title = exhibit.titled(asked.scale, setting.get("data.source", []))
    result = {
        "experiment": exhibit.name,
        "title": title,
        "scale": asked.scale,
        "setting": setting,
        "command": command(exhibit, asked),
        "cpu_s": round(_computed_s() - began_s + sum(asked.earlier_s), 1),
        "environment": environment(None),
        "verdict": overall(rows),
        "rows": [asdict(row) for row in rows],
    }
    write_json(asked.folder / RESULT, result)
    page = render(
        "result",
        title=title,
        command=result["command"],
        setting=setting,
        pictures=[path.name for path in sorted(asked.folder.glob("*.png"))],
        rows=rows,
    )
    (asked.folder / "result.md").write_text(page, encoding="utf-8")
    return title, rows


def command(exhibit: Exhibit, asked: Asked) -> str:
    """What makes this result, wherever it is put."""
    data = f" --data {asked.data}" if asked.data else ""
    return f"fedtempo reproduce {exhibit.name} --scale {asked.scale}{data}"


_TOLD = ("data.source", "data.clients", "model.network")
"""Keys of the configurations whose values a result repeats."""


def measured_with(folder: Path) -> dict[str, list[Any]]:
    """All values that the configurations left in a folder give to what a result tells of its setting."""
    left = [tomllib.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.toml"))]
    found: dict[str, list[Any]] = {}
    for key in _TOLD if left else ():
        section, name = key.split(".")
        found[key] = sorted({tables[section][name] for tables in left})
    return found


@contextmanager
def in_place_of(folder: Path, exhibit: Exhibit) -> Iterator[Path]:
    """An empty folder that becomes `folder` in the end; where that fails, what was there before stays.

    Raises ConfigError where `folder` holds something else than a result of this exhibit.
    """
    try:
        if folder.exists() and read_result(folder / RESULT).get("experiment") != exhibit.name:
            raise ConfigError(f"{folder} holds something else than a result of {exhibit.name}: it is left alone")
        folder.parent.mkdir(parents=True, exist_ok=True)
        fresh = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    except OSError as error:
        raise ConfigError(f"{folder} cannot hold a result: {error.strerror or error}") from error
    try:
        fresh.chmod(0o755)
        yield fresh
        if folder.exists():
            shutil.rmtree(folder)
        fresh.rename(folder)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def read_result(path: Path) -> dict[str, Any]:
    """A `result.json`; empty where there is none. Raises ConfigError where the file holds something else."""
    if not path.exists():
        return {}
    try:
        result = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ConfigError(f"{path} is not JSON: {error}") from error
    if not isinstance(result, dict):
        raise ConfigError(f"{path} is not a result: it holds a {type(result).__name__}")
    return result


def _computed_s() -> float:
    """Seconds that processors have spent on this process and on those that it waited for."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system
