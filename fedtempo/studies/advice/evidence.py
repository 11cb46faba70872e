"""What a recommendation rests on: how strategies did in short trainings, their schedules, and what they cost."""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Mapping
from dataclasses import dataclass

from fedtempo.errors import ConfigError
from fedtempo.fleet.availability import Always, Dropout
from fedtempo.record.metric import CLASSES, Measure
from fedtempo.runs.config import Config
from fedtempo.studies.tuning.trials import Changes

ESTIMATES_OFF = 0.5
"""Largest relative error of the server's estimates where it is asked what they matter."""
LOST_VISITS = 0.1
"""Share of visits that fail, beyond those of the fleet, where it is asked what they matter."""


@dataclass(frozen=True)
class Effort:
    """lr_points: learning rates tried of each strategy; seeds: of the trainings that decide; finalists: trained again
    under each scenario."""

    lr_points: int
    seeds: int
    finalists: int

    def trainings(self, strategies: int) -> int:
        """How many short trainings that is for so many strategies."""
        tuning = strategies * self.lr_points if self.lr_points > 1 else 0
        return tuning + self.seeds * (strategies + len(SCENARIOS) * min(self.finalists, strategies))


@dataclass(frozen=True)
class Outcome:
    """What trainings of one strategy came to, over seeds. times_s: to the target, None where it was not reached.
    visits: mean of visits done. diverged: how many of the trainings did."""

    times_s: tuple[float | None, ...]
    accuracies: tuple[float, ...]
    visits: float
    diverged: int = 0

    @property
    def time_s(self) -> float | None:
        """Median time to the target; None where half of the seeds or more did not reach it."""
        median = self._median
        return median if math.isfinite(median) else None

    @property
    def accuracy(self) -> float:
        """Mean over seeds of the best accuracy, or of what else was measured."""
        return statistics.fmean(self.accuracies)

    @property
    def order(self) -> tuple[float, ...]:
        """Smaller is better: no training that diverged, then the median time to the target, then the accuracy."""
        return float(self.diverged > 0), self._median, -self.accuracy

    @property
    def _median(self) -> float:
        return statistics.median(math.inf if time is None else time for time in self.times_s)


@dataclass(frozen=True)
class Cost:
    """Means over seeds, to the target or else to the end of the short training. energy_wh: None without watts."""

    moved_bytes: float
    client_hours: float
    energy_wh: float | None


@dataclass(frozen=True)
class Evidence:
    """What is known of one strategy.

    changes: its best settings. edge: whether its learning rate is the smallest or largest that was tried. busy_ratio,
    idlest, staleness: of its schedule to the horizon, or else of the trainings (None without a commit). visits: of its
    schedule as configured and under each scenario; empty where it has none without training. trained: the short
    trainings; under: those of each scenario, for finalists.
    """

    label: str
    changes: Changes
    edge: bool
    busy_ratio: float
    idlest: float
    staleness: float | None
    visits: Mapping[str, int]
    trained: Outcome
    cost: Cost
    under: Mapping[str, Outcome]

    def visits_change(self, scenario: str) -> float | None:
        """Relative change of the schedule's visits under a scenario; None where it has none."""
        before, after = self.visits.get(AS_CONFIGURED), self.visits.get(scenario)
        return after / before - 1 if before and after is not None else None


AS_CONFIGURED = "as configured"
ESTIMATES = "estimates"
LOSSES = "drop-outs"
SCENARIOS = {
    ESTIMATES: f"with estimates that are off by up to {ESTIMATES_OFF:.0%}",
    LOSSES: f"with {LOST_VISITS:.0%} of the visits lost",
}
"""What else is tried, in words."""
EFFORTS = (
    Effort(1, 1, 0),
    Effort(3, 1, 0),
    Effort(3, 1, 3),
    Effort(3, 2, 3),
    Effort(5, 2, 3),
    Effort(5, 3, 3),
)
"""What a budget buys, in this order."""


def scenario_changes(config: Config, scenario: str) -> Changes:
    """What a scenario changes of a configuration: estimates that are wrong for good, or visits that are lost.

    Where clients come and go already, that stays, and updates are lost on top, as if they had been damaged.
    """
    if scenario == ESTIMATES:
        return {"fleet.estimates": {"kind": "noisy", "error": ESTIMATES_OFF, "per": "client"}}
    fleet = config.fleet
    if isinstance(fleet.availability, Always | Dropout):
        failing = fleet.availability.probability if isinstance(fleet.availability, Dropout) else 0.0
        lost = failing + LOST_VISITS * (1 - failing)
        return {"fleet.availability": {"kind": "dropout", "probability": lost}}
    return {"fleet.faults.nan": min(fleet.faults.nan + LOST_VISITS, 1.0 - fleet.faults.total + fleet.faults.nan)}


def parse_budget(text: str) -> int | float:
    """ "80" is so many trainings, "5m", "90s" or "1h" a time, in seconds as a float. Raises ConfigError otherwise."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smh]?)", text.strip())
    if found is None or (not found[2] and "." in found[1]) or not float(found[1]):
        raise ConfigError(f"--budget {text}: write a number of short trainings, like 80, or a time, like 90s, 5m or 1h")
    if not found[2]:
        return int(found[1])
    return float(found[1]) * {"s": 1, "m": 60, "h": 3600}[found[2]]


@dataclass(frozen=True)
class Setting:
    """How it was found out. short_s: seconds that a short training lasts; trainings: how many there were, at most;
    measure: what the target and all accuracies are of."""

    target_accuracy: float | None
    horizon_s: float
    short_s: float
    seeds: tuple[int, ...]
    tuning_seed: int
    effort: Effort
    trainings: int
    measure: Measure = CLASSES
