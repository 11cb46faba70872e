"""Devices as others recorded them: FedScale's device traces as JSON, or any CSV whose columns are named.

A capacity says how fast a device computes and sends, a presence when it is there. Pickles, in which such traces are
published, are never read: loading one runs whatever it holds. docs/fleets.md says how to turn them into JSON.
"""

from __future__ import annotations

import csv
import json
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

LARGEST_BYTES = 2 * 2**30
FEDSCALE_TRAINING = 3.0
"""Training takes so many times the inference that FedScale's capacities give: the factor of its simulator."""

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
    """What is known of one device; None for what is not.

    compute: in the unit of `Devices.unit`. rates in bit/s. windows: when it is there, [begin, end) in seconds; they
    repeat after `period_s` where that is given.
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
    """Devices in the order of their names, and the unit of their computing."""

    devices: tuple[Device, ...]
    unit: Unit

    def drawn(self, count: int, rng: np.random.Generator) -> Devices:
        """So many of them, each once, in their order. Raises ConfigError where there are fewer, or for none."""
        if count < 1:
            raise ConfigError(f"clients = {count}: draw at least one")
        if count > len(self.devices):
            raise ConfigError(f"clients = {count}: only {len(self.devices)} devices are known by all that was given")
        picks = np.sort(rng.choice(len(self.devices), count, replace=False))
        return Devices(tuple(self.devices[i] for i in picks.tolist()), self.unit)

    def joined(self, presence: Devices) -> Devices:
        """Capacities with the presence of others: of the same name where all names agree, else one after another.

        Public capacities and presences are of different devices, and are put together by position.
        """
        windows = {device.name: device for device in presence.devices}
        if all(device.name in windows for device in self.devices):
            others = [windows[device.name] for device in self.devices]
        else:
            others = list(presence.devices)
        return Devices(
            tuple(
                Device(d.name, d.compute, d.download_bps, d.upload_bps, d.watts, other.windows, other.period_s)
                for d, other in zip(self.devices, others)
            ),
            self.unit,
        )


@component(frozen=True, config=STRICT)
class Columns:
    """Which column of a CSV is what. Several lines of one device are its measurements, of which the median counts."""

    compute: Annotated[str | None, Doc("column of the time or the speed of computing")] = None
    compute_unit: Annotated[str, Doc(f"its unit: {', '.join(COMPUTE_UNITS)}")] = "s/visit"
    compute_factor: Annotated[Positive, Doc("factor on it, such as 3 where it is inference and training is meant")] = (
        1.0
    )
    download: Annotated[str | None, Doc("column of the rate to the device")] = None
    upload: Annotated[str | None, Doc("column of the rate from the device")] = None
    rate: Annotated[str | None, Doc("column of the rate both ways, where there is one")] = None
    rate_unit: Annotated[str, Doc(f"unit of the rates: {', '.join(RATE_UNITS)}")] = "bit/s"
    watts: Annotated[str | None, Doc("column of the power while computing, watts")] = None
    begin: Annotated[str | None, Doc("column of when the device comes")] = None
    end: Annotated[str | None, Doc("column of when it leaves")] = None
    time_unit: Annotated[str, Doc(f"unit of these: {', '.join(TIME_UNITS)}")] = "s"
    client: Annotated[str | None, Doc("column that tells devices apart; each line is one where not given")] = None

    def __post_init__(self) -> None:
        for name, unit, units in (
            ("compute_unit", self.compute_unit, COMPUTE_UNITS),
            ("rate_unit", self.rate_unit, RATE_UNITS),
            ("time_unit", self.time_unit, TIME_UNITS),
        ):
            if unit not in units:
                raise ValueError(f"{name} = {unit!r} is no unit{nearest(unit, units)}")
        if self.rate is not None and (self.download is not None or self.upload is not None):
            raise ValueError("rate is for both ways: give it, or download and upload")
        if (self.download is None) != (self.upload is None):
            raise ValueError("download, upload: give both, or rate where they are the same")
        if (self.begin is None) != (self.end is None):
            raise ValueError("begin, end: give both")
        if self.begin is not None and self.client is None:
            raise ValueError("client is missing: windows of time need to know whose they are")
        if not self.numbers and self.begin is None:
            raise ValueError("no column: give compute, rate, or begin and end")

    @property
    def numbers(self) -> dict[str, tuple[str, float]]:
        """Columns of one number a device: what each is for, its name and the factor to the unit that is used here."""
        unit_factor = COMPUTE_UNITS[self.compute_unit][1]
        by_speed = self.compute_unit == "example/s"
        factor = unit_factor / self.compute_factor if by_speed else unit_factor * self.compute_factor
        rate = RATE_UNITS[self.rate_unit]
        found = {
            "compute": (self.compute, factor),
            "download_bps": (self.download or self.rate, rate),
            "upload_bps": (self.upload or self.rate, rate),
            "watts": (self.watts, 1.0),
        }
        return {name: (column, factor) for name, (column, factor) in found.items() if column is not None}


def read_devices(path: Path, columns: Columns | None = None) -> Devices:
    """Devices from a file: FedScale's capacities or presences as JSON, or a CSV with `columns`.

    Raises ConfigError naming the file, and the line or the device, for anything that is not usable.
    """
    _refuse_pickle(path)
    if path.suffix == ".json":
        return _from_fedscale(path)
    if columns is None:
        raise ConfigError(f"{path}: say which column is what, such as --compute seconds, or --columns mapping.toml")
    return _from_csv(path, columns)


def _refuse_pickle(path: Path) -> None:
    try:
        if path.stat().st_size > LARGEST_BYTES:
            raise ConfigError(f"{path} is larger than {LARGEST_BYTES:,} bytes: it is not read")
        with path.open("rb") as file:
            first = file.read(2)
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror or error}") from error
    if path.suffix in (".pkl", ".pickle") or first[:1] == b"\x80":
        raise ConfigError(
            f"{path} is a pickle, which is never read, since loading one runs what it holds: "
            "turn it into JSON as docs/fleets.md says"
        )


def _from_fedscale(path: Path) -> Devices:
    try:
        traces = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
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
    """computation: ms to infer an example; communication: kbit/s. A presence: seconds, which repeat after finish_time.

    See `client_metadata.py` of FedScale's simulator. None for a device that is never there.
    """
    if "computation" in trace or "communication" in trace:
        compute = FEDSCALE_TRAINING * _positive(trace, "computation") / 1000
        rate = 1000 * _positive(trace, "communication")
        return Device(name, compute=compute, download_bps=rate, upload_bps=rate)
    begins, ends, period_s = trace["active"], trace["inactive"], _positive(trace, "finish_time")
    if len(begins) != len(ends):
        raise ValueError(f"active has {len(begins)} times and inactive {len(ends)}; there must be as many")
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
        with path.open(encoding="utf-8-sig", newline="") as lines:
            reader = csv.DictReader(lines)
            asked = [column for column, _ in numbers.values()] + [columns.client, columns.begin, columns.end]
            for column in asked:
                if column is not None and column not in (reader.fieldnames or ()):
                    raise ConfigError(f"{path} has no column {column!r}{nearest(column, reader.fieldnames or ())}")
            for number, row in enumerate(reader):
                name = str(number) if columns.client is None else (row[columns.client] or "").strip()
                own = measured.setdefault(name, {})
                try:
                    for what, (column, factor) in numbers.items():
                        own.setdefault(what, []).append(factor * _positive(row, column))
                    if columns.begin is not None and columns.end is not None:
                        begin, end = float(row[columns.begin]), float(row[columns.end])
                        if not 0 <= begin < end < math.inf:
                            raise ValueError(f"it comes at {begin:g} and leaves at {end:g}")
                        windows.setdefault(name, []).append((second * begin, second * end))
                except (TypeError, ValueError) as error:
                    raise ConfigError(f"{path} line {reader.line_num}: {_reason(error)}") from None
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise ConfigError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from error
    if not measured:
        raise ConfigError(f"{path} holds no line below its header")
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
    """The `[fleet]` of devices. trace: the file in which `write_trace` put when they are there.

    Raises ConfigError naming a device whose computing is not known.
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
    """A CSV for `availability = {kind = "trace"}`: client (by position), begin_s, end_s, period_s (empty: once)."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["client", "begin_s", "end_s", "period_s"])
        for client, device in enumerate(devices.devices):
            period = "" if device.period_s is None else f"{device.period_s:g}"
            writer.writerows([client, f"{begin:.10g}", f"{end:.10g}", period] for begin, end in device.windows)


def _all(devices: Devices, what: str) -> list[float]:
    values = []
    for device in devices.devices:
        value = getattr(device, what)
        if value is None:
            raise ConfigError(f"device {device.name!r}: its {what} is not known, and that of others is")
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
    """The numbers of one column of a CSV; client: the column that tells devices apart, of each the median.

    Raises ConfigError as `read_devices`.
    """
    devices = read_devices(path, Columns(compute=column, client=client))
    return [device.compute for device in devices.devices if device.compute is not None]
