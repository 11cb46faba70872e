"""What each command does, given its arguments; `cli` reads them.

What takes long to import, such as PyTorch or what draws, is imported once the arguments are known to be right.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console
from rich.table import Table

from fedtempo.cli import logs
from fedtempo.errors import ConfigError, duplicate
from fedtempo.record.folder import RunFolder, default_name, unused
from fedtempo.runs.config import Config, load

if TYPE_CHECKING:
    from fedtempo.api.experiment import Experiment
    from fedtempo.api.results import Comparison, Result
    from fedtempo.studies.display import Display
    from fedtempo.studies.tuning.successive_halving import Rung

RUNS = Path("runs")
INTERRUPTED = 130


def _experiment(config: Config) -> Experiment:
    """Return a checked configuration as an experiment; the import comes after the checks, because it takes a while."""
    from fedtempo.api.experiment import Experiment

    return Experiment.of(config)


def _terminal(console: Console, log_format: logs.Format | None = None, deployed: bool = False) -> Display:
    from fedtempo.cli.progress import terminal

    return terminal(console, log_format, deployed)


def run(
    console: Console,
    path: Path,
    out: Path | None,
    sets: list[str],
    seed: int | None,
    log_format: logs.Format | None = None,
) -> int:
    """Run one strategy in a folder; return the exit code."""
    experiment = _experiment(load(path, [*sets, *([] if seed is None else [f"run.seed={seed}"])]))
    folder = out or unused(RUNS / default_name(experiment.label, experiment.config.run.seed))
    return show_result(console, experiment.run(folder, display=_terminal(console, log_format)))


def resume(console: Console, folder: Path, sets: list[str], force: bool, log_format: logs.Format | None = None) -> int:
    """Continue the run, deployment or comparison in a folder; return the exit code."""
    from fedtempo.api import experiment as api
    from fedtempo.api.results import Result
    from fedtempo.cli.progress import sigterm_interrupts
    from fedtempo.deploy.run import remembered

    deployed = remembered(folder) is not None
    with sigterm_interrupts() if deployed else contextlib.nullcontext():
        resumed = api.resume(folder, force=force, sets=sets, display=_terminal(console, log_format, deployed))
    return show_result(console, resumed) if isinstance(resumed, Result) else show_comparison(console, folder, resumed)


def show_result(console: Console, result: Result) -> int:
    """Show the run in a folder; return the exit code."""
    from fedtempo.report import words
    from fedtempo.report.table import run_table

    summary, folder = result.summary, result.folder
    assert folder is not None
    console.print(run_table(summary))
    if summary["visits"] and summary["ended"] != "interrupted":
        files = RunFolder(folder)
        size_bytes = files.size_bytes - files.report.stat().st_size
        console.print(
            f"records: {words.size(size_bytes)}, {size_bytes / summary['visits']:,.0f} bytes per visit",
            style="dim",
            highlight=False,
        )
    console.print(f"{folder}/report.html", style="cyan", soft_wrap=True)
    if summary["ended"] == "interrupted":
        console.print(f"interrupted: `fedtempo resume {folder}` continues it", style="yellow", soft_wrap=True)
        return INTERRUPTED
    return 0


def compare(
    console: Console,
    path: Path,
    strategies: str,
    seeds: str,
    out: Path | None,
    sets: list[str],
    log_format: logs.Format | None = None,
) -> int:
    """Run several strategies on the same seeds; return the exit code."""
    experiment = _experiment(load(path, sets))
    from fedtempo.report.trackers import make_trackers

    make_trackers(experiment.config.run.track)  # what is not installed is reported before anything runs
    numbers = parse_seeds(seeds)
    folder = out or unused(RUNS / default_name("compare", numbers[0]))
    compared = experiment.compare(strategies, numbers, folder, display=_terminal(console, log_format))
    return show_comparison(console, folder, compared)


def demo(console: Console, quick: bool, out: Path | None) -> int:
    """Run the comparison that the README shows, from the shipped configuration; return the exit code.

    quick: one seed instead of three, and half of the horizon.
    """
    from fedtempo.runs.shipped import config_path

    experiment = _experiment(load(config_path("fedhusky"), ["run.horizon=500.0"] if quick else [], own=False))
    strategies, seeds = "fedhusky,hybrid,sequential,fedavg", "1" if quick else "1-3"
    shorter = " --set run.horizon=500" if quick else ""
    console.print("The same as, after `fedtempo new config fedhusky`:", style="dim")
    console.print(
        f"  fedtempo compare fedhusky.toml --strategies {strategies} --seeds {seeds}{shorter}",
        style="dim",
        highlight=False,
        soft_wrap=True,
    )
    numbers = parse_seeds(seeds)
    folder = out or unused(RUNS / default_name("demo", numbers[0]))
    return show_comparison(console, folder, experiment.compare(strategies, numbers, folder, display=_terminal(console)))


def show_comparison(console: Console, folder: Path, compared: Comparison) -> int:
    """Show the comparison in a folder; return the exit code."""
    from fedtempo.report.table import comparison_table

    console.print(comparison_table(compared.facts, console.width))
    console.print(f"{folder}/report.html", style="cyan", soft_wrap=True)
    return 0


def tune(
    console: Console,
    path: Path,
    strategies: str,
    *,
    lr: str,
    factor: float,
    seeds: str,
    budget: float | None,
    workers: int | None,
    sets: list[str],
) -> None:
    """Show the learning rate of several strategies, found on one grid with the same budget, and lines to paste."""
    numbers, grid = parse_seeds(seeds), _range(lr)
    experiment = _experiment(load(path, sets))
    from fedtempo.parts.machine import usable_cpus
    from fedtempo.studies.competitors import competitors
    from fedtempo.studies.tuning.report import comparison_lines, tuning_table

    n_strategies = len(competitors(strategies, experiment.config))
    with console.status("starting") as status:

        def begins(number: int, rung: Rung, horizon_s: float) -> None:
            runs = n_strategies * rung.points * len(numbers)
            status.update(
                f"rung {number + 1}: {rung.points} learning rates per strategy, {runs} runs to {horizon_s:.4g} s"
            )

        tuning = experiment.tune(
            strategies,
            grid,
            factor=factor,
            seeds=numbers,
            budget=budget,
            workers=workers or usable_cpus(),
            begins=begins,
        )
    for label, places in tuning.placed.items():
        console.print(tuning_table(label, places, numbers))
    console.print("# To paste into the configuration, in place of the tables of these names:", style="dim")
    for label, places in tuning.placed.items():
        best = places[0].trial
        if best.diverged:
            console.print(f"# {label}: runs diverged at every learning rate; try smaller ones", style="yellow")
        lines = comparison_lines(experiment.config, label, best.changes)
        console.print(lines, markup=False, highlight=False, soft_wrap=True)
        if len(tuning.points) > 1 and best.changes in (tuning.points[0], tuning.points[-1]):
            console.print(f"# {label}: the best is at the end of the grid; try a wider one", style="yellow")


def plan(console: Console, path: Path, strategies: str | None, out: Path | None, sets: list[str]) -> None:
    """Show predicted schedules as a table, and the reasons for them.

    out: a new folder for figures of both.
    """
    experiment = _experiment(load(path, sets))
    from fedtempo.studies.compare import new_folder
    from fedtempo.studies.plan_explained import clients_in_order, explain_plan

    folder = None if out is None else new_folder(out)
    predictions = experiment.plan(strategies, display=_terminal(console)).predictions
    console.print(plan_table({label: planned.summary for label, planned in predictions.items()}))
    orders = {clients_in_order(planned.world) for planned in predictions.values()}
    for line in sorted(line for line in orders if line):
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    for planned in predictions.values():
        explain_plan(console, planned.config, planned.world)
    if folder is not None:
        from fedtempo.studies.plan_figures import draw_plans

        for figure in draw_plans(folder, predictions):
            console.print(f"{figure}", style="cyan", soft_wrap=True)


def plan_table(summaries: dict[str, dict[str, Any]]) -> Table:
    """Predictions side by side: busy ratios over clients, groups alive (mean, most), mean staleness of commits."""
    title = "Predicted, without training"
    table = Table(
        title=title, title_style="bold", title_justify="left", header_style="dim", box=box.SIMPLE, padding=(0, 1)
    )
    table.add_column("strategy", overflow="fold")  # the one that gives way: no number is cut short
    for column in ("busy %", "low", "high", "alive", "most", "visits", "commits", "stale"):
        table.add_column(column, justify="right", no_wrap=True)
    for label, summary in summaries.items():
        busy, alive, staleness = summary["busy_ratio"], summary["active_groups"], summary["staleness"]["mean"]
        table.add_row(
            label,
            *(f"{100 * busy[name]:.1f}" for name in ("mean", "min", "max")),
            f"{alive['mean']:.1f}",
            f"{alive['max']}",
            f"{summary['visits']:,}",
            f"{summary['commits']:,}",
            "-" if staleness is None else f"{staleness:.1f}",
        )
    return table


def compare_with_real(console: Console, simulated: Path, deployed: Path) -> None:
    """A simulation's measures beside those of the deployment that it stands for."""
    from fedtempo.record import load_run
    from fedtempo.record.prediction import prediction
    from fedtempo.report.table import prediction_table

    console.print(prediction_table(prediction(load_run(simulated), load_run(deployed))))


