"""Figures of trained competitors: one panel a setting, everyone tuned on the same grid with the same budget."""

from __future__ import annotations

import re
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fedtempo.record import Records, time_to_target, write_json
from fedtempo.report import figures
from fedtempo.runs.config import Config, parse
from fedtempo.studies.papers.cache import late_accuracy
from fedtempo.studies.papers.reproduction import Asked, Budget, Row, claim, drawn
from fedtempo.studies.tuning.study import Study, tuned_study

Panels = Mapping[str, Study]


def study_panels(asked: Asked, stem: str, bases: Mapping[str, Config], labels: Sequence[str], budget: Budget) -> Panels:
    """The same competitors in several settings, by the panel's name; their numbers go into `<stem>.json`."""
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
        leave_comparison(asked, stem if len(panels) == 1 else f"{stem}-{slug(name)}", bases[name], study)
    write_json(asked.folder / f"{stem}.json", {name: study.facts() for name, study in panels.items()})
    return panels


def leave_comparison(asked: Asked, stem: str, base: Config, study: Study) -> None:
    """Leave the configuration of a study with its competitors and what the tuning chose: `fedtempo compare` runs it."""
    kept = parse({**base.given, "compare": {label: base.variants.get(label, {}) for label in study.runs}})
    chosen = {f"compare.{label}.{key}": value for label in study.trials for key, value in study.chosen(label).items()}
    asked.leave(kept.with_changes(chosen), stem)


def slug(name: str) -> str:
    """A name as part of a file's name: "Dir(0.2)" is "dir-0.2"."""
    return re.sub(r"[^\w.]+", "-", name.lower()).strip("-")


def draw_curves(asked: Asked, stem: str, panels: Panels, **named: Any) -> None:
    """Accuracy (or what `column` says) of all panels; see `fedtempo.report.figures.panels`."""
    drawn(figures.panels, asked.folder, stem, {name: study.records for name, study in panels.items()}, **named)


def first_of(
    panels: Panels, level: Mapping[str, float], ours: str, others: Sequence[str], paper: str, axis: str = "time"
) -> list[Row]:
    """In each panel: does `ours` reach the accuracy `level[panel]` before the others, by medians over seeds?"""
    rows = []
    for name, study in panels.items():
        reached = {label: median_to(study.records[label], level[name], axis) for label in (ours, *others)}
        measured = ", ".join(f"{label} {said(value, axis)}" for label, value in reached.items())
        holds = reached[ours] < min(reached[label] for label in others)
        rows.append(claim(f"{name}: {axis} to {level[name]:.0%}", paper, measured, holds, lrs(study)))
    return rows


def median_to(runs: Sequence[Records], level: float, axis: str = "time") -> float:
    """Median over seeds of the time (s), or the rounds, to an accuracy; infinite where most seeds do not get there."""
    return statistics.median(reached(run, level, axis) for run in runs)


def reached(run: Records, level: float, axis: str = "time") -> float:
    """Time (s), or rounds, to an accuracy; infinite for a run that does not get there."""
    time = time_to_target(run.evaluations["time"], run.evaluations["accuracy"], level)
    if time is None:
        return float("inf")
    return time if axis == "time" else float(np.searchsorted(run.commits["time"], time, side="right"))


def said(value: float, axis: str = "time") -> str:
    """A time or a number of rounds for a table."""
    if value == float("inf"):
        return "never"
    return f"{value:.0f} s" if axis == "time" else f"{value:.0f}"


def final_accuracies(study: Study, label: str) -> list[float]:
    """Final accuracy of each seed; 0 for a run whose last evaluation is not finite."""
    return [run.summary["final_accuracy"] or 0.0 for run in study.runs[label]]


def late_accuracies(study: Study, label: str, share: float = 0.1) -> list[float]:
    """Accuracy of each seed, its mean over the last share of the run: single evaluations jump."""
    return [late_accuracy(run, share) for run in study.records[label]]


def points(accuracies: Sequence[float]) -> str:
    """Accuracies over seeds as percentages: mean and standard deviation."""
    mean = f"{100 * statistics.fmean(accuracies):.1f}"
    return f"{mean} ± {100 * statistics.stdev(accuracies):.1f} %" if len(accuracies) > 1 else f"{mean} %"


def lrs(study: Study) -> str:
    """The learning rates that the tuning chose; nothing where none were tuned."""
    if not study.trials:
        return ""
    return "lr " + ", ".join(f"{label} {study.chosen(label)['training.lr']:g}" for label in study.runs)
