"""Recorded devices: FedScale's device traces as JSON, or any CSV with named columns.

A capacity gives a device's computing and sending speed, a presence the times when it is available. Pickles, in which
such traces are published, are never read, since loading one can run any code. docs/fleets.md says how to convert them
to JSON.
"""

from __future__ import annotations

import csv
import math
import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic.dataclasses import dataclass as component

from fedtempo.errors import ConfigError, nearest
from fedtempo.fleet.compute import Unit
from fedtempo.parts.fields import STRICT, Doc, Positive
from fedtempo.parts.natural_order import natural
from fedtempo.parts.text_files import parse_json, read_csv, read_text

LARGEST_BYTES = 2 * 2**30
FEDSCALE_TRAINING = 3.0
"""Ratio of training to inference time in FedScale's simulator; its capacities give inference times."""

COMPUTE_UNITS: Mapping[str, tuple[Unit, float]] = {
    "s/visit": ("s/visit", 1.0),
    "ms/visit": ("s/visit", 1e-3),
    "s/example": ("s/example", 1.0),
    "ms/example": ("s/example", 1e-3),
    "example/s": ("example/s", 1.0),
}
RATE_UNITS: Mapping[str, float] = {
    "bit/s": 1.0,
    "kbit/s": 1e3,
    "Mbit/s": 1e6,
    "B/s": 8.0,
    "kB/s": 8e3,
    "MB/s": 8e6,
}
TIME_UNITS: Mapping[str, float] = {"s": 1.0, "ms": 1e-3, "min": 60.0, "h": 3600.0}


@dataclass(frozen=True)
class Device:
    """What is known about one device; None for anything unknown.

    compute: in `Devices.unit`. Rates in bit/s. windows: when it is available, [begin, end) in seconds; they repeat
    after `period_s` if it is given.
    """

    name: str
    compute: float | None = None
    download_bps: float | None = None
    upload_bps: float | None = None
    watts: float | None = None
    windows: tuple[tuple[float, float], ...] = ()
    period_s: float | None = None


@dataclass(frozen=True)
class Devices:
    """Devices in the order of their names, and the unit of their computing speed."""

    devices: tuple[Device, ...]
    unit: Unit

    def drawn(self, count: int, rng: np.random.Generator) -> Devices:
        """Draw `count` different devices, kept in order. Raises ConfigError if there are fewer, or for count < 1."""
        if count < 1:
            raise ConfigError(f"clients = {count}: draw at least one")
        if count > len(self.devices):
            raise ConfigError(f"clients = {count}: only {len(self.devices)} devices are described by all given files")
        picks = np.sort(rng.choice(len(self.devices), count, replace=False))
        return Devices(tuple(self.devices[i] for i in picks.tolist()), self.unit)

    def joined(self, presence: Devices) -> Devices:
        """Combine these capacities with presences, by name if all names agree, otherwise by position.

        Published capacities and presences are of different devices.
        """
        windows = {device.name: device for device in presence.devices}
        if all(device.name in windows for device in self.devices):
            presences = [windows[device.name] for device in self.devices]
        else:
            presences = list(presence.devices)
        return Devices(
            tuple(
                Device(d.name, d.compute, d.download_bps, d.upload_bps, d.watts, other.windows, other.period_s)
                for d, other in zip(self.devices, presences)
            ),
            self.unit,
        )