def report(console: Console, folders: list[Path], out: Path | None) -> None:
    """One page about runs; a comparison's folder stands for the runs in it."""
    from fedtempo.record import load_run
    from fedtempo.studies.same_work import check_same_work

    runs = [load_run(folder) for folder in _run_folders(folders)]
    check_same_work((run.label, run.config) for run in runs)
    from fedtempo.report.html import write_report

    target = out or folders[0] / "report.html"
    write_report(target, runs)
    console.print(f"{target}", style="cyan", soft_wrap=True)


def export(console: Console, folder: Path, to: str, out: Path | None) -> None:
    """Write a run's tables as files."""
    from fedtempo.api.results import open_run

    result = open_run(folder)
    for path in result.export(to, out):
        console.print(f"{path}", soft_wrap=True)
    if not result.as_run().has_rows:
        console.print('no visits and commits: the run left their rows out (run.record = "totals")', soft_wrap=True)


def check(console: Console, path: Path, sets: list[str]) -> int:
    """Run the same configuration on different executors; return 0 if every bit agrees, else 3."""
    checked = _experiment(load(path, sets)).check(display=_terminal(console))
    table = Table(title="The same run, executed differently", title_justify="left", header_style="dim")
    for column in ("executor", "model_sha256", "events_sha256", "seconds"):
        table.add_column(column, justify="right" if column == "seconds" else "left")
    for cells in checked.cells():
        table.add_row(*cells)
    console.print(table)
    console.print(checked.headline, style="green" if checked.agree else "red")
    return 0 if checked.agree else 3


