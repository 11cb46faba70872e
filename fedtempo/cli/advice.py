"""What `fedtempo advise` does."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from fedtempo.api.experiment import Experiment
from fedtempo.parts.machine import usable_cpus
from fedtempo.record.strict_json import to_json
from fedtempo.report import words
from fedtempo.report.table import fitting_table
from fedtempo.report.words import whole_ranges
from fedtempo.runs.config import load
from fedtempo.studies.advice.recommendation import evidence_columns, sensitivity_columns
from fedtempo.studies.display import Display


def show_advice(
    console: Console,
    path: Path,
    strategies: str | None,
    budget: str | None,
    short_s: float | None,
    workers: int | None,
    as_json: bool,
    sets: list[str],
) -> None:
    """The recommendation, its evidence, and lines to paste; as JSON alone where asked for."""
    experiment = Experiment.of(load(path, sets))
    with Console(stderr=True).status("starting") as status:
        advice = experiment.advise(
            strategies,
            budget=budget,
            short_s=short_s,
            workers=workers or usable_cpus(),
            display=Display(say=status.update),
        )
    if as_json:
        print(to_json(advice.facts(), indent=2))
        return
    console.print(advice.headline, style="bold", highlight=False)
    for line in advice.details:
        console.print(line, highlight=False)
    console.print()
    seeds = advice.setting.seeds
    title = f"Trainings of {words.seconds(advice.setting.short_s)}, seed{'s' * (len(seeds) > 1)} {whole_ranges(seeds)}"
    console.print(fitting_table(title, evidence_columns(advice), console.width))
    title = "Where the server's estimates are wrong, and where visits are lost"
    console.print(fitting_table(title, sensitivity_columns(advice), console.width))
    for label, reason in advice.left_out.items():
        console.print(f"left out: {label}: {reason}", style="dim", markup=False, highlight=False, soft_wrap=True)
    effort, n = advice.setting.effort, len(advice.evidence)
    console.print(
        f"From {advice.setting.trainings} short trainings (--budget {advice.setting.trainings}); {n} strategies, "
        f"{effort.lr_points} learning rate{'s' * (effort.lr_points > 1)} each.",
        style="dim",
        highlight=False,
    )
    console.print("# To paste into the configuration:", style="dim")
    console.print(advice.toml(), markup=False, highlight=False, soft_wrap=True)
