"""Made-up studies: competitors with given accuracies or times, one run per seed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import cast

import numpy as np
import numpy.typing as npt

from fedtempo.studies.tuning.study import Study
from fedtempo.studies.tuning.trials import FinishedRun, Trial


def ending_study(ends: Mapping[str, Sequence[float]]) -> Study:
    """Runs that have these accuracies (%) throughout, by competitor."""
    return _study({label: [([0.0, 100.0], [value / 100] * 2) for value in values] for label, values in ends.items()})


def racing_study(times: Mapping[str, Sequence[float]], *, end_s: float = 1000.0) -> Study:
    """Runs that rise from 0 to an accuracy of 1 at these times (whole seconds), infinite for never, by competitor."""
    seconds = np.arange(end_s + 1)
    runs = {label: [(seconds, (seconds >= time).astype(float)) for time in values] for label, values in times.items()}
    return _study(runs)


def _study(curves: Mapping[str, Sequence[tuple[npt.ArrayLike, npt.ArrayLike]]]) -> Study:
    runs = {
        label: [
            SimpleNamespace(
                summary={"final_accuracy": float(np.asarray(accuracies)[-1])},
                records=SimpleNamespace(
                    evaluations={"time": np.asarray(times), "accuracy": np.asarray(accuracies)},
                    facts={"elapsed_s": float(np.asarray(times)[-1])},
                ),
            )
            for times, accuracies in of_label
        ]
        for label, of_label in curves.items()
    }
    trials = {label: [Trial(label, {"training.lr": 0.1}, (None,), (0.5,))] for label in curves}
    return Study(trials, cast(Mapping[str, Sequence[FinishedRun]], runs))
