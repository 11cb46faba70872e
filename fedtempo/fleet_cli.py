"""The arguments of `fedtempo fleet import`, `fit`, `export` and `plot`; see `fedtempo.cli`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

fleet = typer.Typer(no_args_is_help=True, help="Fleets: who the clients are.")
console = Console(emoji=False)

ConfigFile = Annotated[Path, typer.Argument(help="configuration in TOML", show_default=False)]
Sets = Annotated[list[str], typer.Option("--set", help="override a key: section.key=value; may be repeated")]
Column = Annotated[str | None, typer.Option(help="column of a CSV", show_default=False)]


@fleet.command(name="import")
def import_(
    files: Annotated[
        list[Path],
        typer.Argument(help="CSV, or FedScale's traces as JSON: capacities, and presences", show_default=False),
    ],
    out: Annotated[Path, typer.Option(help="new TOML file with a [fleet]", show_default=False)],
    columns: Annotated[Path | None, typer.Option(help="TOML that says which column is what")] = None,
    compute: Annotated[str | None, typer.Option(help="column of computing times or speeds")] = None,
    compute_unit: Annotated[
        str | None, typer.Option(help="s/visit, ms/visit, s/example, ms/example, example/s")
    ] = None,
    compute_factor: Annotated[float | None, typer.Option(help="factor on it: 3 from inference to training")] = None,
    rate: Annotated[str | None, typer.Option(help="column of the rate both ways; or --download and --upload")] = None,
    download: Column = None,
    upload: Column = None,
    rate_unit: Annotated[str | None, typer.Option(help="bit/s, kbit/s, Mbit/s, B/s, kB/s, MB/s")] = None,
    watts: Column = None,
    begin: Annotated[str | None, typer.Option(help="columns of when a device comes and leaves, with --end")] = None,
    end: Column = None,
    time_unit: Annotated[str | None, typer.Option(help="their unit: s, ms, min, h")] = None,
    client: Annotated[str | None, typer.Option(help="column that tells devices apart; else a line is one")] = None,
    clients: Annotated[int | None, typer.Option(min=1, help="draw so many; all if not given")] = None,
    seed: Annotated[int, typer.Option(min=0, help="of that draw")] = 1,
    estimates: Annotated[str, typer.Option(help="what the server believes of them, by name")] = "exact",
) -> None:
    """Recorded devices as a [fleet]; FedScale's pickles become JSON first (docs/fleets.md)."""
    from fedtempo import fleet_commands

    given = {
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
        "client": client,
    }
    fleet_commands.import_fleet(console, files, out, columns, given, clients, seed, estimates)


@fleet.command()
def fit(
    file: Annotated[Path, typer.Argument(help="CSV with measured values", show_default=False)],
    column: Annotated[str, typer.Option(help="the column", show_default=False)],
    client: Annotated[
        str | None, typer.Option(help="column that tells devices apart: of each the median counts")
    ] = None,
) -> None:
    """Which distribution describes measured times, by AIC, and whether it does so well."""
    from fedtempo import fleet_commands

    fleet_commands.fit_column(console, file, column, client)


@fleet.command()
def export(
    config: ConfigFile,
    out: Annotated[Path, typer.Option(help="new .csv, .parquet, .json or .toml", show_default=False)],
    set_: Sets = [],  # noqa: B006
) -> None:
    """The clients that a configuration draws, a row each; as .toml the [fleet] without chance."""
    from fedtempo import fleet_commands

    fleet_commands.export(console, config, out, set_)


@fleet.command()
def plot(
    config: ConfigFile,
    out: Annotated[Path, typer.Option(help="PNG, SVG or PDF")] = Path("fleet.png"),
    set_: Sets = [],  # noqa: B006
) -> None:
    """A picture of a fleet: visits by part, their spread, rates, places, who is there when."""
    from fedtempo import fleet_commands

    fleet_commands.plot(console, config, out, set_)
