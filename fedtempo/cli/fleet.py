"""The commands below `fedtempo fleet`."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedtempo.cli.options import ConfigFile, Group, Local, Sets, console, experiment_of, local_experiment

if TYPE_CHECKING:
    from rich.table import Table

    from fedtempo.fleet.fitting import Fit

fleet = typer.Typer(
    cls=Group,
    no_args_is_help=True,
    help="Import, fit, measure, export and draw fleets.",
    epilog="Example: fedtempo fleet measure configs/fedhusky-local.toml --local 5 --out fleet.toml",
)


@fleet.command(name="import", epilog="Example: fedtempo fleet import phones.csv --compute seconds --out phones.toml")
def import_(
    files: Annotated[
        list[Path], typer.Argument(help="CSV files, FedScale traces (JSON), or phones (recorded)", show_default=False)
    ],
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
    from fedtempo.api.fleets import import_fleet

    options = {
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
    given = {name: value for name, value in options.items() if value is not None}
    imported = import_fleet(files, out, columns, clients=clients, seed=seed, estimates=estimates, **given)
    for path in (imported.path, imported.trace):
        if path is not None:
            console.print(f"{path}", style="cyan", soft_wrap=True)
    console.print(f"{imported.devices} of {imported.recorded} devices", style="dim", highlight=False)


@fleet.command(epilog="Example: fedtempo fleet events state_traces.json --period record --out availability.csv")
def events(
    file: Annotated[
        Path, typer.Argument(help="FLASH's or FedScale's traces (JSON), or a CSV of events", show_default=False)
    ],
    out: Annotated[Path, typer.Option(help="new CSV", show_default=False)],
    ready: Annotated[
        str | None,
        typer.Option(
            help="comma-separated: charging, wifi, locked, screen_off, battery (default: the first three, as FLASH)"
        ),
    ] = None,
    on: Annotated[
        str | None, typer.Option(help="comma-separated: events with which a device becomes available")
    ] = None,
    off: Annotated[str | None, typer.Option(help="comma-separated: events with which it leaves")] = None,
    time_zone: Annotated[
        str | None, typer.Option(help="time zone of times without offset (default: none, days have 24 hours)")
    ] = None,
    start: Annotated[
        str | None, typer.Option(help="when the clock starts (default: midnight before the events)")
    ] = None,
    period: Annotated[
        str | None, typer.Option(help="days (whole days of each record), record (its length), none, or seconds")
    ] = None,
    client: Annotated[str | None, typer.Option(help="CSV: column that identifies devices")] = None,
    time: Annotated[str | None, typer.Option(help="CSV: column of times")] = None,
    event: Annotated[str | None, typer.Option(help="CSV: column of events")] = None,
) -> None:
    """Find out from events when devices are available."""
    from fedtempo.api.fleets import import_availability

    options: dict[str, Any] = {name: value for name, value in (("time_zone", time_zone), ("start", start)) if value}
    options |= {name: value for name, value in (("client", client), ("time", time), ("event", event)) if value}
    for name, names in (("ready", ready), ("on", on), ("off", off)):
        if names is not None:
            options[name] = [part.strip() for part in names.split(",")]
    if period is not None:
        options["period"] = _number(period)
    imported = import_availability(file, out, **options)
    share = "" if imported.available is None else f", available {imported.available:.1%} of the time on average"
    console.print(f"{imported.path}", style="cyan", soft_wrap=True)
    found = f"{imported.devices:,} of {imported.recorded:,} devices{share}; {imported.about}"
    console.print(found, style="dim", highlight=False, soft_wrap=True)


@fleet.command(epilog="Example: fedtempo fleet fit times.csv --column seconds --client device")
def fit(
    file: Annotated[Path, typer.Argument(help="CSV with measured values", show_default=False)],
    column: Annotated[str, typer.Option(help="column of the values", show_default=False)],
    client: Annotated[
        str | None, typer.Option(help="column that identifies devices; each counts by its median")
    ] = None,
) -> None:
    """Find the distribution that describes measured times."""
    from fedtempo.api.fleets import fit_distribution
    from fedtempo.fleet.fitting import DOUBTFUL
    from fedtempo.studies.tuning.report import toml_line

    fitted = fit_distribution(file, column, client)
    low, high = min(fitted.values), max(fitted.values)
    title = f"{file.name}, {column}: {len(fitted.values)} values from {low:.4g} to {high:.4g}"
    console.print(_fits_table(title, fitted.fits))
    if not fitted.best.good:
        console.print(
            f"None of them describes the values (Kolmogorov-Smirnov, p < {DOUBTFUL:g}): take the values themselves.",
            style="yellow",
            highlight=False,
            soft_wrap=True,
        )
    console.print(toml_line(fitted.table()), highlight=False, soft_wrap=True)


@fleet.command(epilog="Example: fedtempo fleet export configs/fedhusky.toml --out clients.csv")
def export(
    config: ConfigFile,
    out: Annotated[Path, typer.Option(help="new .csv, .parquet, .json or .toml", show_default=False)],
    set_: Sets = [],  # noqa: B006
) -> None:
    """Write the clients of a configuration.

    A row each; as .toml the fleet without chance.
    """
    console.print(f"{experiment_of(config, set_).export_fleet(out)}", style="cyan", soft_wrap=True)


@fleet.command(epilog="Example: fedtempo fleet plot configs/fedhusky.toml --out fleet.png")
def plot(
    config: ConfigFile,
    out: Annotated[Path, typer.Option(help="output file: PNG, SVG or PDF")] = Path("fleet.png"),
    set_: Sets = [],  # noqa: B006
) -> None:
    """Draw a fleet: visit times, rates, positions, availability."""
    experiment = experiment_of(config, set_)
    from fedtempo.report.figures import write_figure

    write_figure(experiment.fleet_figure(), out)
    console.print(f"{out}", style="cyan", soft_wrap=True)


@fleet.command(epilog="Example: fedtempo fleet measure configs/fedhusky-local.toml --local 5 --out fleet.toml")
def measure(
    config: ConfigFile,
    out: Annotated[Path, typer.Option(help="new TOML file")],
    local: Local = None,
    visits: Annotated[int, typer.Option(min=1, help="number of visits per client")] = 3,
    set_: Sets = [],  # noqa: B006
) -> None:
    """Measure live clients with the real model, and write their fleet."""
    experiment = local_experiment(config, local, set_)
    from fedtempo.cli.progress import terminal

    with console.status(f"{visits} visits of each client"):
        experiment.measure_fleet(out, local=local, visits=visits, display=terminal(console, deployed=True))
    console.print(f"{out}", style="cyan", soft_wrap=True)


@fleet.command(name="compare", epilog="Example: fedtempo fleet compare runs/simulated runs/deployed")
def fleet_compare(
    simulated: Annotated[Path, typer.Argument(help="folder of a simulation on a measured fleet", show_default=False)],
    deployed: Annotated[Path, typer.Argument(help="folder of the same run on real clients", show_default=False)],
    fleet_file: Annotated[
        Path | None,
        typer.Option("--fleet", help="file of `fleet measure`: warn if the machines' load was another then"),
    ] = None,
) -> None:
    """Compare a simulation with the deployment that it predicted."""
    from fedtempo.api.reports import compare_with_deployment, load_differences
    from fedtempo.report.table import prediction_table

    console.print(prediction_table(compare_with_deployment(simulated, deployed)))
    if fleet_file is not None and (lines := load_differences(fleet_file, deployed)):
        from fedtempo.deploy.loads import warning

        console.print(warning(lines), style="yellow", highlight=False, soft_wrap=True, markup=False)


def _number(text: str) -> float | str:
    """Return a number, or the text if it is none."""
    try:
        return float(text)
    except ValueError:
        return text


def _fits_table(title: str, fits: Iterable[Fit]) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(
        title=title, title_justify="left", title_style="bold", header_style="dim", box=box.SIMPLE, padding=(0, 1)
    )
    table.add_column("distribution", no_wrap=True)
    for name in ("AIC", "KS", "p"):
        table.add_column(name, justify="right", no_wrap=True)
    for position, fit in enumerate(fits):
        aic = "" if math.isinf(fit.aic) else f"{fit.aic:.1f}"
        p = "" if fit.p is None else f"{fit.p:.3g}"
        table.add_row(fit.kind, aic, f"{fit.ks:.3f}", p, style="bold green" if position == 0 else "")
    return table
