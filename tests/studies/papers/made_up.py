"""Made-up runs: accuracy is 0 before a given time and 1 after it, and commits come at a steady pace."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from fedtempo.record import Records
from fedtempo.studies.tuning.study import Study
from fedtempo.studies.tuning.trials import FinishedRun, Trial


def a_run(
    reached_s: float = math.inf,
    *,
    round_s: float = 5.0,
    horizon_s: float = 1500.0,
    every_s: float = 5.0,
    loss: float = 1.0,
    final: float | None = None,
) -> FinishedRun:
    """A run that reaches every accuracy at `reached_s`, or never. final: its accuracy at the end."""
    evaluated = np.arange(0.0, horizon_s + every_s, every_s)
    accuracy = (evaluated >= reached_s).astype(float)
    records = Records(
        visits={},
        commits={"time": np.arange(round_s, horizon_s + 1e-9, round_s)},
        evaluations={"time": evaluated, "accuracy": accuracy, "loss": np.full(evaluated.size, loss)},
        notes=(),
        facts={"elapsed_s": horizon_s},
    )
    return FinishedRun({"final_accuracy": accuracy[-1] if final is None else final}, records)


def a_study(runs: Mapping[str, Sequence[FinishedRun]], *, tuned: bool = False) -> Study:
    """A study of these runs; tuned: with a learning rate of 0.1 for all."""
    trials = {label: [Trial(label, {"training.lr": 0.1}, (None,), (0.5,))] for label in runs} if tuned else {}
    return Study(trials, runs)


def reaching(*times_s: float, round_s: float = 5.0, horizon_s: float = 1500.0) -> list[FinishedRun]:
    """One run per time to the target."""
    return [a_run(time_s, round_s=round_s, horizon_s=horizon_s) for time_s in times_s]
