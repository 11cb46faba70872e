"""Writes a reproduced figure or table to disk: a page and its numbers, replacing an earlier result."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from fedtempo.errors import ConfigError
from fedtempo.parts.text_files import parse_json, parse_toml
from fedtempo.record import write_json
from fedtempo.record.folder import environment
from fedtempo.runs.identity import strategy_modules
from fedtempo.studies.papers.certain import unjudge_certain
from fedtempo.studies.papers.freshness import decided_by
from fedtempo.studies.papers.pages import render
from fedtempo.studies.papers.reproduction import SETTINGS, Exhibit, Request
from fedtempo.studies.papers.verdicts import Row, overall_verdict
from fedtempo.studies.papers.witnesses import write_witnesses
from fedtempo.studies.tuning.trials import FinishedRun, NotedRun, ledger, shared_workers

RESULT = "result.json"
_LEAST_SEEDS = 5
"""Seeds that a verdict needs if something is trained."""


def run_exhibit(
    exhibit: Exhibit,
    request: Request,
    finished: dict[str, FinishedRun] | None = None,
    workers: int = 2,
    ray: str | None = None,
) -> tuple[str, Sequence[Row]]:
    """Write pictures, numbers, witnesses and a page to the requested folder; return the title and the rows.

    finished: runs of exhibits before this one, which are reused and added to. workers, ray: as of `reproduce`.
    """
    began_s, load = _cpu_s(), os.getloadavg()[0]
    with shared_workers(workers, ray), ledger(finished) as runs:
        rows: Sequence[Row] = unjudge_certain(exhibit.name, exhibit.reproduce(request))
    few_seeds = has_few_seeds(exhibit, request, runs.noted)
    if few_seeds:
        rows = [row.unjudged() for row in rows]
    request.earlier_s.append(runs.reused_s)
    setting = measured_settings(request.folder) if exhibit.data else {}
    strategies = strategy_modules(run.config for run in runs.noted)
    title = exhibit.full_title(request.scale, setting.get("data.source", []))
    result = {
        "experiment": exhibit.name,
        "title": title,
        "scale": request.scale,
        "data": request.data,
        "setting": setting,
        "command": command(exhibit, request),
        "cpu_s": round(_cpu_s() - began_s + sum(request.earlier_s), 1),
        "environment": {**environment(None), "load": round(load, 2)},
        "decided_by": decided_by(exhibit.reproduce.__module__, request.settings_read, strategies),
        **({"few_seeds": True} if few_seeds else {}),
        "verdict": overall_verdict(rows),
        "rows": [asdict(row) for row in rows],
    }
    write_json(request.folder / RESULT, result)
    write_witnesses(request.folder, runs.noted)
    page = render(
        "result",
        title=title,
        command=result["command"],
        setting=setting,
        pictures=[path.name for path in sorted(request.folder.glob("*.png"))],
        few_seeds=few_seeds,
        least_seeds=_LEAST_SEEDS,
        rows=rows,
    )
    (request.folder / "result.md").write_text(page, encoding="utf-8")
    return title, rows


def has_few_seeds(exhibit: Exhibit, request: Request, noted: Sequence[NotedRun]) -> bool:
    """Return whether something was trained, but nothing with as many seeds as a verdict needs.

    noted: all runs, of which those of tuning seeds do not count. A contest notes one run per competitor; it has enough
    seeds at all scales but the small one.
    """
    if exhibit.page is not None:
        return request.scale == "small"
    seeds: dict[str, set[int]] = {}
    for label, config, _ in noted:
        if config.executor.kind != "none":
            tables = {**config.tables, "run": {**config.tables["run"], "seed": None}}
            seeds.setdefault(json.dumps([label, tables], sort_keys=True, default=str), set()).add(config.run.seed)
    tuning = _tuning_seeds(request)
    return bool(seeds) and max(len(of_one - tuning) for of_one in seeds.values()) < _LEAST_SEEDS


def _tuning_seeds(request: Request) -> set[int]:
    """Return the tuning seeds of the scale in all files of settings that were read."""
    files = [parse_toml((SETTINGS / f"{stem}.toml").read_text(encoding="utf-8")) for stem in request.settings_read]
    tables = [table for tables in files for table in tables.values() if isinstance(table, dict)]
    budgets = [table[request.scale] for table in tables if isinstance(table.get(request.scale), dict)]
    return {seed for budget in budgets for seed in budget.get("tuning_seeds", ())}


def command(exhibit: Exhibit, request: Request) -> str:
    """Return the command that makes this result, without where it is put."""
    data = f" --data {request.data}" if request.data else ""
    return f"fedtempo reproduce {exhibit.name} --scale {request.scale}{data}"


_SETTING_KEYS = ("data.source", "data.clients", "model.network")
"""Configuration keys whose values a result repeats."""


def measured_settings(folder: Path) -> dict[str, list[Any]]:
    """Return the values of `_SETTING_KEYS` in all configurations of a folder, by key, sorted; empty without any."""
    configs = [parse_toml(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.toml"))]
    values: dict[str, list[Any]] = {}
    for key in _SETTING_KEYS if configs else ():
        section, name = key.split(".")
        values[key] = sorted({tables[section][name] for tables in configs})
    return values


@contextmanager
def in_place_of(folder: Path, exhibit: Exhibit) -> Iterator[Path]:
    """Yield an empty folder that replaces `folder` at the end; after an error, the old contents stay.

    Raises ConfigError if `folder` holds anything but a result of this exhibit, or cannot be written.
    """
    try:
        if folder.exists() and read_result(folder / RESULT).get("experiment") != exhibit.name:
            raise ConfigError(
                f"{folder} holds something else than a result of {exhibit.name}; choose another folder "
                "(nothing was overwritten)"
            )
        folder.parent.mkdir(parents=True, exist_ok=True)
        fresh = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    except OSError as error:
        raise ConfigError(f"cannot write a result to {folder}: {error.strerror or error}") from error
    try:
        fresh.chmod(0o755)
        yield fresh
        if folder.exists():
            shutil.rmtree(folder)
        fresh.rename(folder)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def read_result(path: Path) -> dict[str, Any]:
    """Read a `result.json`; empty if the file is missing. Raises ConfigError if it holds anything else."""
    if not path.exists():
        return {}
    try:
        result = parse_json(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ConfigError(f"{path} is not JSON: {error}") from error
    if not isinstance(result, dict):
        raise ConfigError(f"{path} is not a result: expected a JSON object, found a {type(result).__name__}")
    return result


def _cpu_s() -> float:
    """Return the CPU seconds of this process and of child processes that have ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system
