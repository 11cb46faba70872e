"""The commands: each reads its arguments and calls one function.

What a command needs is imported when it runs, so that `fedtempo --help` answers at once.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import traceback
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer

from fedtempo.cli import deploy_arguments
from fedtempo.cli.fleet_arguments import fleet
from fedtempo.cli.options import (
    ConfigFile,
    Group,
    LogFormat,
    OneRun,
    Out,
    Runs,
    Sets,
    Strategies,
    Track,
    console,
    errors,
)
from fedtempo.errors import ConfigError, FedtempoError, Interrupted
from fedtempo.version import __version__

app = typer.Typer(
    cls=Group,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Federated learning on a virtual clock: simulate, compare, plan, deploy.",
    epilog="Example: fedtempo demo",
)
_INTERRUPTED, _TERMINATED = 128 + 2, 128 + 15
"""Exit codes after SIGINT and SIGTERM."""

app.add_typer(fleet, name="fleet")


def _show_version(asked: bool) -> None:
    if asked:
        console.print(f"fedtempo {__version__}", highlight=False)
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Options of the program itself."""


@app.command(epilog="Example: fedtempo demo --quick")
def demo(
    quick: Annotated[
        bool, typer.Option("--quick", help="one seed and half the horizon: seconds instead of a minute")
    ] = False,
    out: Out = None,
) -> None:
    """Compare four strategies on real images.

    FedHusky, hybrid, sequential and parallel training; needs no configuration and no download.
    """
    from fedtempo.cli import runs

    raise typer.Exit(runs.demo(console, quick, out))


@app.command(epilog="Example: fedtempo run configs/fedhusky.toml --set strategy.preset=paper --seed 7")
def run(
    config: ConfigFile,
    out: Out = None,
    set_: Sets = [],  # noqa: B006
    seed: Annotated[int | None, typer.Option(help="random seed; same as --set run.seed=N")] = None,
    track: Track = None,
    log_format: LogFormat = None,
) -> None:
    """Run one strategy and record everything in a folder."""
    from fedtempo.cli import runs

    raise typer.Exit(runs.run(console, config, out, [*set_, *_tracks(track)], seed, log_format))


@app.command(epilog="Example: fedtempo resume runs/20260102-101500-fedhusky-seed1")
def resume(
    folder: Annotated[Path, typer.Argument(help="folder of a run, deployment or comparison", show_default=False)],
    set_: Annotated[
        list[str],
        typer.Option("--set", help="change a setting that results do not depend on, such as executor.workers=4"),
    ] = [],  # noqa: B006
    force: Annotated[bool, typer.Option("--force", help="resume even if versions or code have changed")] = False,
    log_format: LogFormat = None,
) -> None:
    """Continue what was interrupted or killed, to the same bits.

    A run, a deployment or a comparison.
    """
    from fedtempo.cli import runs

    raise typer.Exit(runs.resume(console, folder, set_, force, log_format))


@app.command(epilog="Example: fedtempo compare configs/fedhusky.toml --strategies fedhusky,fedavg --seeds 1-3")
def compare(
    config: ConfigFile,
    strategies: Strategies,
    seeds: Annotated[str, typer.Option(help="seeds, such as 1-5 or 1,3,7")] = "1",
    out: Out = None,
    set_: Sets = [],  # noqa: B006
    track: Track = None,
    log_format: LogFormat = None,
) -> None:
    """Run several strategies on the same fleet, data and seeds.

    Leaves a table, report.html and comparison.json.
    """
    from fedtempo.cli import runs

    raise typer.Exit(runs.compare(console, config, strategies, seeds, out, [*set_, *_tracks(track)], log_format))


def _tracks(names: str | None) -> list[str]:
    """`--track a,b` as a `--set`."""
    return [] if names is None else [f"run.track={[name.strip() for name in names.split(',')]}"]


@app.command(epilog="Example: fedtempo tune configs/psfl.toml --strategies psfl,fedavg --lr 0.3:0.01")
def tune(
    config: ConfigFile,
    strategies: Strategies,
    lr: Annotated[str, typer.Option(help="largest and smallest learning rate")] = "0.3:0.001",
    factor: Annotated[float, typer.Option(help="ratio between neighbouring learning rates")] = 3.0,
    seeds: Annotated[str, typer.Option(help="seeds to tune on; use other seeds for the comparison")] = "101,102",
    budget: Annotated[
        float | None,
        typer.Option(help="budget per strategy and seed, in horizons (default: 2/3 of the number of learning rates)"),
    ] = None,
    workers: Annotated[
        int | None, typer.Option(help="number of parallel runs (default: number of usable CPUs)")
    ] = None,
    set_: Sets = [],  # noqa: B006
) -> None:
    """Find each strategy's learning rate with the same budget.

    By successive halving on one grid.
    """
    from fedtempo.cli import runs

    runs.tune(console, config, strategies, lr=lr, factor=factor, seeds=seeds, budget=budget, workers=workers, sets=set_)


