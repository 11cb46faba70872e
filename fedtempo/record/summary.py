"""`summary.json`: what a script wants to know of one run."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedtempo.errors import RunError
from fedtempo.record.measures import (
    busy_ratios,
    elapsed_s,
    first_time_at_target,
    group_spans,
    groups_alive,
    participation,
    time_to_target,
)
from fedtempo.record.run import Records
from fedtempo.record.strict_json import plain

# "finished": the strategy had no more to do, in a run without a horizon.
ENDINGS = ("horizon", "target", "budget", "finished", "interrupted")


def summarise(records: Records) -> dict[str, Any]:
    """One run in a few numbers, ready for `write_json`. Times are seconds of the run's clock.

    "visits", "examples_trained" and "participation" count visits that were done, "visits_lost" those that were not, by
    what became of them (the client left or failed, was given up, sent no update); "busy_ratio" is over the time that
    the run lasted; "active_groups" has the mean over that time and the peak; "privacy" is what a run with
    [server.privacy] has spent: epsilon at delta for the client that was part of the most averages. A value that the run
    does not have (accuracy without training, a target not reached, the staleness of no commit) is None. A run without
    the fact "ended" counts as interrupted. Raises RunError where a fact that a run begins with is missing.
    """
    facts, visits = records.facts, records.visits
    for name in ("strategy", "seed", "n_clients"):
        if name not in facts:
            raise RunError(f"the records lack the fact {name!r}")
    ended = facts.get("ended", "interrupted")
    if ended not in ENDINGS:
        raise RunError(f"the fact 'ended' is {ended!r}; it can be one of {', '.join(ENDINGS)}")
    times, accuracies = records.evaluations["time"], records.evaluations["accuracy"]
    measured = accuracies[~np.isnan(accuracies)]
    target = facts.get("target_accuracy")
    done = visits["outcome"] == "done"
    ratios, visits_done, staleness = busy_ratios(records), participation(records), records.commits["staleness"]
    summary = {
        "strategy": facts["strategy"],
        "seed": facts["seed"],
        "horizon_s": facts.get("horizon_s"),
        "ended": ended,
        "final_accuracy": measured[-1] if measured.size else None,
        "best_accuracy": measured.max() if measured.size else None,
        "target_accuracy": target,
        "time_to_target_s": None if target is None else time_to_target(times, accuracies, target),
        "first_time_at_target_s": None if target is None else first_time_at_target(times, accuracies, target),
        "commits": records.commits["version"].size,
        "visits": done.sum(),
        "visits_lost": {name: (visits["outcome"] == name).sum() for name in ("unavailable", "late", "refused")},
        "examples_trained": visits["examples"][done].sum(),
        "busy_ratio": {"mean": ratios.mean(), "min": ratios.min(), "max": ratios.max(), "per_client": ratios},
        "active_groups": _active_groups(records),
        "staleness": {
            "mean": staleness.mean() if staleness.size else None,
            "max": staleness.max() if staleness.size else None,
        },
        "bytes": facts.get("bytes", {"down": 0, "up": 0, "relay": 0}),
        "participation": {"min": visits_done.min(), "max": visits_done.max()},
        "privacy": facts.get("privacy"),
        "data": facts.get("data"),
        "model_sha256": facts.get("model_sha256"),
        "events_sha256": facts.get("events_sha256"),
        "wall_s": facts.get("wall_s"),
        "version": facts.get("version"),
    }
    return dict(plain(summary))


def _active_groups(records: Records) -> dict[str, Any]:
    end = elapsed_s(records)
    starts, ends = group_spans(records)
    _, alive = groups_alive(records)
    return {"mean": (ends - starts).sum() / end if end > 0 else 0.0, "max": alive.max()}
