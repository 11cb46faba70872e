"""Events of devices: FLASH's state traces, CSVs, and FedScale's presences."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from typer.testing import CliRunner

from fedtempo import Experiment, import_availability
from fedtempo.cli.fleet import fleet
from fedtempo.errors import ConfigError
from fedtempo.fleet.devices import write_trace
from fedtempo.fleet.events import EventRules, read_events
from fedtempo.fleet.traces import Trace

H = 3600.0


def flash(path: Path, **devices: list[tuple[str, str]]) -> Path:
    """Write FLASH's state traces: per device, (time, event)."""
    content = {
        name: {"messages": "\n".join(f"{time}\t{event}" for time, event in events), "model": "X", "guid": name}
        for name, events in devices.items()
    }
    path.write_text(json.dumps(content))
    return path


def night(begin: str, end: str, first: str = "2020-01-31 00:00:00", last: str = "2020-02-02 00:00:00") -> list:
    """A device that is observed from first to last, charges with Wi-Fi all the time, and is locked once."""
    return [
        (first, "battery_charged_on"),
        (first, "WIFI"),
        (begin, "screen_lock"),
        (begin, "55.0%"),
        (end, "screen_unlock"),
        (last, "100.0%"),
    ]


def test_a_device_is_available_while_it_charges_with_wifi_and_is_locked(tmp_path: Path) -> None:
    """The conditions of FLASH; two days are observed, and a window lasts over midnight."""
    path = flash(tmp_path / "t.json", b=night("2020-01-31 22:00:00", "2020-02-01 06:00:00"))
    read = read_events(path)
    (device,) = read.devices.devices
    assert (device.name, device.period_s, device.windows) == ("b", 48 * H, ((22 * H, 30 * H),))
    assert read.available == pytest.approx(8 / 48)
    assert read.about == (
        "clock starts at 2020-01-31 00:00:00 (no time zone: every day has 24 hours); period: whole days of each record"
    )


@pytest.mark.parametrize("event", ["battery_charged_off", "4G", "unknown", "screen_unlock", "phone_off"])
def test_each_condition_ends_availability(tmp_path: Path, event: str) -> None:
    events = night("2020-01-31 01:00:00", "2020-01-31 05:00:00")
    events.insert(4, ("2020-01-31 03:00:00", event))
    (device,) = read_events(flash(tmp_path / "t.json", a=events)).devices.devices
    assert device.windows == ((1 * H, 3 * H),)
    rules = EventRules(ready=("charging",))
    (device,) = read_events(flash(tmp_path / "t.json", a=events), rules).devices.devices
    ends = 3 * H if event in ("battery_charged_off", "phone_off") else 48 * H  # until the end of the record
    assert device.windows == ((0.0, ends),)


def test_the_length_of_a_record_is_its_period_as_in_flash(tmp_path: Path) -> None:
    """FLASH: a device is ready at t if (t - begin) mod length + begin lies in a window of its record."""
    events = night("2020-01-31 22:00:00", "2020-02-01 06:00:00", "2020-01-31 20:00:00", "2020-02-01 08:00:00")
    rules = EventRules(period="record", start="2020-01-31 00:00:00")
    (device,) = read_events(flash(tmp_path / "t.json", a=events), rules).devices.devices
    assert device.period_s == 12 * H
    assert device.windows == ((0.0, 6 * H), (10 * H, 12 * H))  # 22 h to 30 h of every 12 h: it wraps
    with pytest.raises(ConfigError, match="no device is left of 1; left out: 1 whose record is shorter than a period"):
        read_events(tmp_path / "t.json")


def test_a_period_in_seconds_and_none(tmp_path: Path) -> None:
    path = flash(tmp_path / "t.json", a=night("2020-01-31 20:00:00", "2020-02-01 06:00:00"))
    (device,) = read_events(path, EventRules(period=24 * H)).devices.devices
    assert (device.period_s, device.windows) == (24 * H, ((20 * H, 24 * H),))  # the first 24 hours of the record
    read = read_events(path, EventRules(period="none", start="2020-01-31 21:00:00"))
    (device,) = read.devices.devices
    assert (device.period_s, device.windows, read.available) == (None, ((0.0, 9 * H),), None)


