"""`comparison.json`: strategies side by side, over the same seeds."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from fedtempo.errors import ConfigError
from fedtempo.record.metric import target_of
from fedtempo.record.strict_json import plain

Summary = Mapping[str, Any]

_TIMES = ("time_to_target_s", "first_time_at_target_s")
_LABELS = ("strategy", "seed", "horizon_s", "target_accuracy", "target", "measures", "client_measures")


def comparison(runs_by_strategy: Mapping[str, Sequence[Summary]]) -> dict[str, Any]:
    """Return summaries of runs (`summarise`), a list over seeds for each strategy, as one table.

    For each strategy it holds "seeds" and the fields of a summary: numbers as {"mean", "std", "values"} over the seeds
    that have them (sample standard deviation, None below two), anything else as {"values"}; values per client are left
    out. A time to target also has "reached" and "of" (numbers of seeds) and "median", where a seed that did not reach
    the target counts as later than all others (None if that is the median). "ratio_to_first" divides the median by that
    of the first strategy; None if either did not reach the target. "failed" counts runs that diverged, others that
    ended without a visit or a commit ("untrained"), and those whose model stood still at the end ("stood_still"), out
    of "of" runs; see `summarise`.
    Raises ConfigError if there is nothing to compare or runs have different targets.
    """
    if not runs_by_strategy or not all(runs_by_strategy.values()):
        raise ConfigError("a comparison needs at least one run of each strategy")
    summaries = [summary for group in runs_by_strategy.values() for summary in group]
    targets = {target_of(summary) for summary in summaries}
    if len(targets) > 1:
        shown = sorted("none" if target is None else f"{target.measure.key} {target.value:g}" for target in targets)
        raise ConfigError(f"the target differs between runs: {', '.join(shown)}; compare runs with the same target")
    horizons = {summary["horizon_s"] for summary in summaries}
    strategies = {name: _strategy(group) for name, group in runs_by_strategy.items()}
    first = next(iter(strategies))
    for fields in strategies.values():
        for time in _TIMES:
            fields[time]["ratio_to_first"] = _ratio(fields[time]["median"], strategies[first][time]["median"])
    return {
        "target_accuracy": summaries[0]["target_accuracy"],
        **({} if summaries[0].get("target") is None else {"target": summaries[0]["target"]}),
        **{key: measures for key in ("measures", "client_measures") if (measures := _measures(summaries, key))},
        "horizon_s": horizons.pop() if len(horizons) == 1 else None,
        "first": first,
        "strategies": dict(plain(strategies)),
    }


def _measures(summaries: Sequence[Summary], key: str) -> list[Mapping[str, Any]]:
    """Return what the summaries say about further measures, once for each name."""
    return list({each["name"]: each for summary in summaries for each in summary.get(key) or ()}.values())


def _strategy(summaries: Sequence[Summary]) -> dict[str, Any]:
    fields: dict[str, Any] = {"seeds": [summary["seed"] for summary in summaries]}
    for name in summaries[0]:
        if name not in _LABELS:
            fields[name] = _over_seeds([summary.get(name) for summary in summaries])
    for time in _TIMES:
        values = fields[time]["values"]
        late = sorted(math.inf if value is None else value for value in values)
        fields[time] |= {
            "median": plain(float(statistics.median(late))),
            "reached": sum(value is not None for value in values),
            "of": len(values),
        }
    failed = [failure(summary) for summary in summaries]
    fields["failed"] = {name: failed.count(name) for name in FAILURES} | {"of": len(failed)}
    return fields


FAILURES = ("diverged", "untrained", "stood_still")


def failure(summary: Summary) -> str | None:
    """Return the first of `FAILURES` that applies to a run's summary, or None."""
    if summary.get("diverged") is not None:
        return "diverged"
    if summary.get("ended") != "interrupted" and not (summary.get("visits", 1) and summary.get("commits", 1)):
        return "untrained"
    return "stood_still" if summary.get("still_since_s") is not None else None


def _over_seeds(values: Sequence[Any]) -> dict[str, Any]:
    if all(isinstance(value, Mapping) for value in values):
        names = [name for name in values[0] if name != "per_client"]
        return {name: _over_seeds([value.get(name) for value in values]) for name in names}
    numbers = [value for value in values if value is not None]
    if not all(isinstance(value, int | float) for value in numbers):
        return {"values": list(values)}
    return {
        "mean": statistics.fmean(numbers) if numbers else None,
        "std": statistics.stdev(numbers) if len(numbers) > 1 else None,
        "values": list(values),
    }


def _ratio(value: float | None, base: float | None) -> float | None:
    return value / base if value is not None and base else None