@component(frozen=True, config=STRICT)
class Columns:
    """Meaning of a CSV's columns. Several lines of one device are measurements, of which the median is used."""

    compute: Annotated[str | None, Doc("column with the computing time or speed")] = None
    compute_unit: Annotated[str, Doc(f"unit of that column: {', '.join(COMPUTE_UNITS)}")] = "s/visit"
    compute_factor: Annotated[Positive, Doc("factor on it, such as 3 to convert inference to training time")] = 1.0
    download: Annotated[str | None, Doc("column with the rate to the device")] = None
    upload: Annotated[str | None, Doc("column with the rate from the device")] = None
    rate: Annotated[str | None, Doc("column with one rate for both directions")] = None
    rate_unit: Annotated[str, Doc(f"unit of the rates: {', '.join(RATE_UNITS)}")] = "bit/s"
    watts: Annotated[str | None, Doc("column with the power while computing, watts")] = None
    begin: Annotated[str | None, Doc("column with the times when the device becomes available")] = None
    end: Annotated[str | None, Doc("column with the times when it leaves")] = None
    time_unit: Annotated[str, Doc(f"unit of these times: {', '.join(TIME_UNITS)}")] = "s"
    client: Annotated[str | None, Doc("column that identifies devices (default: each line is a device)")] = None

    def __post_init__(self) -> None:
        for name, unit, units in (
            ("compute_unit", self.compute_unit, COMPUTE_UNITS),
            ("rate_unit", self.rate_unit, RATE_UNITS),
            ("time_unit", self.time_unit, TIME_UNITS),
        ):
            if unit not in units:
                raise ValueError(f"{name} = {unit!r}: unknown unit{nearest(unit, units)}")
        if self.rate is not None and (self.download is not None or self.upload is not None):
            raise ValueError("rate is for both directions: give either rate, or download and upload")
        if (self.download is None) != (self.upload is None):
            raise ValueError("download, upload: give both, or rate if they are equal")
        if (self.begin is None) != (self.end is None):
            raise ValueError("begin, end: give both")
        if self.begin is not None and self.client is None:
            raise ValueError("client is missing: time windows need the column that identifies their device")
        if not self.numbers and self.begin is None:
            raise ValueError("no column: give compute, rate, or begin and end")

    @property
    def numbers(self) -> dict[str, tuple[str, float]]:
        """Columns with one number per device: field of `Device` to (column name, factor to the field's unit)."""
        unit_factor = COMPUTE_UNITS[self.compute_unit][1]
        by_speed = self.compute_unit == "example/s"
        factor = unit_factor / self.compute_factor if by_speed else unit_factor * self.compute_factor
        rate = RATE_UNITS[self.rate_unit]
        all_columns = {
            "compute": (self.compute, factor),
            "download_bps": (self.download or self.rate, rate),
            "upload_bps": (self.upload or self.rate, rate),
            "watts": (self.watts, 1.0),
        }
        return {name: (column, factor) for name, (column, factor) in all_columns.items() if column is not None}


def read_devices(path: Path, columns: Columns | None = None) -> Devices:
    """Read devices from a file: FedScale's capacities or presences as JSON, or a CSV with `columns`.

    Raises ConfigError with the file, and the line or the device, for anything unusable.
    """
    must_be_safe(path)
    if path.suffix == ".json":
        return _from_fedscale(path)
    if columns is None:
        raise ConfigError(f"{path}: name the columns, for example --compute seconds, or --columns mapping.toml")
    return _from_csv(path, columns)


def must_be_safe(path: Path) -> None:
    """Raise ConfigError if a file cannot be read, is too large, or is a pickle."""
    try:
        if path.stat().st_size > LARGEST_BYTES:
            raise ConfigError(f"{path} is larger than {LARGEST_BYTES:,} bytes, the limit for a file of devices")
        with path.open("rb") as file:
            first = file.read(2)
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror or error}") from error
    if path.suffix in (".pkl", ".pickle") or first[:1] == b"\x80":
        raise ConfigError(
            f"{path} is a pickle, which is never read, since loading one can run any code: "
            "convert it to JSON as docs/fleets.md says"
        )


def _from_fedscale(path: Path) -> Devices:
    try:
        traces = parse_json(read_text(path))
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from error
    if not isinstance(traces, dict) or not traces:
        raise ConfigError(f"{path} must hold an object of devices by name, as FedScale's traces do")
    devices = []
    for name in sorted(traces, key=natural):
        try:
            devices.append(_fedscale_device(name, traces[name]))
        except (KeyError, TypeError, ValueError) as error:
            raise ConfigError(f"{path}: device {name!r}: {_reason(error)}") from None
    return Devices(tuple(device for device in devices if device is not None), "s/example")


def _fedscale_device(name: str, trace: Mapping[str, Any]) -> Device | None:
    """Return a device from FedScale's trace, or None if it is never available.

    computation: inference time per example, ms; communication: kbit/s. Presences are in seconds and repeat after
    finish_time. See `client_metadata.py` of FedScale's simulator.
    """
    if "computation" in trace or "communication" in trace:
        compute = FEDSCALE_TRAINING * _positive(trace, "computation") / 1000
        rate = 1000 * _positive(trace, "communication")
        return Device(name, compute=compute, download_bps=rate, upload_bps=rate)
    begins, ends, period_s = trace["active"], trace["inactive"], _positive(trace, "finish_time")
    if len(begins) != len(ends):
        raise ValueError(f"active has {len(begins)} times and inactive {len(ends)}; the numbers must agree")
    windows = tuple((float(begin), min(float(end), period_s)) for begin, end in zip(begins, ends))
    if bad := [window for window in windows if not 0 <= window[0] <= window[1]]:
        raise ValueError(f"it comes at {bad[0][0]:g} and leaves at {bad[0][1]:g}")
    present = tuple(window for window in windows if window[0] < window[1])
    return Device(name, windows=present, period_s=period_s) if present else None