def test_clock_changes_count_with_a_time_zone(tmp_path: Path) -> None:
    """In Berlin, clocks were set back on 2020-10-25 from 3:00 to 2:00, and forward on 2020-03-29 from 2:00 to 3:00."""
    autumn = [
        ("2020-10-25 00:00:00", "battery_charged_on"),
        ("2020-10-25 02:30:00", "screen_off"),  # summer time: 2.5 h after midnight
        ("2020-10-25 02:10:00", "battery_charged_off"),  # the second 2:10, 3 h 10 min after midnight
        ("2020-10-26 12:00:00", "screen_on"),
    ]
    rules = EventRules(ready=("charging",), time_zone="Europe/Berlin")
    read = read_events(flash(tmp_path / "t.json", a=autumn), rules)
    assert read.devices.devices[0].windows == ((0.0, 3 * H + 600),)
    assert "(time zone Europe/Berlin, with clock changes)" in read.about
    spring = night("2020-03-29 01:00:00", "2020-03-29 06:00:00", "2020-03-29 00:00:00", "2020-03-31 00:00:00")
    path = flash(tmp_path / "t.json", a=spring)
    assert read_events(path).devices.devices[0].windows == ((1 * H, 6 * H),)
    with_zone = EventRules(time_zone="Europe/Berlin")
    (device,) = read_events(path, with_zone).devices.devices
    assert (device.period_s, device.windows) == (24 * H, ((1 * H, 5 * H),))  # 47 hours were observed, so one whole day


def test_times_with_offsets_and_seconds_since_1970_agree(tmp_path: Path) -> None:
    offset = (
        "client,time,event\nx,2020-01-31T01:00:00+01:00,up\nx,2020-01-31T03:00:00Z,down\nx,2020-02-01T12:00:00Z,down\n"
    )
    (tmp_path / "a.csv").write_text(offset)
    at = int(datetime.fromisoformat("2020-01-31T00:00:00+00:00").timestamp())
    (tmp_path / "b.csv").write_text(f"device,when,what\nx,{at},up\nx,{at + 10800},down\nx,{at + 129600},down\n")
    one = read_events(tmp_path / "a.csv", EventRules(on=("up",), off=("down",)))
    named = EventRules(on=("up",), off=("down",), client="device", time="when", event="what")
    assert one.devices == read_events(tmp_path / "b.csv", named).devices
    assert one.devices.devices[0].windows == ((0.0, 3 * H),)
    with pytest.raises(ConfigError, match=r"has no column 'client' \(choose from device, what, when\)"):
        read_events(tmp_path / "b.csv")


def test_devices_that_are_left_out_are_counted(tmp_path: Path) -> None:
    good = night("2020-01-31 01:00:00", "2020-01-31 05:00:00")
    path = flash(
        tmp_path / "t.json",
        d10=good,
        d2=[*good, ("2020-02-02 00:00:01", "explode")],
        d3=[("2020-01-31 00:00:00", "wifi"), ("2020-02-02 00:00:00", "wifi")],
        d4=[("2020-01-31 00:00:00", "wifi"), ("2020-01-31 10:00:00", "wifi")],
        d5=[("2020-02-31 00:00:00", "wifi"), ("2020-01-31 10:00:00", "wifi")],
        d6=[("2020-01-31 11:00:00", "wifi"), ("2020-01-31 10:00:00", "wifi")],
        d7=[("2020-01-31 11:00:00", "wifi")],
    )
    read = read_events(path)
    assert ([device.name for device in read.devices.devices], read.recorded) == (["d10"], 7)
    assert read.about.endswith(
        "left out: 4 with events that are not understood (such as 'd2': unknown event 'explode'; if events have names "
        "of their own, set on and off), 1 whose record is shorter than a period, 1 that are never available"
    )
    with pytest.raises(ConfigError, match=r"no usable device of 1, such as 'd2': unknown event 'explode'"):
        read_events(flash(tmp_path / "u.json", d2=[*good, ("2020-02-02 00:00:01", "explode")]))


def test_fedscales_presences_repeat_after_their_finish_time(tmp_path: Path) -> None:
    path = tmp_path / "behave.json"
    devices: dict[str, Any] = {
        "8": {"active": [10, 50], "inactive": [20, 90], "finish_time": 100, "duration": 50, "model": "A"},
        "9": {"active": [], "inactive": [], "finish_time": 100},
    }
    path.write_text(json.dumps(devices))
    read = read_events(path)
    assert read.devices.devices[0].windows == ((10.0, 20.0), (50.0, 90.0))
    assert read.available == 0.5
    assert read.about.endswith("period: finish_time of each device; left out: 1 that are never available")
    with pytest.raises(ConfigError, match="needs no options; remove them"):
        read_events(path, EventRules())


