"""Recorded devices become fleets: FedScale's traces as JSON, and CSV files with named columns."""

from __future__ import annotations

import csv
import json
import pickle
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedtempo.api.fleets import joined_devices
from fedtempo.cli.fleet import fleet as fleet_command
from fedtempo.errors import ConfigError
from fedtempo.fleet.devices import Columns, fleet_table, read_devices, write_trace
from fedtempo.fleet.traces import Trace
from fedtempo.runs.config import parse
from tests.fleet.test_availability import check_consistent, rng

CAPACITIES = {
    "2": {"computation": 100.0, "communication": 2000.0},
    "10": {"computation": 50.0, "communication": 8000.0},
    "1": {"computation": 200.0, "communication": 500.0},
}
DAY = 86_400
PRESENCES = {
    "7": {"duration": 9, "active": [10, 500], "inactive": [20, 600], "finish_time": DAY, "model": "A"},
    "8": {"duration": 9, "active": [0, 40_000], "inactive": [1_000, 2 * DAY], "finish_time": 2 * DAY, "model": "B"},
    "9": {"duration": 1, "active": [5], "inactive": [5], "finish_time": DAY, "model": "never there"},
    "11": {"duration": 9, "active": [1], "inactive": [2], "finish_time": 3 * DAY, "model": "C"},
}


def put(path: Path, content: Any) -> Path:
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


def test_capacities_of_fedscale_become_training_times_and_rates(tmp_path: Path) -> None:
    devices = read_devices(put(tmp_path / "capacity.json", CAPACITIES))
    table = fleet_table(devices)
    assert [device.name for device in devices.devices] == ["1", "2", "10"]
    # FedScale's simulator trains for three times the inference time and counts kilobits per second in both directions.
    assert table["compute"] == {"unit": "s/example", "speed": [0.6, 0.3, 0.15]}
    assert table["link"] == {"kind": "rates", "download_bps": [5e5, 2e6, 8e6], "upload_bps": [5e5, 2e6, 8e6]}


def test_presences_of_fedscale_repeat_with_separate_periods(tmp_path: Path) -> None:
    files = [put(tmp_path / "behave.json", PRESENCES), put(tmp_path / "capacity.json", CAPACITIES)]
    devices = joined_devices(files, None)
    write_trace(devices, tmp_path / "trace.csv")
    there = Trace(file=str(tmp_path / "trace.csv")).build(3, rng())
    # By position: a device that is never available is left out.
    assert there.available_until(0, DAY + 12.0) == DAY + 20.0
    assert there.next_available(0, 700.0) == DAY + 10.0
    assert there.available_until(1, DAY + 10.0) == 2 * DAY + 1_000.0, (
        "the last window meets the first of the next cycle"
    )
    assert there.next_available(2, 2.0) == 3 * DAY + 1.0
    for client in range(3):
        for t in (0.0, 15.0, 5e4, float(DAY), 3.5 * DAY, 1e6):
            check_consistent(there, client, t)


def test_a_csv_file_with_named_columns_and_units_is_read(tmp_path: Path) -> None:
    text = "phone,latency,down,up,power\nb,10,4,1,2.5\na,20,8,2,3\nb,30,4,1,2.5\nb,12,4,1,2.5\n"
    columns = Columns(
        compute="latency",
        compute_unit="ms/example",
        compute_factor=3.0,
        download="down",
        upload="up",
        rate_unit="Mbit/s",
        watts="power",
        client="phone",
    )
    table = fleet_table(read_devices(put(tmp_path / "phones.csv", text), columns))
    assert table["compute"]["speed"] == pytest.approx([0.06, 0.036]), "of several lines the median"
    assert table["compute"]["watts"] == [3.0, 2.5]
    assert table["link"]["download_bps"] == [8e6, 4e6]
    assert table["link"]["upload_bps"] == [2e6, 1e6]


