"""What the seeds of a comparison show: intervals of ratios, who is level with the first, how many seeds it takes."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import scipy

from fedtempo.record import comparison
from fedtempo.record.metric import target_of_all
from fedtempo.record.strict_json import plain
from fedtempo.studies.papers.ranking import MARGIN, SIGNIFICANCE, Relation, Times, first, holm, ratio, relations
from fedtempo.studies.papers.verdicts import Effect

Summary = Mapping[str, Any]
_MOST_SEEDS = 1000

METHOD_OF_TIMES = (
    "ratios: geometric means over paired seeds with Student's 95% interval of the mean logarithm; later: Student's "
    f"one-sided paired test at 5%, Holm's correction; level: 90% interval within 1/{MARGIN:g} to {MARGIN:g}"
)
METHOD_OF_SCORES = (
    "differences: means over paired seeds with Student's 95% interval; lower: Student's one-sided paired test at 5%, "
    "Holm's correction"
)


def compared(runs_by_strategy: Mapping[str, Sequence[Summary]], resolution_s: float = 0.0) -> dict[str, Any]:
    """Return `fedtempo.record.comparison` of these summaries with "statistics", what their seeds show.

    resolution_s: time between evaluations. "statistics" is None if there is one strategy, or nothing was measured.
    Otherwise it holds
    - "measure": "time_to_target_s", or "final_accuracy" if there is no target or no median reaches it;
    - "seeds": those that every strategy has, which are paired. With one, nothing is shown, and "strategies" is empty;
    - "first": the strategy with the lowest median time, or the highest mean accuracy;
    - "method", in words, and "comparisons": for how many p-values were corrected;
    - "censored_s": the time at which runs count that missed the target (the horizon); None if all reached it;
    - "strategies": for each its "relation" to the first ("first", "level", "not told apart", "later" or "lower"), and
      "to_first" and "to_baseline" (the strategy named first). These hold "mean", "low" and "high" of a ratio of times,
      with "bound" (">" for a lower bound, "<" for an upper one, else ""), or of a difference of accuracies;
    - "least_shown": the smallest ratio of times, or difference of accuracies, that would be shown with as many seeds
      and the spread of these pairs, at the strictest level of Holm's correction. None if no pair has a known spread;
    - "seeds_for_margin": number of seeds with which a ratio of `MARGIN` would be shown; None for accuracies, if it is
      above 1000, or if "least_shown" is None.
    """
    table = comparison(runs_by_strategy)
    return {**table, "statistics": plain(_statistics(runs_by_strategy, table, resolution_s))}


def resolution_of(configs: Sequence[Mapping[str, Any]]) -> float:
    """Return the longest time between evaluations in configurations' tables, seconds; 0 if they are made at commits."""
    tables = [run for config in configs if isinstance(run := config.get("run"), Mapping)]
    every = [run.get("evaluate_every") for run in tables if run.get("evaluate", "time") == "time"]
    return max((float(seconds) for seconds in every if isinstance(seconds, int | float)), default=0.0)


def _statistics(runs: Mapping[str, Sequence[Summary]], table: Mapping[str, Any], resolution_s: float) -> Any:
    if len(runs) < 2:
        return None
    by_seed = {label: {summary["seed"]: summary for summary in group} for label, group in runs.items()}
    seeds = sorted(set.intersection(*(set(group) for group in by_seed.values())))

    def values(name: str) -> dict[str, list[float | None]]:
        return {label: [group[seed].get(name) for seed in seeds] for label, group in by_seed.items()}

    times, baseline = values("time_to_target_s"), table["first"]
    if seeds and target_of_all(table) is not None and first(times) is not None:
        if any(time == 0 for group in times.values() for time in group):
            return None  # ratios to 0 s mean nothing
        ends = [summary.get("elapsed_s") or 0.0 for group in runs.values() for summary in group]
        horizon_s = table["horizon_s"] or max([*ends, *(t for group in times.values() for t in group if t)])
        found = _of_times(times, baseline, horizon_s, resolution_s, len(seeds))
    else:
        scores = values("final_accuracy")
        if not seeds or any(score is None for group in scores.values() for score in group):
            return None
        found = _of_scores(scores, baseline, len(seeds))
    return {"seeds": seeds, "comparisons": len(runs) - 1, **found}


