"""The commands. No logic of their own: each reads its arguments, calls one function, and shows what came out.

What a command needs is imported when it runs, so that `fedtempo --help` answers at once.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer
from rich.console import Console

from fedtempo.errors import ConfigError, FedtempoError
from fedtempo.fleet_cli import fleet
from fedtempo.logs import Format

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    help="Federated learning on a virtual clock: who trains when, in which order, over which link.",
)
_INTERRUPTED, _TERMINATED = 128 + 2, 128 + 15
"""Exit codes of what a signal ended: SIGINT, SIGTERM."""


app.add_typer(fleet, name="fleet")
console = Console(emoji=False)
errors = Console(stderr=True, emoji=False)

ConfigFile = Annotated[Path, typer.Argument(help="configuration in TOML", show_default=False)]
Sets = Annotated[list[str], typer.Option("--set", help="override a key: section.key=value; may be repeated")]
Out = Annotated[Path | None, typer.Option(help="new folder for the results; a name under runs/ where not given")]
Strategies = Annotated[str, typer.Option(help="comma-separated names, labels of [compare.<label>] tables, or all")]
Local = Annotated[
    int | None, typer.Option(help="start so many clients and a SuperLink on this machine; [deploy] counts if not given")
]
Runs = Annotated[list[Path], typer.Argument(help="run folders, or folders of a comparison", show_default=False)]


@app.command()
def run(
    config: ConfigFile,
    out: Out = None,
    set_: Sets = [],  # noqa: B006
    seed: Annotated[int | None, typer.Option(help="the same as --set run.seed=N")] = None,
) -> None:
    """Run one strategy and leave a folder with everything that happened."""
    from fedtempo import commands

    raise typer.Exit(commands.run(console, config, out, set_, seed))


@app.command()
def resume(
    folder: Annotated[Path, typer.Argument(help="folder of a run or of a comparison", show_default=False)],
    set_: Annotated[
        list[str],
        typer.Option("--set", help="change what no result depends on: executor.workers=4, run.checkpoint_every=10"),
    ] = [],  # noqa: B006
    force: Annotated[bool, typer.Option("--force", help="resume although versions or code have changed")] = False,
    log_format: Annotated[
        Format | None, typer.Option(help="of a run on real clients: as `fedtempo deploy` has it")
    ] = None,
) -> None:
    """Go on with a run, a deployment or a comparison that was interrupted or killed, as if it had never been."""
    from fedtempo import commands, deploy_commands

    if deploy_commands.is_deployment(folder):
        code = deploy_commands.resume(console, folder, set_, force, log_format)
    else:
        code = commands.resume(console, folder, set_, force)
    raise typer.Exit(code)


@app.command()
def compare(
    config: ConfigFile,
    strategies: Strategies,
    seeds: Annotated[str, typer.Option(help="seeds: 1-5, or 1,3,7")] = "1",
    out: Out = None,
    set_: Sets = [],  # noqa: B006
) -> None:
    """Run several strategies on the same fleet, data and seeds; table, report.html and comparison.json."""
    from fedtempo import commands

    raise typer.Exit(commands.compare(console, config, strategies, seeds, out, set_))


@app.command()
def tune(
    config: ConfigFile,
    strategies: Strategies,
    lr: Annotated[str, typer.Option(help="learning rates: the largest and the smallest")] = "0.3:0.001",
    factor: Annotated[float, typer.Option(help="from one learning rate to the next")] = 3.0,
    seeds: Annotated[
        str, typer.Option(help="others than those of the comparison that the settings are for")
    ] = "101,102",
    budget: Annotated[
        float | None,
        typer.Option(help="horizons that each strategy may run a seed; two thirds of the learning rates if not given"),
    ] = None,
    workers: Annotated[int | None, typer.Option(help="runs at once; as many as there are processors")] = None,
    set_: Sets = [],  # noqa: B006
) -> None:
    """Find each strategy's learning rate on one grid with the same budget, by successive halving."""
    from fedtempo import commands

    commands.tune(console, config, strategies, lr, factor, seeds, budget, workers, set_)