@pytest.mark.parametrize("unit", ["s/visit", "ms/visit", "s/example", "ms/example", "example/s"])
def test_a_compute_factor_slows_training_in_every_unit(tmp_path: Path, unit: str) -> None:
    path = put(tmp_path / "a.csv", "t\n2\n")
    plain, slower = (
        fleet_table(read_devices(path, Columns(compute="t", compute_unit=unit, compute_factor=factor)))
        for factor in (1.0, 4.0)
    )
    plain_s, slower_s = (fleet["compute"]["speed"][0] for fleet in (plain, slower))
    assert slower_s == pytest.approx(plain_s / 4 if unit == "example/s" else 4 * plain_s)


def test_windows_from_a_csv_file_become_a_trace(tmp_path: Path) -> None:
    text = "who,secs,from,to\n1,5,60,120\n0,3,0,30\n1,5,200,210\n"
    columns = Columns(compute="secs", begin="from", end="to", time_unit="min", client="who")
    devices = read_devices(put(tmp_path / "a.csv", text), columns)
    write_trace(devices, tmp_path / "trace.csv")
    rows = list(csv.DictReader((tmp_path / "trace.csv").read_text(encoding="utf-8").splitlines()))
    assert [(row["client"], row["begin_s"], row["end_s"], row["period_s"]) for row in rows] == [
        ("0", "0", "1800", ""),
        ("1", "3600", "7200", ""),
        ("1", "12000", "12600", ""),
    ]