@app.command(epilog="Example: fedtempo plan configs/fedhusky.toml --strategies fedhusky,hybrid --out pictures")
def plan(
    config: ConfigFile,
    strategies: Annotated[
        str | None, typer.Option(help="comma-separated names (default: the configuration's strategy)")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="new folder for figures (default: draw none)")] = None,
    set_: Sets = [],  # noqa: B006
) -> None:
    """Predict schedules in seconds, without training.

    How busy clients are, groups alive, rounds, and why.
    """
    from fedtempo.cli import runs

    runs.plan(console, config, strategies, out, set_)


@app.command(epilog="Example: fedtempo advise configs/fedhusky.toml --budget 80")
def advise(
    config: ConfigFile,
    strategies: Annotated[str | None, typer.Option(help="comma-separated names or labels (default: all)")] = None,
    budget: Annotated[
        str | None,
        typer.Option(help="number of short trainings, such as 80, or real time, such as 5m", show_default=False),
    ] = None,
    short: Annotated[
        float | None,
        typer.Option(help="length of a short training in simulated seconds (default: a quarter of the horizon)"),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(help="number of parallel trainings (default: number of usable CPUs)"),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="print JSON only")] = False,
    set_: Sets = [],  # noqa: B006
) -> None:
    """Recommend a strategy, with its cost and the evidence.

    Short trainings of all strategies that fit, and again with wrong estimates and with drop-outs.
    """
    from fedtempo.cli.advice import show_advice

    show_advice(console, config, strategies, budget, short, workers, json, set_)


@app.command(epilog="Example: fedtempo report runs/first runs/second --out both.html")
def report(
    folders: Runs,
    out: Annotated[Path | None, typer.Option(help="output file (default: report.html in the first folder)")] = None,
) -> None:
    """Write one self-contained page about runs."""
    from fedtempo.cli import runs

    runs.report(console, folders, out)


@app.command(epilog="Example: fedtempo watch runs/first")
def watch(
    runs: Runs,
    port: Annotated[int, typer.Option(min=0, max=65535, help="port on 127.0.0.1 (0: any free port)")] = 0,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="print the address; do not open a browser")] = False,
) -> None:
    """Follow runs on a local page, or view finished ones.

    Ctrl-C ends it.
    """
    from fedtempo.report.watch import serving

    def say(text: str) -> None:
        console.print(text, style="cyan", soft_wrap=True, highlight=False)

    serving.watch(runs, port, browser=not no_browser, say=say)


@app.command(epilog="Example: fedtempo export runs/first --to csv")
def export(
    run: OneRun,
    to: Annotated[str, typer.Option(help="parquet or csv")] = "parquet",
    out: Annotated[Path | None, typer.Option(help="output folder (default: tables/ in the run's folder)")] = None,
) -> None:
    """Write a run's tables for pandas, DuckDB or R."""
    from fedtempo.cli import runs

    runs.export(console, run, to, out)


@app.command(epilog="Example: fedtempo check configs/fedhusky.toml --set run.horizon=50")
def check(config: ConfigFile, set_: Sets = []) -> None:  # noqa: B006
    """Check that all executors give the same bits.

    Runs the configuration on different executors and worker counts.
    """
    from fedtempo.cli import runs

    raise typer.Exit(runs.check(console, config, set_))


@app.command(name="list", epilog="Example: fedtempo list strategies")
def list_(
    what: Annotated[str | None, typer.Argument(help="strategies, networks, links, ... (default: all)")] = None,
) -> None:
    """List strategies, networks, links and other parts by name."""
    from fedtempo.cli import catalogue

    catalogue.list_parts(console, what)


@app.command(epilog="Example: fedtempo describe fedhusky")
def describe(
    name: Annotated[str, typer.Argument(help="a name from `fedtempo list`", show_default=False)],
) -> None:
    """Explain every field of a part: unit, default, source."""
    from fedtempo.cli import catalogue

    catalogue.describe(console, name)