@app.command()
def plan(
    config: ConfigFile,
    strategies: Annotated[
        str | None, typer.Option(help="comma-separated names; the configuration's own if not given")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="new folder for pictures; none are drawn if not given")] = None,
    set_: Sets = [],  # noqa: B006
) -> None:
    """Predict without training: how busy clients are, groups alive, rounds. Takes seconds."""
    from fedtempo import commands

    commands.plan(console, config, strategies, out, set_)


@app.command(epilog="Example: fedtempo advise configs/fedhusky.toml --budget 80")
def advise(
    config: ConfigFile,
    strategies: Annotated[
        str | None, typer.Option(help="comma-separated names or labels; all strategies and labels if not given")
    ] = None,
    budget: Annotated[
        str | None, typer.Option(help="short trainings, like 80, or real time, like 90s, 5m, 1h", show_default=False)
    ] = None,
    short: Annotated[
        float | None, typer.Option(help="seconds of the run's clock that a training lasts; a quarter of the horizon")
    ] = None,
    workers: Annotated[int | None, typer.Option(help="trainings at once; as many as there are processors")] = None,
    json: Annotated[bool, typer.Option("--json", help="all of it as JSON, and nothing else")] = False,
    set_: Sets = [],  # noqa: B006
) -> None:
    """Which strategy to use here, what it costs, and how sure that is.

    Short trainings of all strategies that fit, and again with wrong estimates and with drop-outs.
    """
    from fedtempo.advice_commands import show_advice

    show_advice(console, config, strategies, budget, short, workers, json, set_)


@app.command()
def report(
    runs: Runs,
    out: Annotated[Path | None, typer.Option(help="file; report.html in the first folder if not given")] = None,
) -> None:
    """Draw runs into one self-contained page."""
    from fedtempo import commands

    commands.report(console, runs, out)


@app.command()
def export(
    run: Annotated[Path, typer.Argument(help="run folder", show_default=False)],
    to: Annotated[str, typer.Option(help="parquet or csv")] = "parquet",
    out: Annotated[Path | None, typer.Option(help="folder for the files; tables/ in the run if not given")] = None,
) -> None:
    """Write a run's tables for pandas, DuckDB or R."""
    from fedtempo import commands

    commands.export(console, run, to, out)


@app.command()
def check(config: ConfigFile, set_: Sets = []) -> None:  # noqa: B006
    """Run a configuration on different executors and worker counts, and say whether every bit agrees."""
    from fedtempo import commands

    raise typer.Exit(commands.check(console, config, set_))


@app.command(name="list")
def list_(
    what: Annotated[str | None, typer.Argument(help="strategies, networks, links, ...; all if not given")] = None,
) -> None:
    """What there is, by name."""
    from fedtempo import catalogue

    catalogue.list_parts(console, what)


@app.command()
def describe(
    name: Annotated[str, typer.Argument(help="a name that `fedtempo list` prints", show_default=False)],
) -> None:
    """Every field of a part: meaning, unit, default and source."""
    from fedtempo import catalogue

    catalogue.describe(console, name)


@app.command()
def new(
    kind: Annotated[str, typer.Argument(help="strategy, network, data or partition", show_default=False)],
    name: Annotated[str, typer.Argument(help="what it is called, like my-idea", show_default=False)],
    folder: Annotated[Path, typer.Option(help="where to write it")] = Path(),
) -> None:
    """Begin a part of your own: a commented file that works as it is, and its test."""
    from fedtempo import skeletons

    for path in skeletons.write(kind, name, folder):
        console.print(f"{path}", style="cyan", soft_wrap=True)


@app.command()
def reproduce(
    what: Annotated[str | None, typer.Argument(help="paper/figure, for example fedhusky/fig5")] = None,
    list_only: Annotated[bool, typer.Option("--list", help="list what can be reproduced")] = False,
    ids: Annotated[bool, typer.Option("--ids", help="the papers' names alone, for scripts")] = False,
    index: Annotated[
        Path | None, typer.Option(help="write index.md over all results below this folder", show_default=False)
    ] = None,
    scale: Annotated[str, typer.Option(help="small (a minute or so), medium, or full (the paper's setting)")] = "small",
    data: Annotated[
        str | None, typer.Option(help="a source in place of the paper's data, like fashion-mnist", show_default=False)
    ] = None,
    out: Out = None,
    results: Annotated[
        Path | None,
        typer.Option(help="keep the result below this folder, in place of an earlier one", show_default=False),
    ] = None,
) -> None:
    """A paper's figure: run, picture, and the paper's numbers beside the measured ones."""
    from fedtempo import commands

    if index is not None:
        commands.index_results(console, index)
        return
    commands.reproduce(console, what, list_only, ids, scale, data, out, results)