@pytest.mark.parametrize(
    ("rules", "says"),
    [
        ({"ready": ("charged",)}, r"ready = 'charged': unknown condition; did you mean 'charging'\?"),
        ({"on": ("up",)}, "on, off: give both"),
        ({"on": ("up",), "off": ("up",)}, "'up' is in both"),
        ({"ready": ()}, "name at least one condition"),
        ({"time_zone": "Europe/Berlim"}, "time_zone = 'Europe/Berlim': unknown"),
        ({"start": "noon"}, "start = 'noon': must be like '2020-01-31 00:00:00'"),
        ({"period": -1.0}, "period"),
    ],
)
def test_bad_rules_are_named(rules: dict[str, Any], says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        EventRules(**rules)


@given(
    changes=st.lists(st.tuples(st.integers(1, 5000), st.sampled_from(["up", "down"])), min_size=2, max_size=12),
    first=st.integers(0, 10**6),
    t=st.integers(0, 10**5),
)
def test_a_written_trace_says_what_the_events_said(
    changes: list[tuple[int, str]], first: int, t: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """With the record as its period, FLASH's rule (t - begin) mod length decides whether a device is available at t."""
    folder = tmp_path_factory.mktemp("events")
    times = np.cumsum([first, *(gap for gap, _ in changes)])[1:].tolist()
    rows = [f"0,{time},{what}" for time, (_, what) in zip(times, changes)]
    (folder / "e.csv").write_text("\n".join(["client,time,event", *rows]))
    rules = EventRules(on=("up",), off=("down",), period="record", start="1970-01-01 00:00:00")
    try:
        read = read_events(folder / "e.csv", rules)
    except ConfigError:
        assert all(what == "down" for _, what in changes[:-1])
        return
    write_trace(read.devices, folder / "trace.csv")
    there = Trace(file=str(folder / "trace.csv")).build(1, np.random.default_rng(0))
    begin, length = times[0], times[-1] - times[0]
    inside = (t + 0.5 - begin) % length + begin
    latest = max(i for i, time in enumerate(times) if time <= inside)
    assert (there.available_until(0, t + 0.5) > t + 0.5) == (changes[latest][1] == "up")


def test_the_command_writes_a_trace_and_says_what_it_assumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    flash(tmp_path / "t.json", a=night("2020-01-31 22:00:00", "2020-02-01 06:00:00"), b=[("2020-01-31", "wifi")])
    said = CliRunner().invoke(fleet, ["events", "t.json", "--out", "trace.csv"], catch_exceptions=False).output
    assert said.splitlines()[0] == "trace.csv"
    assert said.splitlines()[1].startswith(
        "1 of 2 devices, available 16.7% of the time on average; clock starts at 2020-01-31 00:00:00 (no time zone"
    )
    assert Path("trace.csv").read_text().splitlines() == ["client,begin_s,end_s,period_s", "0,79200,108000,172800"]
    options = [
        "--ready",
        "charging, wifi",
        "--period",
        "86400",
        "--time-zone",
        "Europe/Berlin",
        "--start",
        "2020-02-01",
    ]
    said = CliRunner().invoke(fleet, ["events", "t.json", "--out", "b.csv", *options], catch_exceptions=False).output
    assert "clock starts at 2020-02-01 00:00:00 (time zone Europe/Berlin); period: 86400 s" in said
    assert Path("b.csv").read_text().splitlines()[1:] == ["0,0,86400,86400"]
    with pytest.raises(ConfigError, match=r"b\.csv already exists"):
        import_availability("t.json", "b.csv")
    with pytest.raises(ConfigError, match=r"events\.zone: unknown key"):
        import_availability("t.json", "c.csv", zone="UTC")
    experiment = Experiment(
        strategy="fedavg",
        data={"clients": 4},
        fleet={
            "compute": {"unit": "s/visit", "speed": 1.0},
            "link": "none",
            "estimates": "exact",
            "availability": {"kind": "trace", "file": "trace.csv", "sample": True},
        },
        run={"horizon": 9.0},
    )
    assert experiment.config.fleet.availability.build(4, np.random.default_rng(0)).next_available(3, 0.0) == 22 * H
