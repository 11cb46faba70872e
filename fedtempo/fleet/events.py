"""Events of devices, such as FLASH's state traces: when each charged, was locked, ... becomes when it was available."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import Field
from pydantic.dataclasses import dataclass as component

from fedtempo.errors import ConfigError, nearest
from fedtempo.fleet.devices import Device, Devices, must_be_safe, read_devices
from fedtempo.fleet.presence import merged
from fedtempo.parts.fields import STRICT, Doc, Positive
from fedtempo.parts.natural_order import natural
from fedtempo.parts.text_files import parse_json, read_csv, read_text

_DAY_S = 86_400.0
_SHORTEST_S = 1e-3
_EFFECTS: dict[str, tuple[str, bool]] = {
    "battery_charged_on": ("charging", True),
    "battery_charged_off": ("charging", False),
    "battery_okay": ("battery", True),
    "battery_low": ("battery", False),
    "wifi": ("wifi", True),
    **dict.fromkeys(("2g", "3g", "4g", "5g", "unknown"), ("wifi", False)),
    "screen_off": ("screen_off", True),
    "screen_on": ("screen_off", False),
    "screen_lock": ("locked", True),
    "screen_unlock": ("locked", False),
    "phone_on": ("power", True),
    "phone_off": ("power", False),
}
CONDITIONS = ("charging", "wifi", "locked", "screen_off", "battery")
"""What may have to hold for a device to be available. Each is false until an event says otherwise."""

Names = Annotated[tuple[str, ...], Field(strict=False)]


@component(frozen=True, config=STRICT)
class EventRules:
    """How events of devices become times of availability. Defaults are those of FLASH's simulator, except period."""

    ready: Annotated[
        Names, Doc(f"what must hold for a device to be available, of {', '.join(CONDITIONS)}; not with on and off")
    ] = ("charging", "wifi", "locked")
    on: Annotated[Names, Doc("events with which a device becomes available, if events have names of their own")] = ()
    off: Annotated[Names, Doc("events with which it leaves")] = ()
    time_zone: Annotated[
        str | None,
        Doc(
            "time zone of times without an offset, such as Europe/Berlin, whose clock changes then count (default: "
            "none, every day has 24 hours)"
        ),
    ] = None
    start: Annotated[
        str | None,
        Doc("time at which the run's clock starts (default: midnight before the first event of any device)"),
    ] = None
    period: Annotated[
        Literal["days", "record", "none"] | Positive,
        Doc(
            "after which a device's availability repeats: 'days', the whole days of its record, so that times of day "
            "stay; 'record', its length, as in FLASH; a number of seconds; or 'none'. Shorter records are left out"
        ),
    ] = "days"
    client: Annotated[str, Doc("CSV: column that identifies devices")] = "client"
    time: Annotated[str, Doc("CSV: column of times, as text, or in seconds since 1970 (UTC)")] = "time"
    event: Annotated[str, Doc("CSV: column of events")] = "event"

    def __post_init__(self) -> None:
        for condition in self.ready:
            if condition not in CONDITIONS:
                raise ValueError(f"ready = {condition!r}: unknown condition{nearest(condition, CONDITIONS)}")
        if bool(self.on) != bool(self.off):
            raise ValueError("on, off: give both")
        if both := set(self.on) & set(self.off):
            raise ValueError(f"on, off: {min(both)!r} is in both")
        if not self.ready and not self.on:
            raise ValueError("ready: name at least one condition, or give on and off")
        zone_of(self.time_zone)
        if self.start is not None:
            try:
                datetime.fromisoformat(self.start)
            except ValueError:
                raise ValueError(f"start = {self.start!r}: must be like '2020-01-31 00:00:00'") from None


@dataclass(frozen=True)
class EventTrace:
    """Devices with their windows of availability. recorded: number of devices in the file; about: what was assumed."""

    devices: Devices
    recorded: int
    about: str

    @property
    def available(self) -> float | None:
        """The mean share of its period in which a device is available; None without periods."""
        shares = [
            sum(end - begin for begin, end in device.windows) / device.period_s
            for device in self.devices.devices
            if device.period_s is not None
        ]
        return math.fsum(shares) / len(shares) if shares else None


class _Event(NamedTuple):
    """An event as it is recorded. time: text, or seconds since 1970."""

    time: str | float
    what: str


class _Record(NamedTuple):
    """When a device was observed and available, seconds since 1970."""

    begin: float
    end: float
    windows: list[tuple[float, float]]


def zone_of(name: str | None) -> tzinfo:
    """Return a time zone by its IANA name; UTC for None. Raises ValueError for an unknown one."""
    if name is None:
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(f"time_zone = {name!r}: unknown; must be a name like 'Europe/Berlin'") from None


