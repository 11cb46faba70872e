"""The command for grids of settings: sweep."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from fedtempo.cli.options import (
    LogFormat,
    Sets,
    Track,
    console,
    experiment_of,
    optional_configuration,
    parse_seeds,
    tracker_sets,
)
from fedtempo.cli.records import show_sweep
from fedtempo.errors import ConfigError


def sweep(
    config: Annotated[
        Path | None,
        typer.Argument(help="configuration file (TOML)", show_default=False, callback=optional_configuration),
    ] = None,
    grid: Annotated[
        list[str], typer.Option("--grid", help="values of a key, such as training.lr=0.1,0.3; can be repeated")
    ] = [],  # noqa: B006
    seeds: Annotated[str, typer.Option(help="seeds, such as 1-5 or 1,3,7")] = "1",
    strategies: Annotated[
        str | None,
        typer.Option(
            help="comma-separated names or labels (default: the configuration's strategy)", show_default=False
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="folder, new or with this sweep (default: under runs/, found by the same command)"),
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option(help="parallel runs, or Slurm's tasks at a time (default: CPUs, or Ray's room)"),
    ] = None,
    slurm: Annotated[bool, typer.Option("--slurm", help="write a script for sbatch instead of running")] = False,
    collect: Annotated[
        Path | None, typer.Option(help="folder of a sweep whose finished runs to collect", show_default=False)
    ] = None,
    task: Annotated[
        int | None, typer.Option(help="do one run of the sweep in --out, counted from 0, as Slurm's tasks do")
    ] = None,
    set_: Sets = [],  # noqa: B006
    track: Track = None,
    log_format: LogFormat = None,
) -> None:
    """Run every combination of settings, in parallel or on a cluster.

    The same command continues a sweep that was stopped; more values or seeds add their runs.
    """
    numbers = parse_seeds(seeds)
    if collect is not None or task is not None:
        if config is not None or grid or slurm or (collect is not None and task is not None):
            raise ConfigError("--collect FOLDER and --out FOLDER --task N take no configuration, --grid or --slurm")
        if collect is not None:
            _collect(collect)
        else:
            _do_task(out, task, log_format)
        return
    if config is None:
        raise ConfigError("sweep: name a configuration file, or a folder with --collect")
    from fedtempo.studies.grids import checked_grid, parse_grid

    values = checked_grid(parse_grid(grid))
    experiment = experiment_of(config, [*set_, *tracker_sets(track)], strategies=strategies)
    from fedtempo.cli.progress import following, terminal
    from fedtempo.report.trackers import make_trackers

    make_trackers(experiment.config.run.track)
    if slurm:
        script = experiment.slurm_sweep(values, out, strategies=strategies, seeds=numbers, jobs=jobs)
        console.print(f"sbatch {shlex.quote(str(script))}", style="cyan", soft_wrap=True)
        console.print(f"then: fedtempo sweep --collect {shlex.quote(str(script.parent))}", style="dim", soft_wrap=True)
        return
    with following(jobs, terminal(console, log_format)) as display:
        swept = experiment.sweep(values, out, strategies=strategies, seeds=numbers, jobs=jobs, display=display)
    show_sweep(swept)


def _collect(folder: Path) -> None:
    from fedtempo.api.sweeps import collect_sweep

    show_sweep(collect_sweep(folder))


def _do_task(folder: Path | None, number: int | None, log_format: LogFormat) -> None:
    if folder is None or number is None:
        raise ConfigError("--task: name the sweep's folder with --out")
    from fedtempo.api.sweeps import run_sweep_task
    from fedtempo.cli.progress import terminal
    from fedtempo.cli.records import INTERRUPTED
    from fedtempo.report.table import run_table

    summary = run_sweep_task(folder, number, display=terminal(console, log_format))
    console.print(run_table(summary))
    if summary["ended"] == "interrupted":
        console.print("interrupted: the same task continues it", style="yellow")
        raise typer.Exit(INTERRUPTED)