def test_pickles_are_never_loaded(tmp_path: Path) -> None:
    class Bomb:
        def __reduce__(self) -> tuple[Any, ...]:
            return (Path(tmp_path / "went-off").touch, ())

    for name in ("client_device_capacity", "trace.pkl", "trace.json"):
        (tmp_path / name).write_bytes(pickle.dumps(Bomb()))
        with pytest.raises(ConfigError, match="is a pickle, which is never read"):
            read_devices(tmp_path / name, Columns(compute="x"))
    assert not (tmp_path / "went-off").exists()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({"1": {"computation": -1, "communication": 2}}, "device '1': computation = -1: must be positive"),
        ({"1": {"computation": 1}}, "'communication' is missing"),
        ({"1": {"active": [1], "inactive": [2]}}, "'finish_time' is missing"),
        ({"1": {"active": [1, 2], "inactive": [2], "finish_time": 9}}, "active has 2 times and inactive 1"),
        ({"1": {"active": [5], "inactive": [2], "finish_time": 9}}, "comes at 5 and leaves at 2"),
        ({"1": 3}, "device '1'"),
        ([1, 2], "an object of devices"),
        ("{", "cannot be read"),
    ],
)
def test_errors_in_a_trace_are_named(tmp_path: Path, content: Any, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        read_devices(put(tmp_path / "trace.json", content))


@pytest.mark.parametrize(
    ("text", "columns", "said"),
    [
        ("a,b\n1,2\n", {"compute": "c"}, "has no column 'c'"),
        ("a\n1\nfast\n", {"compute": "a"}, "line 3: could not convert"),
        ("a\n0\n", {"compute": "a"}, "line 2: a = 0: must be positive and finite"),
        ("a\n", {"compute": "a"}, "no lines below its header"),
        ("a,b,e\n1,5,2\n", {"compute": "a", "begin": "b", "end": "e", "client": "a"}, "comes at 5 and leaves at 2"),
    ],
)
def test_errors_in_a_csv_file_are_named(tmp_path: Path, text: str, columns: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        read_devices(put(tmp_path / "a.csv", text), Columns(**columns))


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({}, "no column"),
        ({"compute": "a", "compute_unit": "seconds"}, "compute_unit = 'seconds': unknown unit"),
        ({"rate": "a", "upload": "b", "download": "c"}, "rate is for both directions"),
        ({"upload": "b"}, "give both, or rate"),
        ({"begin": "b", "end": "e"}, "client is missing"),
    ],
)
def test_empty_and_contradictory_column_mappings_are_rejected(columns: dict[str, str], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Columns(**columns)


def test_devices_are_drawn_without_replacement_and_reproducibly(tmp_path: Path) -> None:
    many = {str(i): {"computation": 10.0 + i, "communication": 1000.0} for i in range(40)}
    devices = read_devices(put(tmp_path / "capacity.json", many))
    drawn = [devices.drawn(10, np.random.default_rng(seed)) for seed in (1, 1, 2)]
    names = [[device.name for device in sample.devices] for sample in drawn]
    assert names[0] == names[1] != names[2]
    assert len(set(names[0])) == 10
    with pytest.raises(ConfigError, match="only 40 devices"):
        devices.drawn(41, np.random.default_rng(1))


def test_an_imported_fleet_is_usable_as_a_preset(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    put(tmp_path / "capacity.json", CAPACITIES)
    put(tmp_path / "behave.json", PRESENCES)
    fleet_command(
        ["import", "capacity.json", "behave.json", "--out", "phones.toml", "--clients", "2"], standalone_mode=False
    )
    assert "2 of 3 devices" in capsys.readouterr().out
    written = tomllib.loads((tmp_path / "phones.toml").read_text(encoding="utf-8"))
    assert written["data"]["clients"] == 2
    assert written["fleet"]["availability"] == {"kind": "trace", "file": "phones-availability.csv"}
    config = parse({"run": {"horizon": 9.0}, "strategy": {"name": "fedavg"}, "fleet": {"preset": "phones.toml"}})
    assert list(config.fleet.compute.speed.values) == written["fleet"]["compute"]["speed"]
    assert "preset" not in config.tables["fleet"], "the dumped table does not need the file"
    changed = parse(
        {
            "run": {"horizon": 9.0},
            "strategy": {"name": "fedavg"},
            "fleet": {"preset": "phones.toml", "compute": {"variation": 0.1}},
        }
    )
    assert changed.fleet.compute.variation == 0.1
    with pytest.raises(ConfigError, match="nothing was overwritten"):
        fleet_command(["import", "capacity.json", "--out", "phones.toml"], standalone_mode=False)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "cannot be read"),
        ("x = 1", "must have a complete \\[fleet\\]"),
        ("[fleet]\npreset = 'fedhusky'", "without a preset"),
    ],
)
def test_a_preset_file_without_a_complete_fleet_is_rejected(tmp_path: Path, content: str | None, said: str) -> None:
    path = tmp_path / "fleet.toml"
    if content is not None:
        path.write_text(content, encoding="utf-8")
    with pytest.raises(ConfigError, match=said):
        parse({"run": {"horizon": 9.0}, "strategy": {"name": "fedavg"}, "fleet": {"preset": str(path)}})


def test_options_override_a_mapping_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    put(tmp_path / "phones.csv", "id,ms,kbps\n0,40,100\n1,20,200\n")
    put(tmp_path / "mapping.toml", 'compute = "ms"\ncompute_unit = "ms/example"\nrate = "kbps"\nrate_unit = "kbit/s"\n')
    arguments = ["import", "phones.csv", "--columns", "mapping.toml", "--compute-factor", "2", "--out", "out.toml"]
    fleet_command(arguments, standalone_mode=False)
    fleet = tomllib.loads((tmp_path / "out.toml").read_text(encoding="utf-8"))["fleet"]
    assert fleet["compute"] == {"unit": "s/example", "speed": [0.08, 0.04]}
    assert fleet["link"]["upload_bps"] == [1e5, 2e5]
    put(tmp_path / "mapping.toml", 'compute = "ms"\ncolour = "red"\n')
    with pytest.raises(ConfigError, match=r"columns\.colour: unknown key"):
        fleet_command(["import", "phones.csv", "--columns", "mapping.toml", "--out", "b.toml"], standalone_mode=False)
