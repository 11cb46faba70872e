"""What each command does, given its arguments; `cli` reads them.

What takes long to import, such as PyTorch or what draws, is imported once the arguments are known to be right.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console
from rich.table import Table

from fedtempo.cli import logs, progress
from fedtempo.errors import ConfigError
from fedtempo.parts.machine import usable_cpus
from fedtempo.record import RunFolder, default_name, load_run
from fedtempo.record.export import export as export_tables
from fedtempo.record.folder import unused
from fedtempo.record.prediction import prediction
from fedtempo.record.recorder import Observer
from fedtempo.report import words
from fedtempo.report.table import comparison_table, prediction_table, run_table
from fedtempo.report.trackers import make_trackers
from fedtempo.report.trackers.tracking import tracked
from fedtempo.runs.config import Config, load
from fedtempo.runs.resume import complete, configuration, run_to_folder
from fedtempo.runs.shipped import config_path
from fedtempo.studies import compare as comparing
from fedtempo.studies.compare import competitors, new_folder
from fedtempo.studies.plan import Prediction, predict
from fedtempo.studies.same_work import check_same_work

if TYPE_CHECKING:
    from fedtempo.studies.tuning.successive_halving import Rung

RUNS = Path("runs")
INTERRUPTED = 130


def run(
    console: Console,
    path: Path,
    out: Path | None,
    sets: list[str],
    seed: int | None,
    log_format: logs.Format | None = None,
) -> int:
    """One run into a folder; returns the exit code."""
    config = load(path, [*sets, *([] if seed is None else [f"run.seed={seed}"])])
    folder = out or unused(RUNS / default_name(config.label, config.run.seed))
    with observed(config, folder, log_format) as observers:
        with progress.shown(console, config) as watch:
            summary = run_to_folder(config, folder, watch=watch, observers=observers)
        return _show(console, folder, summary)


@contextlib.contextmanager
def observed(config: Config, folder: Path, log_format: logs.Format | None) -> Iterator[tuple[Observer, ...]]:
    """Trackers and the log follow the run that the block makes in a folder; yields its recorder's observers."""
    with tracked(config, folder) as trackers:
        if log_format is None:
            yield trackers
        else:
            logs.configure(log_format)
            yield *trackers, logs.RunLog()


def resume(console: Console, folder: Path, sets: list[str], force: bool, log_format: logs.Format | None = None) -> int:
    """Go on with a run, or a comparison, that was interrupted; returns the exit code."""
    if (folder / comparing.PLAN).exists():
        observing = partial(observed, log_format=log_format)
        watching = partial(progress.shown, console)
        compared = comparing.go_on(folder, sets, force=force, watching=watching, observing=observing)
        return _show_comparison(console, folder, compared)
    config = configuration(folder, sets)
    with observed(config, folder, log_format) as observers:
        with progress.shown(console, config) as watch:
            summary = complete(config, folder, force=force, watch=watch, observers=observers)
        return _show(console, folder, summary)


def _show(console: Console, folder: Path, summary: dict[str, Any]) -> int:
    """A run that ended, and its report; returns the exit code."""
    console.print(run_table(summary))
    if summary["ended"] == "interrupted":
        console.print(f"interrupted: `fedtempo resume {folder}` goes on", style="yellow", soft_wrap=True)
        return INTERRUPTED
    size_bytes, visits = RunFolder(folder).size_bytes, summary["visits"]
    each = f", {size_bytes / visits:,.0f} bytes a visit" if visits else ""
    console.print(f"records: {words.size(size_bytes)}{each}", style="dim", highlight=False)
    from fedtempo.report.html import write_report

    write_report(folder / "report.html", [load_run(folder)])
    console.print(f"{folder}/report.html", style="cyan", soft_wrap=True)
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
    """Several strategies over the same seeds; returns the exit code."""
    base = load(path, sets)
    make_trackers(base.run.track)  # what is not installed is said before anything runs
    numbers = parse_seeds(seeds)
    folder = out or unused(RUNS / default_name("compare", numbers[0]))
    return _compare(console, base, competitors(strategies, base), numbers, folder, log_format)


def demo(console: Console, quick: bool, out: Path | None) -> int:
    """The comparison that the README shows, from the shipped configuration; return the exit code.

    quick: one seed in place of three, and half of the horizon.
    """
    base = load(config_path("fedhusky"), ["run.horizon=500.0"] if quick else [], own=False)
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
    return _compare(console, base, competitors(strategies, base), numbers, folder, None)


def _compare(
    console: Console,
    base: Config,
    labels: Sequence[str],
    numbers: Sequence[int],
    folder: Path,
    log_format: logs.Format | None,
) -> int:
    """Run a comparison in a new folder and show it; return the exit code."""
    watching, observing = partial(progress.shown, console), partial(observed, log_format=log_format)
    compared = comparing.begin(folder, base, labels, numbers, watching=watching, observing=observing)
    return _show_comparison(console, folder, compared)


def _show_comparison(console: Console, folder: Path, compared: dict[str, Any] | None) -> int:
    """A comparison that ended, None for one that was interrupted; returns the exit code."""
    if compared is None:
        console.print(f"interrupted: `fedtempo resume {folder}` goes on", style="yellow", soft_wrap=True)
        return INTERRUPTED
    console.print(comparison_table(compared, console.width))
    console.print(f"{folder}/report.html", style="cyan", soft_wrap=True)
    return 0


