"""Whether a finished run can go on: its later end must not change what it has already done."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedtempo.errors import ConfigError
from fedtempo.record.measures import time_to_target
from fedtempo.record.metric import metric_series
from fedtempo.record.run import Run as RecordedRun
from fedtempo.runtime.run_settings import RunSettings

ENDS = ("horizon", "max_commits", "target_accuracy", "target", "stop_at_target")
"""Keys of `[run]` that say when a run ends; they may change if a finished run goes on."""


def extends(before: RunSettings, now: RunSettings) -> bool:
    """Return whether the settings differ in when a run ends."""
    return any(getattr(before, key) != getattr(now, key) for key in ENDS)


def without_ends(identity: Mapping[str, Any]) -> dict[str, Any]:
    """Return a run's identity (`fedtempo.runs.identity`) without the keys that may change."""
    configuration = identity.get("configuration", {})
    run = {key: value for key, value in configuration.get("run", {}).items() if key not in ENDS}
    return {**identity, "configuration": {**configuration, "run": run}}


def check_extension(path: Path, recorded: RecordedRun, before: RunSettings, now: RunSettings) -> None:
    """Raise ConfigError, saying why, unless the finished run with the settings `now` begins with the recorded one."""
    if (reason := _obstacle(recorded, before, now)) is not None:
        raise ConfigError(f"{path} cannot be continued: {reason}")


def _obstacle(recorded: RecordedRun, before: RunSettings, now: RunSettings) -> str | None:
    facts, summary = recorded.facts, recorded.summary or {}
    ended, end_s, commits = facts.get("ended"), float(facts.get("elapsed_s") or 0.0), int(summary.get("commits") or 0)
    if facts.get("deployment"):
        return "it ran on real clients, which have signed off; begin a new deployment"
    if now.horizon != before.horizon and facts.get("reads_horizon") is not False:
        return (
            "its strategy plans by run.horizon, so another horizon changes the run from its start; begin a new run in "
            "another folder"
        )
    if now.horizon is not None and now.horizon < end_s:
        return f"run.horizon = {now.horizon:g}: it has already run for {end_s:g} s; give a later end"
    if now.max_commits is not None and now.max_commits <= commits and now.max_commits != before.max_commits:
        return f"run.max_commits = {now.max_commits}: it has already made {commits} commits; give a larger number"
    if now.stop_at_target and (goal := now.goal) is not None:
        times, values = _measured(recorded, goal.name)
        reached_s = time_to_target(times, values, goal.value, goal.better)
        if reached_s is not None:
            key = "run.target" if now.target_accuracy is None else "run.target_accuracy"
            value = now.target or f"{goal.value:g}"
            aim = f"give a {goal.better} one, or run.stop_at_target = false"
            return f"{key} = {value}: reached after {reached_s:g} s; {aim}"
    if ended == "horizon" and now.horizon == before.horizon:
        return f"it ended at run.horizon = {before.horizon:g}; give a later one"
    if ended == "budget":
        if before.max_commits is None or commits < before.max_commits:
            return "its strategy ended by itself; a later end changes nothing"
        if now.max_commits == before.max_commits:
            return f"it ended at run.max_commits = {before.max_commits}; give a larger number"
    return None


def _measured(recorded: RecordedRun, name: str) -> tuple[Any, Any]:
    """Return times and values of a measure in the records of a run."""
    if name in ("accuracy", "loss"):
        return recorded.evaluations["time"], recorded.evaluations[name]
    return metric_series(recorded.further["metrics"], name)
