"""Commands that run: demo, run, resume, compare and check."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedtempo.cli.options import (
    ConfigFile,
    Jobs,
    LogFormat,
    Out,
    Seed,
    Sets,
    Strategies,
    Track,
    console,
    experiment_of,
    new_run_folder,
    parse_seeds,
    tracker_sets,
)
from fedtempo.cli.records import show_comparison, show_result, show_sweep


def demo(
    quick: Annotated[bool, typer.Option("--quick", help="one seed and half the horizon: about 20 seconds")] = False,
    out: Out = None,
) -> None:
    """Compare four strategies on real images.

    FedHusky, hybrid, sequential and parallel training; needs no configuration and no download.
    """
    from fedtempo.api.experiment import Experiment
    from fedtempo.cli.progress import terminal

    experiment = Experiment.shipped("fedhusky", *(["run.horizon=500.0"] if quick else []))
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
    folder = new_run_folder(out, "demo", numbers[0])
    show_comparison(folder, experiment.compare(strategies, numbers, folder, display=terminal(console)))


def run(
    config: ConfigFile,
    out: Out = None,
    set_: Sets = [],  # noqa: B006
    seed: Seed = None,
    track: Track = None,
    log_format: LogFormat = None,
) -> None:
    """Run one strategy and record everything in a folder."""
    experiment = experiment_of(config, [*set_, *tracker_sets(track)], seed)
    from fedtempo.cli.progress import terminal

    folder = new_run_folder(out, experiment.label, experiment.config.run.seed)
    show_result(experiment.run(folder, display=terminal(console, log_format)))


def resume(
    folder: Annotated[
        Path, typer.Argument(help="folder of a run, deployment, comparison or sweep", show_default=False)
    ],
    set_: Annotated[
        list[str],
        typer.Option(
            "--set",
            help="give a finished run a later end, such as run.horizon=2000, or change a setting that results do not "
            "depend on, such as executor.workers=4",
        ),
    ] = [],  # noqa: B006
    force: Annotated[bool, typer.Option("--force", help="resume even if versions or code have changed")] = False,
    jobs: Jobs = 1,
    log_format: LogFormat = None,
) -> None:
    """Continue an interrupted run, comparison, sweep or deployment.

    A simulation ends with the same result as without the interruption, bit for bit. With a later end (--set
    run.horizon=2000), a finished run continues, too.
    """
    from fedtempo.api.experiment import resume
    from fedtempo.api.results import Result
    from fedtempo.api.sweeps import Sweep
    from fedtempo.cli.progress import following, terminal
    from fedtempo.deploy.remembering import remembered

    deployed = remembered(folder) is not None
    with following(jobs, terminal(console, log_format, deployed)) as display:
        resumed = resume(folder, force=force, sets=set_, jobs=jobs, display=display)
    if isinstance(resumed, Result):
        show_result(resumed)
    elif isinstance(resumed, Sweep):
        show_sweep(resumed)
    else:
        show_comparison(folder, resumed)


def compare(
    config: ConfigFile,
    strategies: Strategies,
    seeds: Annotated[str, typer.Option(help="seeds, such as 1-5 or 1,3,7")] = "1",
    out: Out = None,
    jobs: Jobs = 1,
    set_: Sets = [],  # noqa: B006
    track: Track = None,
    log_format: LogFormat = None,
) -> None:
    """Run several strategies on the same fleet, data and seeds.

    Leaves a table, report.html and comparison.json.
    """
    numbers = parse_seeds(seeds)
    experiment = experiment_of(config, [*set_, *tracker_sets(track)], strategies=strategies)
    from fedtempo.cli.progress import following, terminal
    from fedtempo.report.trackers import make_trackers

    make_trackers(experiment.config.run.track)  # what is not installed is reported before anything runs
    folder = new_run_folder(out, "compare", numbers[0])
    with following(jobs, terminal(console, log_format)) as display:
        compared = experiment.compare(strategies, numbers, folder, jobs=jobs, display=display)
    show_comparison(folder, compared)


def check(config: ConfigFile, set_: Sets = []) -> None:  # noqa: B006
    """Check that all executors give the same result, bit for bit.

    Runs the configuration on different executors and worker counts.
    """
    experiment = experiment_of(config, set_)
    from rich.table import Table

    from fedtempo.cli.progress import terminal

    checked = experiment.check(display=terminal(console))
    table = Table(title="The same run, executed differently", title_justify="left", header_style="dim")
    for column in ("executor", "model_sha256", "events_sha256", "seconds"):
        table.add_column(column, justify="right" if column == "seconds" else "left")
    for cells in checked.cells():
        table.add_row(*cells)
    console.print(table)
    console.print(checked.headline, style="green" if checked.agree else "red")
    raise typer.Exit(0 if checked.agree else 3)