def _of_times(
    times: Mapping[str, Times], baseline: str, horizon_s: float, resolution_s: float, seeds: int
) -> dict[str, Any]:
    best = first(times)
    assert best is not None
    missed = any(time is None for group in times.values() for time in group)
    known: dict[str, Any] = {
        "measure": "time_to_target_s",
        "first": best,
        "method": METHOD_OF_TIMES,
        "censored_s": horizon_s if missed else None,
    }
    if seeds == 1:
        return {**known, "strategies": {}, "least_shown": None, "seeds_for_margin": None}
    related = relations(times, horizon_s, resolution_s)
    spreads = [
        statistics.stdev(math.log(a) - math.log(b) for a, b in zip(group, times[best], strict=True))  # type: ignore[arg-type]
        for label, group in times.items()
        if label != best and None not in group and None not in times[best]
    ]
    least, enough = _power(spreads, seeds, len(times) - 1, math.log(MARGIN))
    return {
        **known,
        "strategies": {
            label: {
                "relation": related[label],
                "to_first": _ratio(group, times[best], horizon_s) if label != best else None,
                "to_baseline": _ratio(group, times[baseline], horizon_s) if label != baseline else None,
            }
            for label, group in times.items()
        },
        "least_shown": None if least is None else math.exp(least),
        "seeds_for_margin": enough,
    }


def _ratio(times: Times, base: Times, horizon_s: float) -> dict[str, Any] | None:
    """Return the ratio of times with its interval, None if runs of both missed the target."""
    if None in times and None in base:
        return None
    found = ratio(times, base, horizon_s)
    bound = ">" if None in times else "<" if None in base else ""
    return {"mean": found.mean, "low": found.low, "high": found.high, "bound": bound}


def _of_scores(scores: Mapping[str, Sequence[Any]], baseline: str, seeds: int) -> dict[str, Any]:
    best = max(scores, key=lambda label: statistics.fmean(scores[label]))
    known: dict[str, Any] = {
        "measure": "final_accuracy",
        "first": best,
        "method": METHOD_OF_SCORES,
        "censored_s": None,
        "seeds_for_margin": None,
    }
    if seeds == 1:
        return {**known, "strategies": {}, "least_shown": None}
    others = [label for label in scores if label != best]
    differences = {label: _differences(scores[label], scores[best]) for label in others}
    adjusted = dict(zip(others, holm([_p_value_of_lower(differences[label]) for label in others]), strict=True))
    least, _ = _power([statistics.stdev(values) for values in differences.values()], seeds, len(others), math.inf)

    def relation(label: str) -> str:
        if label == best:
            return Relation.FIRST
        return "lower" if adjusted[label] < SIGNIFICANCE else Relation.UNKNOWN

    return {
        **known,
        "strategies": {
            label: {
                "relation": relation(label),
                "to_first": asdict(Effect.of(differences[label])) if label != best else None,
                "to_baseline": asdict(Effect.of(_differences(group, scores[baseline]))) if label != baseline else None,
            }
            for label, group in scores.items()
        },
        "least_shown": least,
    }


def _differences(scores: Sequence[Any], base: Sequence[Any]) -> list[float]:
    return [a - b for a, b in zip(scores, base, strict=True)]


def _p_value_of_lower(differences: Sequence[float]) -> float:
    """Return the p-value of Student's one-sided paired test that the mean difference is below 0."""
    mean, spread = statistics.fmean(differences), statistics.stdev(differences)
    if not spread:
        return 0.0 if mean < 0 else 1.0
    return float(scipy.stats.t.cdf(mean * math.sqrt(len(differences)) / spread, len(differences) - 1))


def _power(spreads: Sequence[float], seeds: int, comparisons: int, margin: float) -> tuple[float | None, int | None]:
    """Return the smallest mean difference that would be shown, and with how many seeds `margin` would be.

    spreads: standard deviations over seeds of paired differences, of which the root mean square counts. A difference is
    shown if Student's one-sided test rejects its absence at 5 % divided by the number of comparisons.
    """
    if not spreads:
        return None, None
    spread = math.sqrt(statistics.fmean(value**2 for value in spreads))

    def least(n: int) -> float:
        return float(scipy.stats.t.isf(SIGNIFICANCE / comparisons, n - 1)) * spread / math.sqrt(n)

    enough = next((n for n in range(2, _MOST_SEEDS + 1) if least(n) <= margin), None)
    return least(seeds), None if math.isinf(margin) else enough
