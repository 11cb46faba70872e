"""What `fedtempo fleet import`, `fit`, `export` and `plot` do."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w
from rich import box
from rich.console import Console
from rich.table import Table

from fedtempo.errors import ConfigError
from fedtempo.fleet.devices import Columns, Devices, column_of, fleet_table, read_devices, write_trace
from fedtempo.fleet.fitting import DOUBTFUL, Fit, empirical, fit
from fedtempo.parts.construct import construct
from fedtempo.record.strict_json import write_text
from fedtempo.runs.config import load
from fedtempo.studies.fleet import export_fleet
from fedtempo.studies.tuning.report import toml_line


def import_fleet(
    console: Console,
    files: list[Path],
    out: Path,
    mapping: Path | None,
    given: Mapping[str, Any],
    clients: int | None,
    seed: int,
    estimates: str,
) -> None:
    """Recorded devices as a `[fleet]` in a new file, with a trace beside it where it is known when they are there."""
    if out.exists():
        raise ConfigError(f"{out} is there: nothing is overwritten; choose another file with --out")
    trace = out.with_name(f"{out.stem}-availability.csv")
    if trace.exists():
        raise ConfigError(f"{trace} is there: nothing is overwritten; choose another file with --out")
    if seed < 0:
        raise ConfigError(f"seed = {seed}: must be 0 or more")
    devices = together(files, _columns(mapping, given))
    known = len(devices.devices)
    if clients is not None:
        devices = devices.drawn(clients, np.random.default_rng(seed))
    present = any(device.windows for device in devices.devices)
    table = fleet_table(devices, trace=trace.as_posix() if present else None, estimates=estimates)
    text = f"# {len(devices.devices)} of {known} devices from {', '.join(path.name for path in files)}.\n"
    if clients is not None:
        text += f"# Drawn with seed {seed}: {', '.join(device.name for device in devices.devices[:20])}, ...\n"
    text += tomli_w.dumps({"data": {"clients": len(devices.devices)}, "fleet": table})
    write_text(out, text)
    console.print(f"{out}", style="cyan", soft_wrap=True)
    if present:
        write_trace(devices, trace)
        console.print(f"{trace}", style="cyan", soft_wrap=True)
    console.print(f"{len(devices.devices)} of {known} devices", style="dim", highlight=False)


def together(files: list[Path], columns: Columns | None) -> Devices:
    """One set of devices from a file of capacities, and one of presences where there is one, in either order.

    Raises ConfigError where capacities or devices are missing.
    """
    if not 1 <= len(files) <= 2:
        raise ConfigError("files: give one of capacities, and one of presences where there is one")
    found = [read_devices(path, columns) for path in files]
    capacities = [devices for devices in found if any(device.compute is not None for device in devices.devices)]
    if len(capacities) != 1:
        raise ConfigError(f"{files[0]}: exactly one file must say how fast devices compute; {len(capacities)} do")
    presences = [devices for devices in found if devices is not capacities[0]]
    return capacities[0].joined(presences[0]) if presences else capacities[0]


def _columns(mapping: Path | None, given: Mapping[str, Any]) -> Columns | None:
    """Columns as a TOML file and options say; an option takes precedence."""
    table: dict[str, Any] = {}
    if mapping is not None:
        try:
            table = tomllib.loads(mapping.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            raise ConfigError(f"{mapping} cannot be read: {getattr(error, 'strerror', None) or error}") from error
    table |= {name: value for name, value in given.items() if value is not None}
    return construct(Columns, table, "columns") if table else None


def fit_column(console: Console, file: Path, column: str, client: str | None) -> None:
    """Distributions fitted to a CSV's column, best first, and the line for a configuration."""
    values = column_of(file, column, client)
    found = fit(values)
    table = Table(
        title=f"{file.name}, {column}: {len(values)} values from {min(values):.4g} to {max(values):.4g}",
        title_justify="left",
        title_style="bold",
        header_style="dim",
        box=box.SIMPLE,
        padding=(0, 1),
    )
    table.add_column("distribution", no_wrap=True)
    for name in ("AIC", "KS", "p"):
        table.add_column(name, justify="right", no_wrap=True)
    for place, each in enumerate(found):
        table.add_row(each.kind, *_criteria(each), style="bold green" if place == 0 else "")
    console.print(table)
    best = found[0]
    if best.good:
        console.print(toml_line(best.table()), markup=False, highlight=False, soft_wrap=True)
        return
    console.print(
        f"None of them describes the values (Kolmogorov-Smirnov, p < {DOUBTFUL:g}): take the values themselves.",
        style="yellow",
        highlight=False,
        soft_wrap=True,
    )
    themselves = {"kind": "discrete", "values": list(empirical(values).values)}
    console.print(toml_line(themselves), markup=False, highlight=False, soft_wrap=True)


def _criteria(each: Fit) -> tuple[str, str, str]:
    aic = "" if math.isinf(each.aic) else f"{each.aic:.1f}"
    return aic, f"{each.ks:.3f}", "" if each.p is None else f"{each.p:.3g}"


def export(console: Console, config: Path, out: Path, sets: list[str]) -> None:
    """The fleet of a configuration as a file."""
    console.print(f"{export_fleet(load(config, sets), out)}", style="cyan", soft_wrap=True)


def plot(console: Console, config: Path, out: Path, sets: list[str]) -> None:
    """The fleet of a configuration as a picture."""
    loaded = load(config, sets)
    from fedtempo.report.figures import write_figure
    from fedtempo.studies.fleet_figure import draw_fleet

    write_figure(draw_fleet(loaded), out)
    console.print(f"{out}", style="cyan", soft_wrap=True)
