"""The arguments of the commands below `fedtempo fleet`; see `fedtempo.cli.app`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedtempo.cli.options import ConfigFile, Group, Local, Sets, console

fleet = typer.Typer(
    cls=Group,
    no_args_is_help=True,
    help="Fleets: who the clients are.",
    epilog="Example: fedtempo fleet measure configs/fedhusky-local.toml --local 5 --out fleet.toml",
)


@fleet.command(name="import", epilog="Example: fedtempo fleet import phones.csv --compute seconds --out phones.toml")
def import_(
    files: Annotated[list[Path], typer.Argument(help="CSV, or FedScale's traces as JSON", show_default=False)],
    out: Annotated[Path, typer.Option(help="new TOML file", show_default=False)],
    columns: Annotated[Path | None, typer.Option(help="TOML that says which column is what")] = None,
    client: Annotated[str | None, typer.Option(help="column that tells devices apart")] = None,
    compute: Annotated[str | None, typer.Option(help="column of computing times or speeds")] = None,
    compute_unit: Annotated[str | None, typer.Option(help="s/visit, ms/example, example/s, ...")] = None,
    compute_factor: Annotated[float | None, typer.Option(help="3, from inference to training")] = None,
    rate: Annotated[str | None, typer.Option(help="column of the rate both ways")] = None,
    download: Annotated[str | None, typer.Option(help="column of the rate to a device")] = None,
    upload: Annotated[str | None, typer.Option(help="column of the rate from a device")] = None,
    rate_unit: Annotated[str | None, typer.Option(help="bit/s, kbit/s, Mbit/s, B/s, kB/s, MB/s")] = None,
    watts: Annotated[str | None, typer.Option(help="column of the computing's watts")] = None,
    begin: Annotated[str | None, typer.Option(help="column of when a device comes")] = None,
    end: Annotated[str | None, typer.Option(help="column of when it leaves")] = None,
    time_unit: Annotated[str | None, typer.Option(help="of these: s, ms, min, h")] = None,
    clients: Annotated[int | None, typer.Option(help="draw so many of them")] = None,
    seed: Annotated[int, typer.Option(help="of that draw")] = 1,
    estimates: Annotated[str, typer.Option(help="of the server, by name")] = "exact",
) -> None:
    """Recorded devices as a fleet; docs/fleets.md says how."""
    from fedtempo.cli import fleet as fleet_commands

    given = {
        "client": client,
        "compute": compute,
        "compute_unit": compute_unit,
        "compute_factor": compute_factor,
        "rate": rate,
        "download": download,
        "upload": upload,
        "rate_unit": rate_unit,
        "watts": watts,
        "begin": begin,
        "end": end,
        "time_unit": time_unit,
    }
    fleet_commands.import_fleet(console, files, out, columns, given, clients, seed, estimates)


@fleet.command(epilog="Example: fedtempo fleet fit times.csv --column seconds --client device")
def fit(
    file: Annotated[Path, typer.Argument(help="CSV with measured values", show_default=False)],
    column: Annotated[str, typer.Option(help="the column", show_default=False)],
    client: Annotated[
        str | None, typer.Option(help="column that tells devices apart: of each the median counts")
    ] = None,
) -> None:
    """Which distribution describes measured times, and how well."""
    from fedtempo.cli import fleet as fleet_commands

    fleet_commands.fit_column(console, file, column, client)


@fleet.command(epilog="Example: fedtempo fleet export configs/fedhusky.toml --out clients.csv")
def export(
    config: ConfigFile,
    out: Annotated[Path, typer.Option(help="new .csv, .parquet, .json or .toml", show_default=False)],
    set_: Sets = [],  # noqa: B006
) -> None:
    """Write the clients that a configuration draws.

    A row each; as .toml the fleet without chance.
    """
    from fedtempo.cli import fleet as fleet_commands

    fleet_commands.export(console, config, out, set_)


@fleet.command(epilog="Example: fedtempo fleet plot configs/fedhusky.toml --out fleet.png")
def plot(
    config: ConfigFile,
    out: Annotated[Path, typer.Option(help="PNG, SVG or PDF")] = Path("fleet.png"),
    set_: Sets = [],  # noqa: B006
) -> None:
    """Draw a fleet: visits, rates, places, who is there when."""
    from fedtempo.cli import fleet as fleet_commands

    fleet_commands.plot(console, config, out, set_)


@fleet.command(epilog="Example: fedtempo fleet measure configs/fedhusky-local.toml --local 5 --out fleet.toml")
def measure(
    config: ConfigFile,
    out: Annotated[Path, typer.Option(help="new TOML file")],
    local: Local = None,
    visits: Annotated[int, typer.Option(min=1, help="visits of each client")] = 3,
    set_: Sets = [],  # noqa: B006
) -> None:
    """Ask each live client for a few visits of the real model, and write the fleet that they are."""
    from fedtempo.cli import deploy

    deploy.measure(console, config, local, visits, out, set_)


@fleet.command(name="compare", epilog="Example: fedtempo fleet compare runs/simulated runs/deployed")
def fleet_compare(
    simulated: Annotated[Path, typer.Argument(help="folder of a simulation on a measured fleet", show_default=False)],
    deployed: Annotated[Path, typer.Argument(help="folder of the same run on real clients", show_default=False)],
) -> None:
    """How well a simulation predicted a deployment: times, how busy clients are, time to target."""
    from fedtempo.cli import runs

    runs.compare_with_real(console, simulated, deployed)