def read_events(path: Path, rules: EventRules | None = None) -> EventTrace:
    """Read when devices are available from a file of events.

    path: FLASH's state traces as JSON (a device's `messages`: lines of time, tab, event), a CSV with a column each for
    device, time and event, or FedScale's presences as JSON, which need no rules.

    A device is observed from its first to its last event. Devices with an event that is not understood, with shorter
    records than a period, and those that are never available are left out; `about` says how many. Raises ConfigError if
    the file cannot be read or no device is left.
    """
    must_be_safe(path)
    if path.suffix == ".json":
        content = _json(path)
        if not any(isinstance(device, dict) and "messages" in device for device in content.values()):
            return _fedscale(path, content, rules)
        recorded: Iterable[tuple[str, list[_Event] | str]] = (
            (name, _messages(content[name])) for name in sorted(content, key=natural)
        )
    else:
        recorded = _csv(path, rules or EventRules())
    return _trace(path, recorded, rules or EventRules())


def _trace(path: Path, recorded: Iterable[tuple[str, list[_Event] | str]], rules: EventRules) -> EventTrace:
    records: dict[str, _Record] = {}
    bad: list[str] = []
    count, zone, offsets = 0, zone_of(rules.time_zone), set()
    for name, events in recorded:
        count += 1
        try:
            if isinstance(events, str):
                raise ValueError(events)
            times = _times(events, rules.time_zone, zone)
            records[name] = _record(times, [event.what.strip() for event in events], rules)
            offsets |= {datetime.fromtimestamp(time, zone).utcoffset() for time in (times[0], times[-1])}
        except (ValueError, OverflowError, OSError) as error:
            bad.append(f"{name!r}: {error}")
    if not records:
        raise ConfigError(f"{path}: no usable device of {count}, such as {bad[0] if bad else 'none'}")
    start = _start(records.values(), rules, zone)
    devices, short = [], 0
    for name, record in records.items():
        period_s, windows = _repeated(record, start, rules.period)
        short += period_s == 0
        if windows:
            devices.append(Device(name, windows=tuple(windows), period_s=period_s))
    never = len(records) - short - len(devices)
    reasons = [
        f"{len(bad):,} with events that are not understood (such as {bad[0]})" if bad else "",
        f"{short:,} whose record is shorter than a period" if short else "",
        f"{never:,} that are never available" if never else "",
    ]
    left_out = f"; left out: {', '.join(filter(None, reasons))}" if any(reasons) else ""
    if not devices:
        raise ConfigError(f"{path}: no device is left of {count}{left_out}")
    changes = ", with clock changes" if len(offsets) > 1 else ""
    zone_text = f"time zone {rules.time_zone}{changes}" if rules.time_zone else "no time zone: every day has 24 hours"
    period = {"days": "whole days of each record", "record": "length of each record", "none": "none"}
    seconds = "" if isinstance(rules.period, str) else f"{rules.period:g} s"
    begin = datetime.fromtimestamp(start, zone).strftime("%Y-%m-%d %H:%M:%S")
    about = f"clock starts at {begin} ({zone_text}); period: {period.get(str(rules.period), seconds)}{left_out}"
    return EventTrace(Devices(tuple(devices), "s/example"), count, about)


def _times(events: list[_Event], zone_name: str | None, zone: tzinfo) -> list[float]:
    """Return the times of a device's events, seconds since 1970. Raises ValueError if they cannot be read."""
    if len(events) < 2:
        raise ValueError(f"{len(events)} events; two are needed")
    times: list[float] = []
    for event in events:
        if isinstance(event.time, float):
            time = event.time
        else:
            moment = datetime.fromisoformat(event.time.strip())
            if moment.tzinfo is None:
                moment = moment.replace(tzinfo=zone)
                # In the hour that is repeated when clocks are set back, times must not go back.
                if times and moment.timestamp() < times[-1]:
                    moment = moment.replace(fold=1)
            time = moment.timestamp()
        if not math.isfinite(time) or (times and time < times[-1]):
            raise ValueError(f"time {event.time!r} is before that of the previous event")
        times.append(time)
    return times


def _record(times: list[float], events: list[str], rules: EventRules) -> _Record:
    """Return when a device is available, according to its events in the order of time."""
    holds = dict.fromkeys(CONDITIONS, False) | {"power": True, "on": False}
    windows: list[tuple[float, float]] = []
    since: float | None = None
    for time, event in zip(times, events):
        if rules.on:
            if event in rules.on or event in rules.off:
                holds["on"] = event in rules.on
            is_ready = holds["on"]
        else:
            if event.lower() in _EFFECTS:
                condition, value = _EFFECTS[event.lower()]
                holds[condition] = value
            elif not _is_level(event):
                raise ValueError(f"unknown event {event!r}; if events have names of their own, set on and off")
            is_ready = holds["power"] and all(holds[condition] for condition in rules.ready)
        if is_ready and since is None:
            since = time
        if not is_ready and since is not None:
            windows.append((since, time))
            since = None
    if since is not None:
        windows.append((since, times[-1]))
    return _Record(times[0], times[-1], [(a, b) for a, b in windows if b - a >= _SHORTEST_S])