def parse_seeds(text: str) -> list[int]:
    """ "1-3,7" as [1, 2, 3, 7]. Raises ConfigError for anything else."""
    seeds: list[int] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        try:
            low = int(first)
            high = int(last) if dash else low
        except ValueError:
            raise ConfigError(f"--seeds {text}: write whole numbers such as 1-5 or 1,3,7") from None
        if high < low:
            raise ConfigError(f"--seeds {text}: {part} is a descending range")
        seeds.extend(range(low, high + 1))
    if len(set(seeds)) < len(seeds):
        raise ConfigError(f"--seeds {text}: duplicate seed {duplicate(seeds)}")
    return seeds


def _range(text: str) -> tuple[float, float]:
    """ "0.3:0.001" as (0.3, 0.001). Raises ConfigError for anything else."""
    high, _, low = text.partition(":")
    try:
        return float(high), float(low or high)
    except ValueError:
        raise ConfigError(f"--lr {text}: write the largest and the smallest rate, such as 0.3:0.001") from None


def _run_folders(folders: Iterable[Path]) -> list[Path]:
    """Run folders as they are; of any other folder the run folders right below it. Raises ConfigError for a link."""
    found = []
    for folder in folders:
        inner = sorted(path.parent for path in folder.glob("*/run.sqlite"))
        if links := [path for path in inner if path.is_symlink()]:
            raise ConfigError(f"{links[0]} leads to {links[0].resolve()}: name the runs' folders themselves")
        found.extend(inner if inner and not (folder / "run.sqlite").exists() else [folder])
    return found
