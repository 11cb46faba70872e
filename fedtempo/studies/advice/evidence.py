"""The evidence for a recommendation: results of short trainings, schedules, and costs of each strategy."""

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
"""Largest relative error of the server's estimates in the scenario "estimates"."""
LOST_VISITS = 0.1
"""Share of visits that fail in the scenario "drop-outs", in addition to the fleet's own."""


@dataclass(frozen=True)
class Effort:
    """How much to train. lr_points: learning rates per strategy. seeds: number of seeds of the deciding trainings.

    finalists: number of strategies that are trained again under each scenario.
    """

    lr_points: int
    seeds: int
    finalists: int

    def trainings(self, strategies: int) -> int:
        """Return the number of short trainings for this many strategies."""
        tuning = strategies * self.lr_points if self.lr_points > 1 else 0
        return tuning + self.seeds * (strategies + len(SCENARIOS) * min(self.finalists, strategies))


@dataclass(frozen=True)
class Outcome:
    """Results of one strategy's trainings over seeds.

    times_s: seconds to the target, None if not reached. accuracies: the best of each training. visits: mean number of
    completed visits. diverged: number of trainings that diverged.
    """

    times_s: tuple[float | None, ...]
    accuracies: tuple[float, ...]
    visits: float
    diverged: int = 0

    @property
    def time_s(self) -> float | None:
        """Median time (s) to the target; None if half of the seeds or more did not reach it."""
        median = self._median
        return median if math.isfinite(median) else None

    @property
    def accuracy(self) -> float:
        """Mean over seeds of the best accuracy, or of the measure used instead."""
        return statistics.fmean(self.accuracies)

    @property
    def order(self) -> tuple[float, ...]:
        """Sort key, smaller is better: no diverged training, then median time to the target, then accuracy."""
        return float(self.diverged > 0), self._median, -self.accuracy

    @property
    def _median(self) -> float:
        return statistics.median(math.inf if time is None else time for time in self.times_s)


@dataclass(frozen=True)
class Cost:
    """Mean costs over seeds until the target, or else until the end of the short training.

    energy_wh: None if the fleet has no power figures.
    """

    moved_bytes: float
    client_hours: float
    energy_wh: float | None


@dataclass(frozen=True)
class Evidence:
    """What is known about one strategy.

    changes: its best settings. edge: whether its learning rate is the smallest or largest that was tried. busy_ratio,
    idlest, staleness: mean and lowest busy ratio of clients and mean staleness (None without a commit), of its schedule
    to the horizon, or else of the trainings. visits: of its schedule as configured and under each scenario; empty if
    the schedule depends on training. trained: results of the short trainings. under: results by scenario, of finalists.
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
        """Return the relative change of the schedule's visits under a scenario; None if it has no schedule."""
        before, after = self.visits.get(AS_CONFIGURED), self.visits.get(scenario)
        return after / before - 1 if before and after is not None else None


AS_CONFIGURED = "as configured"
ESTIMATES = "estimates"
LOSSES = "drop-outs"
SCENARIOS = {
    ESTIMATES: f"with estimates that are off by up to {ESTIMATES_OFF:.0%}",
    LOSSES: f"with {LOST_VISITS:.0%} of the visits lost",
}
"""Scenarios with descriptions."""
EFFORTS = (
    Effort(1, 1, 0),
    Effort(3, 1, 0),
    Effort(3, 1, 3),
    Effort(3, 2, 3),
    Effort(5, 2, 3),
    Effort(5, 3, 3),
)
"""Efforts from least to most; a budget buys the last one that it covers."""


def scenario_changes(config: Config, scenario: str) -> Changes:
    """Return the changes that a scenario makes to a configuration: permanently wrong estimates, or lost visits.

    If the fleet's clients already come and go, that stays, and updates are lost in addition, as if damaged.
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
    """Return the number of trainings (int) for text like "80", or seconds (float) for "90s", "5m" or "1h".

    Raises ConfigError for anything else.
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smh]?)", text.strip())
    if match is None or (not match[2] and "." in match[1]) or not float(match[1]):
        raise ConfigError(f"budget = {text}: write a number of short trainings, like 80, or a time, like 90s, 5m or 1h")
    if not match[2]:
        return int(match[1])
    return float(match[1]) * {"s": 1, "m": 60, "h": 3600}[match[2]]


@dataclass(frozen=True)
class Setting:
    """How the evidence was gathered. short_s: length (s) of a short training. trainings: their number, at most.

    measure: what the target and all accuracies measure.
    """

    target_accuracy: float | None
    horizon_s: float
    short_s: float
    seeds: tuple[int, ...]
    tuning_seed: int
    effort: Effort
    trainings: int
    measure: Measure = CLASSES
