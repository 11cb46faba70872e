"""Whether a finished run can go on: its later end must not change what it has already done."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedtempo.errors import ConfigError
from fedtempo.record.measures import client_seconds, energy_wh, time_to_target
from fedtempo.record.metric import further_of, measure_of, metric_series, metrics_of
from fedtempo.record.recorder import EvaluationRow
from fedtempo.record.run import Run as RecordedRun
from fedtempo.record.validation import deciding, validation_name
from fedtempo.runtime.budget import KINDS, in_words
from fedtempo.runtime.patience import Patience, Plateau
from fedtempo.runtime.run_settings import RunSettings

ENDS = ("horizon", "max_commits", "target_accuracy", "target", "stop_at_target", "patience", "budget")
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
        judged = _is_validated(recorded) and goal.name not in now.client_measures
        name = validation_name(goal.name, measure_of(facts.get("data"))) if judged else goal.name
        times, values = _measured(recorded, name)
        reached_s = time_to_target(times, values, goal.value, goal.better)
        if reached_s is not None:
            key = "run.target" if now.target_accuracy is None else "run.target_accuracy"
            value = now.target or f"{goal.value:g}"
            aim = f"give a {goal.better} one, or run.stop_at_target = false"
            return f"{key} = {value}: reached after {reached_s:g} s; {aim}"
    if now.patience is not None and (ran_out_s := _ran_out_s(recorded, now.patience)) is not None:
        return (
            f"run.patience: {now.patience.evaluations} evaluated versions did not improve by {ran_out_s:g} s; "
            "give more, or a smaller min_delta"
        )
    if (reason := _used_up(recorded, before, now)) is not None:
        return reason
    if ended == "horizon" and now.horizon == before.horizon:
        return f"it ended at run.horizon = {before.horizon:g}; give a later one"
    if ended == "budget":
        if before.max_commits is None or commits < before.max_commits:
            return "its strategy ended by itself; a later end changes nothing"
        if now.max_commits == before.max_commits:
            return f"it ended at run.max_commits = {before.max_commits}; give a larger number"
    return None


def _ran_out_s(recorded: RecordedRun, patience: Patience) -> float | None:
    """Return the time (s) at which the recorded evaluations exhaust patience; None if they do not."""
    facts = recorded.facts
    measure, over_clients = measure_of(facts.get("data")), metrics_of({"metrics": facts.get("client_measures")})
    plateau = Plateau(patience, measure, further_of(facts))
    for (time, version), recorded_values in _recorded_values(recorded).items():
        validated = _is_validated(recorded)
        values = deciding(recorded_values, measure, over_clients) if validated else recorded_values
        if plateau.add(time, version, values):
            return time
    return None


def _recorded_values(recorded: RecordedRun) -> dict[tuple[float, int], dict[str, Any]]:
    """Return the measures of each evaluation by name, by its time (s) and version, in order."""
    evaluations, metrics = recorded.evaluations, recorded.further["metrics"]
    found: dict[tuple[float, int], dict[str, Any]] = {}
    for time, version, *values in zip(*(evaluations[name].tolist() for name in EvaluationRow._fields)):
        found[time, version] = dict(zip(EvaluationRow._fields[2:], values))
    single = metrics["class"] < 0  # measures with one value
    columns = (metrics[key][single].tolist() for key in ("time", "version", "name", "value"))
    for time, version, name, value in zip(*columns):
        found.setdefault((time, version), {})[name] = value
    return dict(sorted(found.items()))


def _used_up(recorded: RecordedRun, before: RunSettings, now: RunSettings) -> str | None:
    """Return why the budget of `now` does not allow what the run has used; None if it does."""
    for kind in KINDS:
        earlier, limit = (None if each.budget is None else each.budget.limit(kind) for each in (before, now))
        if limit is None or (limit == earlier and recorded.facts.get("ended") != kind):
            continue
        used = _used(recorded, kind)
        if limit == earlier or used is None or limit < used:
            spent = "an unknown amount (its visits were not recorded)" if used is None else in_words(kind, used)
            return f"run.budget.{kind} = {limit:g}: it has already used {spent}; give more"
    return None


def _used(recorded: RecordedRun, kind: str) -> float | None:
    """Return how much of a kind of budget the run has used; None if that is unknown."""
    match kind:
        case "bytes":
            return float(sum((recorded.facts.get("bytes") or {}).values()))
        case "client_hours":
            return client_seconds(recorded) / 3600
        case "watt_hours":
            return energy_wh(recorded)
        case _:
            return float((recorded.facts.get("privacy") or {}).get("epsilon", 0.0))


def _is_validated(recorded: RecordedRun) -> bool:
    """Return whether the run has a validation set, by which it ends."""
    return (recorded.facts.get("data") or {}).get("validation") is not None


def _measured(recorded: RecordedRun, name: str) -> tuple[Any, Any]:
    """Return times and values of a measure in the records of a run."""
    if name in ("accuracy", "loss"):
        return recorded.evaluations["time"], recorded.evaluations[name]
    return metric_series(recorded.further["metrics"], name)
