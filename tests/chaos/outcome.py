"""What became of a trial."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from tests.chaos.plan import Trial


@dataclass
class Outcome:
    """What became of a trial.

    injected: faults that really hit something, by kind. resumed: how often the run was resumed. violations: what did
    not hold, in words; none is the expectation.
    """

    trial: Trial
    injected: Counter[str] = field(default_factory=Counter)
    resumed: int = 0
    violations: list[str] = field(default_factory=list)
    seconds: float = 0.0
