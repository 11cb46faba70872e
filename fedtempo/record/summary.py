"""`summary.json`: the results of one run, for scripts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from fedtempo.errors import RunError
from fedtempo.record.client_measures import MODELS, measures_of
from fedtempo.record.health import Health
from fedtempo.record.measures import elapsed_s, first_time_at_target, time_to_target
from fedtempo.record.metric import last_by_class, measure_of, metric_series, metrics_of, target_of
from fedtempo.record.run import Records, Table
from fedtempo.record.running_totals import Totals, totals_of
from fedtempo.record.schema import OUTCOMES
from fedtempo.record.strict_json import plain

# "budget": of commits, or the strategy returned. "bytes" to "epsilon": of run.budget. "finished": in earlier versions.
EARLY = ("patience", "bytes", "client_hours", "watt_hours", "epsilon")
ENDINGS = ("horizon", "target", "budget", *EARLY, "finished", "interrupted")

NEEDED_FACTS = ("strategy", "seed", "n_clients", "elapsed_s")
COPIED_FACTS = ("privacy", "data", "model_sha256", "events_sha256", "wall_s", "version")
_OTHER_FACTS = ("horizon_s", "ended", "end_reason", "target_accuracy", "target", "bytes", "health")
_FURTHER_FACTS = ("metrics", "client_measures", "class_names")
SUMMARY_FACTS = frozenset({*NEEDED_FACTS, *COPIED_FACTS, *_OTHER_FACTS, *_FURTHER_FACTS})
"""The facts that a summary uses, besides the tables."""


def summarise(records: Records) -> dict[str, Any]:
    """Return one run in a few numbers, ready for `write_json`. Times are seconds of the run's clock.

    "ended" is one of `ENDINGS`, "end_reason" says it in words, and "elapsed_s" is when. "final_accuracy" and
    "best_accuracy" hold the metric that "measure" names: "accuracy", "token_accuracy", "label_accuracy",
    "pixel_accuracy", or "r2" (the explained share of the variance). Only numbers have a "final_mae". "final" values are
    those of the last evaluation, None if its loss is not finite; "best_accuracy" is over the evaluations with a finite
    loss.
    "diverged" says why the run counts as diverged, or is None: "evaluation" (the last loss is not finite), "model" (the
    final model is not finite), "updates" (the last ten or more updates since the last commit were all rejected as not
    finite), "loss" (the last loss is more than 20 times that of the initial model). "not_finite" counts evaluations and
    rejected updates that were not finite; "first_s" is the time of the first.
    "still_since_s" is the time since which all evaluated versions have exactly the same loss, over ten commits or more;
    None if the model changes. "warnings" holds the warnings of the run, one line for each kind
    (`fedtempo.record.health`).
    "visits", "examples_trained" and "participation" count completed visits, "visits_lost" the others by outcome (client
    left or failed, deadline passed, update rejected); "busy_ratio" is over the duration of the run; "active_groups" has
    the mean over that time and the peak; "privacy" is the loss of a run with [server.privacy]: epsilon at delta for
    the client that took part in the most averages. Values that the run does not have (accuracy without training, a
    target not reached, staleness without commits) are None. A run without the fact "ended" counts as interrupted.

    Only runs that were asked for them have further measures. "metrics": for each of `run.metrics` its value at the last
    evaluation ("final") and the best one (None if it is not known which values are better). "by_class": the final
    accuracy of each class. "clients": for the global model ("clients") and clients' own models ("own") the statistics
    (`fedtempo.record.fairness`) of the last evaluation on the clients' own test sets. "measures", "client_measures":
    name of each, which values are better, whether they are shown as percentages. "target": if it is of one of these or
    of the loss; the times to target are then about it, and "target_accuracy" is None.

    Raises RunError if a fact that every run records is missing, or if it was recorded without rows and has not reached
    its end.
    """
    end_s = elapsed_s(records)
    facts = {**records.facts, "elapsed_s": end_s}
    return summary_of(facts, totals_of(records, end_s), records.evaluations, records.further["metrics"])


def summary_of(facts: Mapping[str, Any], totals: Totals, evaluations: Table, metrics: Table) -> dict[str, Any]:
    """Return the summary (see `summarise`) of a run's totals and at least the facts `SUMMARY_FACTS`.

    metrics: the table of further measures.
    """
    for name in NEEDED_FACTS:
        if facts.get(name) is None:
            raise RunError(f"the records lack the fact {name!r}")
    ended = facts.get("ended") or "interrupted"
    if ended not in ENDINGS:
        raise RunError(f"fact ended = {ended!r}: must be one of {', '.join(ENDINGS)}")
    losses, errors = evaluations["loss"], evaluations["mae"]
    accuracies = np.where(np.isfinite(losses), evaluations["accuracy"], np.nan)
    measured = accuracies[~np.isnan(accuracies)]
    end_s, missing = facts["elapsed_s"], facts["n_clients"] - totals.busy_s.size
    ratios = np.pad(totals.busy_s / end_s if end_s > 0 else np.zeros(totals.busy_s.size), (0, missing))
    visits_done = np.pad(totals.visits_done, (0, missing))
    summary = {
        "strategy": facts["strategy"],
        "seed": facts["seed"],
        "horizon_s": facts.get("horizon_s"),
        "ended": ended,
        "elapsed_s": end_s,
        "end_reason": facts.get("end_reason") or ended,
        **(facts.get("health") or Health.of(evaluations).as_fact()),
        "final_accuracy": accuracies[-1] if accuracies.size else None,
        "best_accuracy": measured.max() if measured.size else None,
        "final_loss": losses[-1] if losses.size else None,
        "final_mae": errors[-1] if errors.size else None,
        "measure": measure_of(facts.get("data")).key,
        "target_accuracy": facts.get("target_accuracy"),
        **_times_to_target(facts, evaluations, metrics),
        **_further(facts, metrics),
        "commits": totals.commits,
        "visits": visits_done.sum(),
        "visits_lost": {name: totals.outcomes[OUTCOMES[name]] for name in ("unavailable", "late", "refused")},
        "examples_trained": totals.examples_trained,
        "busy_ratio": {"mean": ratios.mean(), "min": ratios.min(), "max": ratios.max(), "per_client": ratios},
        "active_groups": {
            "mean": totals.alive_s / end_s if end_s > 0 else 0.0,
            "max": totals.most_alive,
        },
        "staleness": {
            "mean": totals.staleness_sum / totals.commits if totals.commits else None,
            "max": totals.staleness_max,
        },
        "bytes": facts.get("bytes") or {"down": 0, "up": 0, "relay": 0},
        "participation": {"min": visits_done.min(), "max": visits_done.max()},
    } | {name: facts.get(name) for name in COPIED_FACTS}
    return dict(plain(summary))


def _times_to_target(facts: Mapping[str, Any], evaluations: Table, metrics: Table) -> dict[str, Any]:
    if (target := target_of(facts)) is None:
        return {"time_to_target_s": None, "first_time_at_target_s": None}
    times, values = target.values(evaluations, metrics)
    better = target.measure.better
    return {
        **({} if facts.get("target") is None else {"target": facts["target"]}),
        "time_to_target_s": time_to_target(times, values, target.value, better),
        "first_time_at_target_s": first_time_at_target(times, values, target.value, better),
    }


def _further(facts: Mapping[str, Any], metrics: Table) -> dict[str, Any]:
    """Return "metrics" and "by_class" of a run that has them."""
    numbers: dict[str, Any] = {}
    class_names = facts.get("class_names") or ()
    for name, measure in metrics_of(facts).items():
        _, values = metric_series(metrics, name)
        known = values[~np.isnan(values)].tolist()
        if values.size:
            numbers[name] = {"final": values[-1], "best": measure.choose(known) if known and measure.choose else None}
    last = last_by_class(metrics)
    labels = [class_names[i] if i < len(class_names) else i for i in range(last.size)]
    by_class = dict(zip(map(str, labels), last.tolist(), strict=True))
    found = {
        "measures": facts.get("metrics"),
        "metrics": numbers,
        "by_class": by_class,
        "client_measures": facts.get("client_measures"),
        "clients": _over_clients(facts, metrics),
    }
    return {name: values for name, values in found.items() if values}


def _over_clients(facts: Mapping[str, Any], metrics: Table) -> dict[str, dict[str, float]]:
    """Return the last statistics over clients, by kind of model and by name."""
    found: dict[str, dict[str, float]] = {}
    for kind in MODELS:
        for name, measure in measures_of(facts, kind).items():
            if (values := metric_series(metrics, measure.key)[1]).size:
                found.setdefault(kind, {})[name] = float(values[-1])
    return found
