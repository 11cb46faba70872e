"""The arguments of the commands below `fedtempo fleet`; see `fedtempo.cli.app`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedtempo.cli.options import ConfigFile, Group, Local, Sets, console

fleet = typer.Typer(
    cls=Group,
    no_args_is_help=True,
    help="Import, fit, measure, export and draw fleets.",
    epilog="Example: fedtempo fleet measure configs/fedhusky-local.toml --local 5 --out fleet.toml",
)


@fleet.command(name="import", epilog="Example: fedtempo fleet import phones.csv --compute seconds --out phones.toml")
def import_(
    files: Annotated[list[Path], typer.Argument(help="CSV files, or FedScale traces (JSON)", show_default=False)],
    out: Annotated[Path, typer.Option(help="new TOML file", show_default=False)],
    columns: Annotated[Path | None, typer.Option(help="TOML file that maps columns")] = None,
    client: Annotated[str | None, typer.Option(help="column that identifies devices")] = None,
    compute: Annotated[str | None, typer.Option(help="column of compute times or speeds")] = None,
    compute_unit: Annotated[str | None, typer.Option(help="s/visit, ms/example, example/s, ...")] = None,
    compute_factor: Annotated[
        float | None, typer.Option(help="factor on compute times, such as 3 from inference to training")
    ] = None,
    rate: Annotated[str | None, typer.Option(help="column of the rate in both directions")] = None,
    download: Annotated[str | None, typer.Option(help="column of the download rate")] = None,
    upload: Annotated[str | None, typer.Option(help="column of the upload rate")] = None,
    rate_unit: Annotated[str | None, typer.Option(help="bit/s, kbit/s, Mbit/s, B/s, kB/s, MB/s")] = None,
    watts: Annotated[str | None, typer.Option(help="column of the power while computing (W)")] = None,
    begin: Annotated[str | None, typer.Option(help="column of the time at which a device becomes available")] = None,
    end: Annotated[str | None, typer.Option(help="column of the time at which it leaves")] = None,
    time_unit: Annotated[str | None, typer.Option(help="unit of these times: s, ms, min or h")] = None,
    clients: Annotated[int | None, typer.Option(help="number of devices to draw (default: keep all)")] = None,
    seed: Annotated[int, typer.Option(help="random seed of the draw")] = 1,
    estimates: Annotated[str, typer.Option(help="name of the server's estimates")] = "exact",
) -> None:
    """Make a fleet from recorded devices (docs/fleets.md)."""
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
    column: Annotated[str, typer.Option(help="column of the values", show_default=False)],
    client: Annotated[
        str | None, typer.Option(help="column that identifies devices; each counts by its median")
    ] = None,
) -> None:
    """Find the distribution that describes measured times."""
    from fedtempo.cli import fleet as fleet_commands

    fleet_commands.fit_column(console, file, column, client)


@fleet.command(epilog="Example: fedtempo fleet export configs/fedhusky.toml --out clients.csv")
def export(
    config: ConfigFile,
    out: Annotated[Path, typer.Option(help="new .csv, .parquet, .json or .toml", show_default=False)],
    set_: Sets = [],  # noqa: B006
) -> None:
    """Write the clients of a configuration.

    A row each; as .toml the fleet without chance.
    """
    from fedtempo.cli import fleet as fleet_commands

    fleet_commands.export(console, config, out, set_)


@fleet.command(epilog="Example: fedtempo fleet plot configs/fedhusky.toml --out fleet.png")
def plot(
    config: ConfigFile,
    out: Annotated[Path, typer.Option(help="output file: PNG, SVG or PDF")] = Path("fleet.png"),
    set_: Sets = [],  # noqa: B006
) -> None:
    """Draw a fleet: visit times, rates, positions, availability."""
    from fedtempo.cli import fleet as fleet_commands

    fleet_commands.plot(console, config, out, set_)


@fleet.command(epilog="Example: fedtempo fleet measure configs/fedhusky-local.toml --local 5 --out fleet.toml")
def measure(
    config: ConfigFile,
    out: Annotated[Path, typer.Option(help="new TOML file")],
    local: Local = None,
    visits: Annotated[int, typer.Option(min=1, help="number of visits per client")] = 3,
    set_: Sets = [],  # noqa: B006
) -> None:
    """Measure live clients with the real model, and write their fleet."""
    from fedtempo.cli import deploy

    deploy.measure(console, config, local, visits, out, set_)


@fleet.command(name="compare", epilog="Example: fedtempo fleet compare runs/simulated runs/deployed")
def fleet_compare(
    simulated: Annotated[Path, typer.Argument(help="folder of a simulation on a measured fleet", show_default=False)],
    deployed: Annotated[Path, typer.Argument(help="folder of the same run on real clients", show_default=False)],
) -> None:
    """Compare a simulation with the deployment that it predicted."""
    from fedtempo.cli import runs

    runs.compare_with_real(console, simulated, deployed)