@app.command()
def client(
    config: Annotated[Path, typer.Argument(help="the client's own TOML", show_default=False)],
    log_format: Annotated[Format, typer.Option(help="how it logs, on stderr")] = Format.text,
) -> None:
    """Be a client of a deployment: train on this machine's data whenever the server asks."""
    from fedtempo import deploy_commands

    deploy_commands.client(config, log_format)


@app.command()
def deploy(
    config: ConfigFile,
    local: Local = None,
    out: Out = None,
    set_: Sets = [],  # noqa: B006
    seed: Annotated[int | None, typer.Option(help="the same as --set run.seed=N")] = None,
    log_format: Annotated[
        Format | None, typer.Option(help="log each visit, commit and evaluation on stderr; not if not given")
    ] = None,
) -> None:
    """Run one strategy on real clients through Flower, and leave a folder like a simulation's."""
    from fedtempo import deploy_commands

    raise typer.Exit(deploy_commands.deploy(console, config, local, out, set_, seed, log_format))


@app.command()
def keys(
    folder: Annotated[Path, typer.Argument(help="where certificates and keys lie", show_default=False)],
    host: Annotated[
        list[str], typer.Option(help="name or address by which clients reach the server; may be repeated")
    ] = [],  # noqa: B006
    client: Annotated[list[str], typer.Option(help="client that gets a key; may be repeated")] = [],  # noqa: B006
    renew_server: Annotated[bool, typer.Option(help="make a new certificate and key for the server")] = False,
    register: Annotated[
        str | None, typer.Option(help="host:port of a running SuperLink that is to let these clients in")
    ] = None,
) -> None:
    """Make an authority, a server's certificate and clients' keys; what is there stays."""
    from fedtempo import deploy_commands

    deploy_commands.keys(console, folder, host, client, renew_server, register)


@fleet.command()
def measure(
    config: ConfigFile,
    out: Annotated[Path, typer.Option(help="new TOML file")],
    local: Local = None,
    visits: Annotated[int, typer.Option(min=1, help="visits of each client")] = 3,
    set_: Sets = [],  # noqa: B006
) -> None:
    """Ask each live client for a few visits of the real model, and write the fleet that they are."""
    from fedtempo import deploy_commands

    deploy_commands.measure(console, config, local, visits, out, set_)


@fleet.command(name="compare")
def fleet_compare(
    simulated: Annotated[Path, typer.Argument(help="folder of a simulation on a measured fleet", show_default=False)],
    deployed: Annotated[Path, typer.Argument(help="folder of the same run on real clients", show_default=False)],
) -> None:
    """How well a simulation predicted a deployment: times, how busy clients are, time to target."""
    from fedtempo import commands

    commands.compare_with_real(console, simulated, deployed)


def main() -> None:
    """Entry point: errors of ours become one line and an exit code: 2 configuration, 3 run, 130 Ctrl-C, 143 SIGTERM."""
    sys.path.insert(0, "")  # a user's modules in the current directory, as with `python -m`
    terminated = False

    def terminate(number: int, frame: FrameType | None) -> None:
        nonlocal terminated
        terminated = True
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, terminate)
    try:
        app()
    except ConfigError as error:
        errors.print(f"error: {error}", style="red", markup=False, highlight=False, soft_wrap=True)
        sys.exit(2)
    except FedtempoError as error:
        errors.print(f"error: {error}", style="red", markup=False, highlight=False, soft_wrap=True)
        sys.exit(3)
    except KeyboardInterrupt:
        errors.print("interrupted")
        sys.exit(_TERMINATED if terminated else _INTERRUPTED)
    except SystemExit as ended:
        if terminated and ended.code == _INTERRUPTED:
            sys.exit(_TERMINATED)
        raise
