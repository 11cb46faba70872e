"""Figures of trained competitors: one panel per setting, all tuned on the same grid with the same budget."""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fedtempo.record import Records, time_to_target, write_json
from fedtempo.report import figures
from fedtempo.runs.config import Config
from fedtempo.studies.papers.cache import late_accuracy
from fedtempo.studies.papers.reproduction import Budget, Request, Row, claim, save_picture
from fedtempo.studies.tuning.study import Study, tuned_study

Panels = Mapping[str, Study]


def study_panels(
    request: Request, stem: str, bases: Mapping[str, Config], labels: Sequence[str], budget: Budget
) -> Panels:
    """Tune and run the same competitors in several settings; return the studies by panel name.

    bases: configurations by panel name. Writes all numbers to `<stem>.json` and each configuration to its own file.
    """
    panels = {
        name: tuned_study(
            base,
            labels,
            {"training.lr": budget.lr},
            tuning_seeds=budget.tuning_seeds,
            seeds=budget.seeds,
            tuning_horizon=budget.tuning_horizon,
        )
        for name, base in bases.items()
    }
    for name, study in panels.items():
        save_comparison(request, stem if len(panels) == 1 else f"{stem}-{slug(name)}", bases[name], study)
    write_json(request.folder / f"{stem}.json", {name: study.facts() for name, study in panels.items()})
    return panels


def save_comparison(request: Request, stem: str, base: Config, study: Study) -> None:
    """Write the configuration of a study with its competitors and tuned settings, for `fedtempo compare`."""
    request.save_comparison(
        stem, base, {label: study.chosen(label) if label in study.trials else {} for label in study.runs}
    )


def slug(name: str) -> str:
    """Return a name as part of a file name: "dir-0.2" for "Dir(0.2)"."""
    return re.sub(r"[^\w.]+", "-", name.lower()).strip("-")


def draw_curves(request: Request, stem: str, panels: Panels, **options: Any) -> None:
    """Draw accuracy (or the given `column`) of all panels; options as `fedtempo.report.figures.panels`."""
    save_picture(
        figures.panels, request.folder, stem, {name: study.records for name, study in panels.items()}, **options
    )


def first_to_reach(
    panels: Panels, level: Mapping[str, float], ours: str, others: Sequence[str], paper: str, axis: str = "time"
) -> list[Row]:
    """Return for each panel whether `ours` reaches the accuracy `level[panel]` before the others, by median over seeds.

    axis: "time" or "rounds".
    """
    rows = []
    for name, study in panels.items():
        medians = {label: median_to(study.records[label], level[name], axis) for label in (ours, *others)}
        measured = ", ".join(f"{label} {in_words(value, axis)}" for label, value in medians.items())
        holds = medians[ours] < min(medians[label] for label in others)
        rows.append(claim(f"{name}: {axis} to {level[name]:.0%}", paper, measured, holds, learning_rates(study)))
    return rows


def median_to(runs: Sequence[Records], level: float, axis: str = "time") -> float:
    """Return the median over seeds of the time (s), or the rounds, to an accuracy; infinite if most seeds miss it."""
    return statistics.median(reached(run, level, axis) for run in runs)


def reached(run: Records, level: float, axis: str = "time") -> float:
    """Return the time (s), or the rounds, that a run takes to an accuracy; infinite if it misses it."""
    time = time_to_target(run.evaluations["time"], run.evaluations["accuracy"], level)
    if time is None:
        return float("inf")
    return time if axis == "time" else float(np.searchsorted(run.commits["time"], time, side="right"))


def target(config: Config) -> float:
    """Return the target accuracy of a configuration that has one."""
    assert config.run.target_accuracy is not None
    return config.run.target_accuracy


def or_infinite(ratio: float) -> float:
    """Return a ratio of times, infinite if neither is finite."""
    return math.inf if math.isnan(ratio) else ratio


def round_times(runs: Sequence[Records]) -> list[float]:
    """Return each run's mean time (s) from one commit to the next."""
    return [float(np.diff(run.commits["time"], prepend=0.0).mean()) for run in runs]


def same_round_times(runs: Mapping[str, Sequence[Records]], paper: str) -> Row:
    """Return whether rounds take the same time under all names."""
    means = {name: statistics.fmean(round_times(by_seed)) for name, by_seed in runs.items()}
    words = ", ".join(f"{name} {mean:.2f} s" for name, mean in means.items())
    return claim("time of a round", paper, words, max(means.values()) - min(means.values()) < 1e-6)


def in_words(value: float | None, axis: str = "time") -> str:
    """Return a time, or a number of rounds, as text for a table; "never" if None or infinite."""
    if value is None or value == float("inf"):
        return "never"
    return f"{value:.0f} s" if axis == "time" else f"{value:.0f}"


def final_accuracies(study: Study, label: str) -> list[float]:
    """Return the final accuracy of each seed; 0 for a run whose last evaluation is not finite."""
    return [run.summary["final_accuracy"] or 0.0 for run in study.runs[label]]


def late_accuracies(study: Study, label: str, share: float = 0.1) -> list[float]:
    """Return each seed's mean accuracy over the last `share` of the run: single evaluations jump."""
    return [late_accuracy(run, share) for run in study.records[label]]


def points_over(study: Study, ours: str, other: str, share: float = 0.1) -> list[float]:
    """Return each seed's difference between two competitors' late accuracies, in percentage points."""
    pairs = zip(late_accuracies(study, ours, share), late_accuracies(study, other, share), strict=True)
    return [100 * (a - b) for a, b in pairs]


def percentages(accuracies: Sequence[float]) -> str:
    """Return accuracies over seeds as a percentage, mean ± standard deviation."""
    mean = f"{100 * statistics.fmean(accuracies):.1f}"
    return f"{mean} ± {100 * statistics.stdev(accuracies):.1f} %" if len(accuracies) > 1 else f"{mean} %"


def learning_rates(study: Study, *labels: str) -> str:
    """Return the tuned learning rates of these competitors (default: of all) as text; empty if none were tuned."""
    if not study.trials:
        return ""
    return "lr " + ", ".join(f"{label} {study.chosen(label)['training.lr']:g}" for label in labels or study.runs)