def tune(
    console: Console,
    path: Path,
    strategies: str,
    lr: str,
    factor: float,
    seeds: str,
    budget: float | None,
    workers: int | None,
    sets: list[str],
) -> None:
    """The learning rate of several strategies on one grid, with the same budget: tables, and lines to paste."""
    from fedtempo.studies.tuning.report import comparison_lines, tuning_table
    from fedtempo.studies.tuning.successive_halving import multiplicative_grid, successive_halving

    base, numbers = load(path, sets), parse_seeds(seeds)
    labels = competitors(strategies, base)
    points = [{"training.lr": value} for value in multiplicative_grid(*_range(lr), factor)]
    with console.status("starting") as status:

        def begins(number: int, rung: Rung, horizon_s: float) -> None:
            runs = len(labels) * rung.points * len(numbers)
            status.update(
                f"rung {number + 1}: {rung.points} learning rates a strategy, {runs} runs to {horizon_s:.4g} s"
            )

        placed = successive_halving(
            base, labels, points, numbers, budget, workers=workers or usable_cpus(), begins=begins
        )
    for label, found in placed.items():
        console.print(tuning_table(label, found, numbers))
    console.print("# To paste into the configuration, in place of the tables of these names:", style="dim")
    for label, found in placed.items():
        chosen = found[0].trial.changes
        if found[0].trial.diverged:
            console.print(f"# {label}: runs diverged at every learning rate; try smaller ones", style="yellow")
        console.print(comparison_lines(base, label, chosen), markup=False, highlight=False, soft_wrap=True)
        if len(points) > 1 and chosen in (points[0], points[-1]):
            console.print(f"# {label}: the best is at the end of the grid; try a wider one", style="yellow")


def plan(console: Console, path: Path, strategies: str | None, out: Path | None, sets: list[str]) -> None:
    """Schedule-only runs: predicted utilisation as a table, then what lies behind a strategy's schedule.

    out: a new folder for pictures of both.
    """
    from fedtempo.studies.plan_explained import clients_in_order, explain_plan

    base = load(path, sets)
    folder = None if out is None else new_folder(out)
    predictions: dict[str, Prediction] = {}
    labels = () if strategies is None else competitors(strategies, base)
    for config in comparing.configured(base, labels) or [base]:
        with progress.shown(console, config) as watch:
            predictions[config.label] = predict(config, watch)
    console.print(plan_table({label: planned.summary for label, planned in predictions.items()}))
    worlds = {clients_in_order(planned.world) for planned in predictions.values()}
    for line in sorted(line for line in worlds if line):
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    for planned in predictions.values():
        explain_plan(console, planned.config, planned.world)
    if folder is not None:
        from fedtempo.studies.plan_figures import draw_plans

        for picture in draw_plans(folder, predictions):
            console.print(f"{picture}", style="cyan", soft_wrap=True)


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
    console.print(prediction_table(prediction(load_run(simulated), load_run(deployed))))


def report(console: Console, folders: list[Path], out: Path | None) -> None:
    """One page about runs; a comparison's folder stands for the runs in it."""
    runs = [load_run(folder) for folder in _run_folders(folders)]
    check_same_work((run.label, run.config) for run in runs)
    from fedtempo.report.html import write_report

    target = out or folders[0] / "report.html"
    write_report(target, runs)
    console.print(f"{target}", style="cyan", soft_wrap=True)


def export(console: Console, folder: Path, to: str, out: Path | None) -> None:
    """A run's tables as files."""
    target = out or folder / "tables"
    if out is None and target.is_symlink():
        raise ConfigError(f"{target} leads to {target.resolve()}: name a folder with --out")
    run = load_run(folder)
    for path in export_tables(run, to, target):
        console.print(f"{path}", soft_wrap=True)
    if not run.has_rows:
        console.print('no visits and commits: the run left their rows out (run.record = "totals")', soft_wrap=True)


def check(console: Console, path: Path, sets: list[str]) -> int:
    """The same run on different executors and worker counts; returns 0 where every bit agrees, else 3."""
    from fedtempo.studies import check as checking

    found = checking.check(load(path, sets), watching=partial(progress.shown, console))
    if found is None:
        return INTERRUPTED
    table = Table(title="The same run, executed differently", title_justify="left", header_style="dim")
    for column in ("executor", "model_sha256", "events_sha256", "seconds"):
        table.add_column(column, justify="right" if column == "seconds" else "left")
    for cells in found.cells():
        table.add_row(*cells)
    console.print(table)
    console.print(found.headline, style="green" if found.agree else "red")
    return 0 if found.agree else 3


def parse_seeds(text: str) -> list[int]:
    """ "1-3,7" as [1, 2, 3, 7]. Raises ConfigError for anything else."""
    seeds: list[int] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        try:
            low = int(first)
            high = int(last) if dash else low
        except ValueError:
            raise ConfigError(f"--seeds {text}: write whole numbers like 1-5 or 1,3,7") from None
        if high < low:
            raise ConfigError(f"--seeds {text}: {part} runs backwards")
        seeds.extend(range(low, high + 1))
    if len(set(seeds)) < len(seeds):
        raise ConfigError(f"--seeds {text}: a seed is there twice")
    return seeds


def _range(text: str) -> tuple[float, float]:
    """ "0.3:0.001" as (0.3, 0.001). Raises ConfigError for anything else."""
    high, _, low = text.partition(":")
    try:
        return float(high), float(low or high)
    except ValueError:
        raise ConfigError(f"--lr {text}: write the largest and the smallest, like 0.3:0.001") from None


def _run_folders(folders: Iterable[Path]) -> list[Path]:
    """Run folders as they are; of any other folder the run folders right below it. Raises ConfigError for a link."""
    found = []
    for folder in folders:
        inner = sorted(path.parent for path in folder.glob("*/run.sqlite"))
        if links := [path for path in inner if path.is_symlink()]:
            raise ConfigError(f"{links[0]} leads to {links[0].resolve()}: name the runs' folders themselves")
        found.extend(inner if inner and not (folder / "run.sqlite").exists() else [folder])
    return found