def _from_csv(path: Path, columns: Columns) -> Devices:
    measured: dict[str, dict[str, list[float]]] = {}
    windows: dict[str, list[tuple[float, float]]] = {}
    numbers, second = columns.numbers, TIME_UNITS[columns.time_unit]
    try:
        reader = read_csv(path)
        wanted = [column for column, _ in numbers.values()] + [columns.client, columns.begin, columns.end]
        for column in wanted:
            if column is not None and column not in (reader.fieldnames or ()):
                raise ConfigError(f"{path} has no column {column!r}{nearest(column, reader.fieldnames or ())}")
        for number, row in enumerate(reader):
            name = str(number) if columns.client is None else (row[columns.client] or "").strip()
            values = measured.setdefault(name, {})
            try:
                for what, (column, factor) in numbers.items():
                    values.setdefault(what, []).append(factor * _positive(row, column))
                if columns.begin is not None and columns.end is not None:
                    begin, end = float(row[columns.begin]), float(row[columns.end])
                    if not 0 <= begin < end < math.inf:
                        raise ValueError(f"it comes at {begin:g} and leaves at {end:g}")
                    windows.setdefault(name, []).append((second * begin, second * end))
            except (TypeError, ValueError) as error:
                raise ConfigError(f"{path} line {reader.line_num}: {_reason(error)}") from None
    except (OSError, ValueError, csv.Error) as error:
        raise ConfigError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from error
    if not measured:
        raise ConfigError(f"{path} has no lines below its header")
    devices = (
        Device(
            name,
            **{what: statistics.median(values) for what, values in measured[name].items()},
            windows=tuple(sorted(windows.get(name, ()))),
        )
        for name in sorted(measured, key=natural)
    )
    return Devices(tuple(devices), COMPUTE_UNITS[columns.compute_unit][0])


def fleet_table(devices: Devices, *, trace: str | None = None, estimates: str = "exact") -> dict[str, Any]:
    """Return the `[fleet]` table of devices. trace: the file of their availability written by `write_trace`.

    Raises ConfigError with the device if its computing speed is unknown.
    """
    table: dict[str, Any] = {
        "compute": {"unit": devices.unit, "speed": _all(devices, "compute")},
        "link": {"kind": "none"},
        "estimates": estimates,
    }
    if any(device.upload_bps is not None for device in devices.devices):
        table["link"] = {
            "kind": "rates",
            "download_bps": _all(devices, "download_bps"),
            "upload_bps": _all(devices, "upload_bps"),
        }
    if any(device.watts is not None for device in devices.devices):
        table["compute"]["watts"] = _all(devices, "watts")
    if trace is not None:
        table["availability"] = {"kind": "trace", "file": trace}
    return table


def write_trace(devices: Devices, path: Path) -> None:
    """Write a CSV for `availability = {kind = "trace"}`: client (position), begin_s, end_s, period_s (empty: once)."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["client", "begin_s", "end_s", "period_s"])
        for client, device in enumerate(devices.devices):
            period = "" if device.period_s is None else f"{device.period_s:.10g}"
            writer.writerows([client, f"{begin:.10g}", f"{end:.10g}", period] for begin, end in device.windows)


def _all(devices: Devices, what: str) -> list[float]:
    values = []
    for device in devices.devices:
        value = getattr(device, what)
        if value is None:
            raise ConfigError(f"device {device.name!r}: its {what} is unknown, but that of others is known")
        values.append(float(f"{value:.10g}"))
    return values


def _positive(row: Mapping[str, Any], name: str) -> float:
    value = float(row[name])
    if not 0 < value < math.inf:
        raise ValueError(f"{name} = {row[name]}: must be positive and finite")
    return value


def _reason(error: Exception) -> str:
    return f"{error.args[0]!r} is missing" if isinstance(error, KeyError) else str(error)


def column_of(path: Path, column: str, client: str | None = None) -> list[float]:
    """Return the numbers of one column of a CSV; client: column that identifies devices, each with its median.

    Raises ConfigError like `read_devices`.
    """
    devices = read_devices(path, Columns(compute=column, client=client))
    return [device.compute for device in devices.devices if device.compute is not None]
