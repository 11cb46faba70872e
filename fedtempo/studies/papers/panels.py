"""Figures of trained competitors: one panel per setting, all tuned on the same grid with the same budget."""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from fedtempo.record import Records, time_to_target, write_json
from fedtempo.report import figures
from fedtempo.runs.config import Config
from fedtempo.studies.papers.cache import late_accuracy
from fedtempo.studies.papers.reproduction import Budget, Request, save_picture
from fedtempo.studies.papers.verdicts import Effect, Row, Verdict, shown
from fedtempo.studies.tuning.study import Study, tuned_study

Panels = Mapping[str, Study]
_INSTANT = 1e-9
"""Stands for a time of 0, which has no logarithm: the initial model has the accuracy."""


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
    save_panels(request, stem, bases, panels)
    return panels


def save_panels(request: Request, stem: str, bases: Mapping[str, Config], panels: Panels) -> None:
    """Write all numbers of panels to `<stem>.json`, and the configuration of each to its own file."""
    for name, study in panels.items():
        save_comparison(request, stem if len(panels) == 1 else f"{stem}-{slug(name)}", bases[name], study)
    write_json(request.folder / f"{stem}.json", {name: study.facts() for name, study in panels.items()})


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
    panels: Panels,
    level: Mapping[str, float],
    ours: str,
    others: Sequence[str],
    paper: str,
    *,
    axis: str = "time",
    resolution: float = 0.0,
) -> list[Row]:
    """Return for each panel whether `ours` reaches the accuracy `level[panel]` before each of the others.

    axis: "time" or "rounds". resolution: between evaluations, in the unit of the axis.
    """
    rows = []
    for name, study in panels.items():
        runs = study.records
        medians = {label: median_to(runs[label], level[name], axis) for label in (ours, *others)}
        measured = ", ".join(f"{label} {in_words(value, axis)}" for label, value in medians.items())
        against = {other: PairedTimes.of(runs[ours], runs[other], level[name], axis) for other in others}
        effects = {other: times.effect(resolution) for other, times in against.items()}
        remark = "; ".join(filter(None, (ratio_words(effects), learning_rates(study))))
        what = f"{name}: {axis} to {level[name]:.0%}"
        rows.append(shown(what, paper, measured, weakest(effects.values()), remark))
    return rows


class PairedTimes(NamedTuple):
    """Times (s), or rounds, that two competitors take to an accuracy, one of each per seed."""

    times: Sequence[float]
    others: Sequence[float]

    @classmethod
    def of(cls, runs: Sequence[Records], others: Sequence[Records], level: float, axis: str = "time") -> PairedTimes:
        """Return the times to an accuracy.

        If a run misses it, both runs of the seed count at most as the missing run's end, which understates differences.
        """
        pairs = [_cut((run, other), level, axis) for run, other in zip(runs, others, strict=True)]
        return cls([pair[0] for pair in pairs], [pair[1] for pair in pairs])

    @property
    def ratios(self) -> list[float]:
        """`times` over `others`, one ratio per seed."""
        return [a / b for a, b in zip(self.times, self.others, strict=True)]

    def effect(self, resolution: float = 0.0) -> Effect:
        """Return the effect on the logarithm of times: positive if `times` are earlier than `others`."""
        return Effect.of_times(self.times, self.others, math.inf, resolution)


def _cut(pair: Sequence[Records], level: float, axis: str) -> list[float]:
    times = [reached(run, level, axis) for run in pair]
    last = min((end(run, axis) for run, time in zip(pair, times) if math.isinf(time)), default=math.inf)
    return [max(min(time, last), _INSTANT) for time in times]


def end(run: Records, axis: str = "time") -> float:
    """Return how long a run lasted, in seconds or rounds."""
    return float(run.facts["elapsed_s"] if axis == "time" else len(run.commits["time"]))


def weakest(effects: Iterable[Effect]) -> Effect:
    """Return the effect that a statement about several others stands or falls with.

    It is the one with the worst verdict, and of several, the one whose interval begins lowest.
    """
    return max(effects, key=lambda effect: (list(Verdict).index(effect.verdict), -effect.low))


def ratio_words(effects: Mapping[str, Effect]) -> str:
    """Return effects on times as text: "time over that of fedavg 0.67 (0.55 to 0.80), sequential ..."."""
    return "over " + ", ".join(f"{label} {effect.ratio_words}" for label, effect in effects.items())


def resolution(config: Config) -> float:
    """Return the time between evaluations, seconds; 0 if every commit is evaluated."""
    return 0.0 if config.run.evaluate == "commit" else config.run.evaluate_every


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


def round_times(runs: Sequence[Records]) -> list[float]:
    """Return each run's mean time (s) from one commit to the next."""
    return [float(np.diff(run.commits["time"], prepend=0.0).mean()) for run in runs]


def round_times_row(runs: Mapping[str, Sequence[Records]], paper: str, remark: str = "") -> Row:
    """Return the mean time of a round by name, which is not judged: it follows from the schedule."""
    means = {name: statistics.fmean(round_times(by_seed)) for name, by_seed in runs.items()}
    words = ", ".join(f"{name} {mean:.2f} s" for name, mean in means.items())
    return Row("time of a round", paper, words, remark)


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
