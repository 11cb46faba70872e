"""Compare a deployment with the simulation that predicted it, by the same measures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fedtempo.errors import ConfigError
from fedtempo.record.run import Records
from fedtempo.record.summary import summarise


@dataclass(frozen=True)
class Predicted:
    """One measure of a simulation and of the deployment that it predicts; None if a run does not have it."""

    name: str
    predicted: float | None
    real: float | None

    @property
    def error(self) -> float | None:
        """Relative error: (real - predicted) / predicted."""
        if self.predicted is None or self.real is None or not self.predicted:
            return None
        return self.real / self.predicted - 1


def prediction(simulated: Records, deployed: Records) -> list[Predicted]:
    """Return time between commits, duration of visits, busy ratios and time to target of both runs.

    Raises ConfigError if the runs differ in strategy, number of clients or target.
    """
    for name in ("strategy", "n_clients", "target_accuracy", "target"):
        a, b = simulated.facts.get(name), deployed.facts.get(name)
        if a != b:
            raise ConfigError(f"{name} is {a!r} in the simulation but {b!r} in the deployment; both must agree")
    both = [_measures(records) for records in (simulated, deployed)]
    return [Predicted(name, both[0][name], both[1][name]) for name in both[0]]


def _measures(records: Records) -> dict[str, float | None]:
    summary: dict[str, Any] = summarise(records)
    visits, between = records.visits, np.diff(records.commits["time"], prepend=0.0)
    done = visits["outcome"] == "done"
    took = visits["finished"][done] - visits["started"][done]
    return {
        "time between commits, mean, s": float(between.mean()) if between.size else None,
        "time of a visit, mean, s": float(took.mean()) if took.size else None,
        "busy ratio, mean": float(summary["busy_ratio"]["mean"]),
        "busy ratio, least busy client": float(summary["busy_ratio"]["min"]),
        "busy ratio, busiest client": float(summary["busy_ratio"]["max"]),
        "time to target, s": summary["time_to_target_s"],
    }
