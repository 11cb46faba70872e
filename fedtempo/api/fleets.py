"""Fleets from recorded devices, and distributions from measured times, from Python."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import tomli_w

from fedtempo.api.paths import Paths, path_list
from fedtempo.errors import ConfigError
from fedtempo.fleet.devices import Columns, Devices, column_of, fleet_table, read_devices, write_trace
from fedtempo.fleet.events import EventRules, read_events
from fedtempo.fleet.fitting import Fit, empirical, fit
from fedtempo.parts.construct import construct
from fedtempo.parts.text_files import parse_toml, read_text
from fedtempo.record.strict_json import write_text
from fedtempo.studies.phones import PHONES_NAME, fleet_of_phones, recorded_phones

_NAMES_SHOWN = 20


@dataclass(frozen=True)
class ImportedFleet:
    """The files of an imported fleet.

    path: TOML with `[data] clients` and a complete `[fleet]`, for `[fleet] preset = "..."`. trace: CSV with the times
    at which devices are available; None if the files do not say. devices: how many are in the fleet. recorded: how many
    the files hold.
    """

    path: Path
    trace: Path | None
    devices: int
    recorded: int


def import_fleet(
    files: Paths,
    out: Path | str,
    columns: Path | str | Mapping[str, Any] | None = None,
    *,
    clients: int | None = None,
    seed: int = 1,
    estimates: str = "exact",
    **options: Any,
) -> ImportedFleet:
    """Write recorded devices as a `[fleet]` to a new TOML file (`fedtempo fleet import`).

    files: a CSV, a FedScale trace (JSON), or two of them: compute times and rates, and times of availability; or
    "phones", the phones that come with fedtempo, which draw their speeds and rates from those of others. columns: the
    meaning of a CSV's columns, as a table or a TOML file with one; options: single keys of that table, which take
    precedence, such as compute="seconds", compute_unit="ms/example", rate="kbps", rate_unit="kbit/s". clients: number
    of devices to draw, all if None. seed: of the draw. estimates: name of the server's estimates. Raises ConfigError if
    a file cannot be read or lacks something, an option is unknown, or `out` exists.
    """
    paths, out = path_list("files", files), Path(out)
    trace = out.with_name(f"{out.stem}-availability.csv")
    for path in (out, trace):
        if path.exists():
            raise ConfigError(f"{path} already exists; choose another file (nothing was overwritten)")
    if seed < 0:
        raise ConfigError(f"seed = {seed}: must be 0 or more")
    own = [path.as_posix() for path in paths] == [PHONES_NAME]
    if own and (columns is not None or options):
        named = ", ".join(options) or "columns"
        raise ConfigError(f"{PHONES_NAME}: these phones have no columns to name; remove {named}")
    recorded = recorded_phones() if own else joined_devices(paths, _columns(columns, options))
    devices = recorded if clients is None else recorded.drawn(clients, np.random.default_rng(seed))
    count, known = len(devices.devices), len(recorded.devices)
    present = any(device.windows for device in devices.devices)
    if own:
        table = fleet_of_phones({"kind": "trace", "file": trace.as_posix()}) | {"estimates": estimates}
    else:
        table = fleet_table(devices, trace=trace.as_posix() if present else None, estimates=estimates)
    text = f"# {count} of {known} devices from {', '.join(path.name for path in paths)}.\n"
    if clients is not None:
        names = ", ".join(device.name for device in devices.devices[:_NAMES_SHOWN])
        text += f"# Drawn with seed {seed}: {names}, ...\n"
    write_text(out, text + tomli_w.dumps({"data": {"clients": count}, "fleet": table}))
    if present:
        write_trace(devices, trace)
    return ImportedFleet(out, trace if present else None, count, known)


@dataclass(frozen=True)
class ImportedAvailability:
    """A trace made from events. path: the CSV, for `availability = {kind = "trace", file = ...}`.

    devices: how many are in the trace. recorded: how many the file holds. available: the mean share of its period in
    which a device is available; None without periods. about: period, time zone, and which devices were left out.
    """

    path: Path
    devices: int
    recorded: int
    available: float | None
    about: str


def import_availability(file: Path | str, out: Path | str, **options: Any) -> ImportedAvailability:
    """Write when devices are available, as their events say, to a new CSV (`fedtempo fleet events`).

    file: FLASH's state traces (JSON), FedScale's presences (JSON), or a CSV of events. options: fields of
    `fedtempo.fleet.events.EventRules`, such as ready=["charging", "wifi"], time_zone="Europe/Berlin", period="record".
    Raises ConfigError if the file cannot be read, no device is usable, an option is unknown, or `out` exists.
    """
    out = Path(out)
    if out.exists():
        raise ConfigError(f"{out} already exists; choose another file (nothing was overwritten)")
    rules = construct(EventRules, options, "events") if options else None
    read = read_events(Path(file), rules)
    write_trace(read.devices, out)
    return ImportedAvailability(out, len(read.devices.devices), read.recorded, read.available, read.about)


def joined_devices(files: list[Path], columns: Columns | None) -> Devices:
    """Return the devices of a file of capacities, with those of a file of availability if there is one, in any order.

    Raises ConfigError if capacities or devices are missing.
    """
    if len(files) > 2:
        raise ConfigError(f"files: {len(files)} given; give one of capacities, and at most one of availability")
    read = [read_devices(path, columns) for path in files]
    capacities = [devices for devices in read if any(device.compute is not None for device in devices.devices)]
    if len(capacities) != 1:
        raise ConfigError(f"{files[0]}: exactly one file must say how fast devices compute; {len(capacities)} do")
    presences = [devices for devices in read if devices is not capacities[0]]
    return capacities[0].joined(presences[0]) if presences else capacities[0]


@dataclass(frozen=True)
class FittedDistributions:
    """Distributions fitted to measured values: fits, best first."""

    values: tuple[float, ...]
    fits: tuple[Fit, ...]

    @property
    def best(self) -> Fit:
        """The best fit by Akaike's criterion; `best.good` tells whether the values may come from it."""
        return self.fits[0]

    def table(self) -> dict[str, Any]:
        """Return the table for a configuration: the best fit, or quantiles of the values if it is not good."""
        if self.best.good:
            return self.best.table()
        return {"kind": "discrete", "values": list(empirical(self.values).values)}


def fit_distribution(
    values: Path | str | Iterable[float] | npt.NDArray[Any], column: str | None = None, client: str | None = None
) -> FittedDistributions:
    """Fit distributions to measured values, such as the seconds of visits (`fedtempo fleet fit`).

    values: at least five positive numbers, or a CSV file with them. column: their column in the file. client: column
    that identifies devices; each counts by its median. Raises ConfigError for unusable values or a missing column.
    """
    if isinstance(values, Path | str):
        if column is None:
            raise ConfigError(f"column: name the column of {values} that holds the values")
        numbers = column_of(Path(values), column, client)
    elif column is not None or client is not None:
        raise ConfigError("column, client: these are for a file; give the values alone, or a file")
    else:
        numbers = [float(value) for value in values]
    return FittedDistributions(tuple(numbers), tuple(fit(numbers)))


def _columns(columns: Path | str | Mapping[str, Any] | None, options: Mapping[str, Any]) -> Columns | None:
    """Return the columns of a table or a TOML file with single keys changed; None if neither is given."""
    table: dict[str, Any] = {}
    if isinstance(columns, Mapping):
        table = dict(columns)
    elif columns is not None:
        path = Path(columns)
        try:
            table = parse_toml(read_text(path))
        except (OSError, ValueError) as error:
            raise ConfigError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from error
    table |= options
    return construct(Columns, table, "columns") if table else None