def _is_level(event: str) -> bool:
    """Return whether an event is a battery's level, such as 87.0%, which decides nothing."""
    try:
        return event.endswith("%") and math.isfinite(float(event[:-1]))
    except ValueError:
        return False


def _start(records: Iterable[_Record], rules: EventRules, zone: tzinfo) -> float:
    """Return the time at which the run's clock starts, seconds since 1970."""
    if rules.start is not None:
        moment = datetime.fromisoformat(rules.start)
        return (moment if moment.tzinfo else moment.replace(tzinfo=zone)).timestamp()
    first = datetime.fromtimestamp(min(record.begin for record in records), zone)
    return first.replace(hour=0, minute=0, second=0, microsecond=0, fold=0).timestamp()


def _repeated(
    record: _Record, start: float, period: Literal["days", "record", "none"] | float
) -> tuple[float | None, list[tuple[float, float]]]:
    """Return period (0 if the record is shorter) and windows in it, seconds on the run's clock."""
    if period == "none":
        shifted = [(max(0.0, begin - start), end - start) for begin, end in record.windows]
        return None, merged(window for window in shifted if window[0] < window[1])
    length = record.end - record.begin
    period_s = length if period == "record" else _DAY_S * (length // _DAY_S) if period == "days" else float(period)
    if not 0 < period_s <= length:
        return 0.0, []
    parts: list[tuple[float, float]] = []
    for window in record.windows:
        length = min(window[1], record.begin + period_s) - window[0]
        first = (window[0] - start) % period_s
        parts += [(first, min(first + length, period_s)), (0.0, first + length - period_s)]
    return period_s, merged((begin, end) for begin, end in parts if end - begin >= _SHORTEST_S)


def _json(path: Path) -> dict[str, Any]:
    try:
        content = parse_json(read_text(path))
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from error
    if not isinstance(content, dict) or not content:
        raise ConfigError(f"{path} must hold an object of devices by name, as FLASH's and FedScale's traces do")
    return content


def _messages(device: Any) -> list[_Event] | str:
    """Return a device's events, or why they cannot be read."""
    if not isinstance(device, dict) or not isinstance(device.get("messages"), str):
        return "no messages"
    events = []
    for line in device["messages"].splitlines():
        time, tab, what = line.strip().partition("\t")
        if tab:
            events.append(_Event(time, what))
        elif time:
            return f"{time[:40]!r} is no line of time, tab and event"
    return events


def _csv(path: Path, rules: EventRules) -> Iterator[tuple[str, list[_Event]]]:
    """Yield the events of each device of a CSV, in natural order."""
    devices: dict[str, list[_Event]] = {}
    try:
        reader = read_csv(path)
        for column in (rules.client, rules.time, rules.event):
            if column not in (reader.fieldnames or ()):
                raise ConfigError(f"{path} has no column {column!r}{nearest(column, reader.fieldnames or ())}")
        for row in reader:
            name, time, what = (row[column] for column in (rules.client, rules.time, rules.event))
            if not (name and time and what):
                raise ConfigError(f"{path} line {reader.line_num}: give a device, a time and an event")
            try:
                moment: str | float = float(time)
            except ValueError:
                moment = time
            devices.setdefault(name.strip(), []).append(_Event(moment, what))
    except (OSError, ValueError, csv.Error) as error:
        raise ConfigError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from error
    if not devices:
        raise ConfigError(f"{path} has no lines below its header")
    yield from ((name, devices[name]) for name in sorted(devices, key=natural))


def _fedscale(path: Path, content: dict[str, Any], rules: EventRules | None) -> EventTrace:
    """Return FedScale's presences, which say when devices come and leave."""
    if rules is not None:
        raise ConfigError(f"{path} says when devices come and leave, so it needs no options; remove them")
    read = read_devices(path)
    present = tuple(device for device in read.devices if device.windows)
    if not present:
        raise ConfigError(f"{path}: no device says when it is available (active, inactive, finish_time)")
    never = len(content) - len(present)
    left_out = f"; left out: {never:,} that are never available" if never else ""
    about = f"clock starts with each record (no time zone); period: finish_time of each device{left_out}"
    return EventTrace(Devices(present, read.unit), len(content), about)