@app.command(epilog="Example: fedtempo new config fedavg")
def new(
    kind: Annotated[str, typer.Argument(help="config, strategy, network, data or partition", show_default=False)],
    name: Annotated[
        str,
        typer.Argument(
            help="config: a strategy, such as fedavg or module:Class; otherwise a new name, such as my-idea",
            show_default=False,
        ),
    ],
    folder: Annotated[Path, typer.Option(help="folder to write to")] = Path(),
) -> None:
    """Write a configuration, or start your own part.

    A part is a commented file that works as it is, and its test.
    """
    from fedtempo.cli import new as skeletons

    made = [skeletons.write_config(name, folder)] if kind == "config" else skeletons.write(kind, name, folder)
    for path in made:
        console.print(f"{path}", style="cyan", soft_wrap=True)


@app.command(epilog="Example: fedtempo reproduce fedhusky/fig6 --scale small")
def reproduce(
    what: Annotated[str | None, typer.Argument(help="paper/figure, such as fedhusky/fig5")] = None,
    list_only: Annotated[bool, typer.Option("--list", help="list what can be reproduced")] = False,
    ids: Annotated[bool, typer.Option("--ids", help="print the papers' names only, for scripts")] = False,
    index: Annotated[
        Path | None, typer.Option(help="write index.md for all results under this folder", show_default=False)
    ] = None,
    scale: Annotated[str, typer.Option(help="small (about a minute), medium, or full (the paper's setting)")] = "small",
    data: Annotated[
        str | None, typer.Option(help="data source instead of the paper's, such as fashion-mnist", show_default=False)
    ] = None,
    out: Out = None,
    results: Annotated[
        Path | None,
        typer.Option(help="keep the result under this folder, replacing an earlier one", show_default=False),
    ] = None,
) -> None:
    """Reproduce a paper's figure, its numbers beside ours."""
    from fedtempo.cli import reproduce as reproduce_commands

    if index is not None:
        reproduce_commands.index_results(console, index)
        return
    reproduce_commands.reproduce(console, what, list_only, ids, scale, data, out, results)


@app.command(epilog="Example: fedtempo doctor --json")
def doctor(json: Annotated[bool, typer.Option("--json", help="print one JSON object, for scripts")] = False) -> None:
    """Show what is installed, what is missing, what would help.

    The exit code is 1 where something needed is missing.
    """
    from fedtempo.cli.doctor import examine, show

    findings = examine()
    raise typer.Exit(show(console, findings, json=json))


app.command(epilog="Example: fedtempo client client.toml --log-format json")(deploy_arguments.client)
app.command(epilog="Example: fedtempo deploy configs/fedhusky-local.toml --local 5")(deploy_arguments.deploy)
app.command(epilog="Example: fedtempo keys keys --host server.example.org --client ward-1 --client ward-2")(
    deploy_arguments.keys
)


def _tell(error: FedtempoError) -> None:
    """Print the lines of the user's code that led to the error, and the error in one line."""
    if os.environ.get("FEDTEMPO_DEBUG"):
        traceback.print_exception(error)
    elif error.frames:
        errors.print(error.frames, markup=False, highlight=False, soft_wrap=True)
    errors.print(f"error: {error}", style="red", markup=False, highlight=False, soft_wrap=True)


def main() -> None:
    """Run the program: errors become one line and an exit code.

    2: configuration, or code that it names; 3: run; 130: Ctrl-C; 143: SIGTERM. $FEDTEMPO_DEBUG: the traceback as well.
    """
    gc.set_threshold(50_000, 20, 20)  # importing makes many objects and no garbage: a tenth of the time to an error
    sys.path.insert(0, "")  # a user's modules in the current directory, as with `python -m`
    terminated = False

    def terminate(number: int, frame: FrameType | None) -> None:
        nonlocal terminated
        terminated = True
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, terminate)
    try:
        app()
    except Interrupted as error:
        errors.print(f"{error}", style="yellow", markup=False, highlight=False, soft_wrap=True)
        sys.exit(_TERMINATED if terminated else _INTERRUPTED)
    except FedtempoError as error:
        _tell(error)
        sys.exit(2 if isinstance(error, ConfigError) else 3)
    except KeyboardInterrupt:
        errors.print("interrupted")
        sys.exit(_TERMINATED if terminated else _INTERRUPTED)
    except SystemExit as ended:
        if terminated and ended.code == _INTERRUPTED:
            sys.exit(_TERMINATED)
        raise
