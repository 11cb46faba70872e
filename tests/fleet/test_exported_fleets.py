"""A configuration's fleet as files and as a figure, and the power that clients draw."""

from __future__ import annotations

import csv
import json
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedtempo.cli.fleet import fleet
from fedtempo.errors import ConfigError
from fedtempo.record.measures import client_seconds, energy_wh
from fedtempo.runs.config import parse
from fedtempo.runs.run import run
from fedtempo.runs.world import build_world
from fedtempo.studies.fleet import as_drawn, describe_fleet, windows
from fedtempo.studies.fleet_figure import draw_fleet

BASE: dict[str, Any] = {
    "run": {"horizon": 40.0},
    "data": {"clients": 6, "examples_per_client": 20},
    "model": {"network": "logistic", "size_bytes": 1000},
    "fleet": {
        "compute": {"unit": "s/visit", "kind": "uniform", "low": 1.0, "high": 3.0},
        "link": {"kind": "path-loss", "bandwidth_hz": 1e5},
        "estimates": "exact",
    },
    "strategy": {"name": "fedavg"},
    "executor": {"kind": "none"},
}
POWER = {
    "compute": {"unit": "s/visit", "speed": [1.0, 2.0, 3.0, 1.0, 1.0, 1.0], "watts": [5.0, 1.0, 0.0, 0.0, 0.0, 0.0]},
    "link": {"kind": "fixed", "download_s": 0.5, "upload_s": 1.5, "watts": 2.0},
    "estimates": "exact",
}


def test_rows_describe_the_clients(tmp_path: Path) -> None:
    config = parse(BASE)
    rows = describe_fleet(config)
    world = build_world(config)
    assert [row["examples"] for row in rows] == [20] * 6
    assert [row["compute_s"] for row in rows] == world.fleet.speed.values.tolist()
    assert rows[0]["upload_s"] == pytest.approx(8000 / rows[0]["upload_bps"])
    assert all(row["available_share"] == 1.0 for row in rows)


def test_a_written_fleet_gives_the_same_run_as_the_configuration_it_was_drawn_from() -> None:
    config = parse(BASE)
    drawn = parse({**BASE, "fleet": as_drawn(config)})
    first, second = (run(configured)[0] for configured in (config, drawn))
    assert first["events_sha256"] == second["events_sha256"]
    again = parse({**BASE, "fleet": as_drawn(drawn), "run": {"horizon": 40.0, "seed": 9}})
    assert build_world(again).fleet.speed.values.tolist() == build_world(config).fleet.speed.values.tolist()


def test_a_written_fleet_has_the_clients_that_are_only_tested_on() -> None:
    """Then the configuration can name it, whichever clients each seed tests on."""
    data = {**BASE["data"], "test_clients": {"folds": 3}}
    config = parse({**BASE, "data": data})
    drawn = as_drawn(config, build_world(config))
    assert drawn == as_drawn(parse(BASE))
    for seed in (1, 2):
        again = build_world(parse({**BASE, "data": data, "fleet": drawn, "run": {"horizon": 40.0, "seed": seed}}))
        assert len(again.clients) == 4


def test_each_format_holds_the_fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    config = parse(BASE)
    Path("config.toml").write_text(config.dump(), encoding="utf-8")
    for suffix in ("csv", "json", "toml", "parquet"):
        fleet(["export", "config.toml", "--out", f"fleet.{suffix}"], standalone_mode=False)
    seconds = build_world(config).fleet.speed.values.tolist()
    rows = list(csv.DictReader(Path("fleet.csv").read_text(encoding="utf-8").splitlines()))
    assert [float(row["compute_s"]) for row in rows] == pytest.approx(seconds)
    assert [row["compute_s"] for row in json.loads(Path("fleet.json").read_text(encoding="utf-8"))] == seconds
    table = tomllib.loads(Path("fleet.toml").read_text(encoding="utf-8"))["fleet"]
    assert table["compute"]["speed"] == seconds
    assert parse({**BASE, "fleet": {"preset": "fleet.toml"}}).fleet.compute.speed.values == tuple(seconds)
    import pyarrow.parquet as pq

    assert pq.read_table("fleet.parquet").column("compute_s").to_pylist() == seconds
    for out, said in (("fleet.csv", "nothing was overwritten"), ("fleet.xlsx", "can be written as")):
        with pytest.raises(ConfigError, match=said):
            fleet(["export", "config.toml", "--out", out], standalone_mode=False)


def test_a_figure_has_a_panel_for_each_configured_property(tmp_path: Path) -> None:
    plain = draw_fleet(parse({**BASE, "fleet": POWER}))
    titles = [axes.get_xlabel() for axes in plain.axes if axes.axison]
    assert len(titles) == 2
    away = {**BASE["fleet"], "availability": {"kind": "on-off", "mean_on_s": 10.0, "mean_off_s": 5.0}}
    full = draw_fleet(parse({**BASE, "fleet": away}))
    labels = {axes.get_ylabel() for axes in full.axes}
    assert "from the client, Mbit/s" in labels
    assert "available clients" in labels
    assert "metres from the server" in {axes.get_xlabel() for axes in full.axes}
    (tmp_path / "c.toml").write_text(parse(BASE).dump(), encoding="utf-8")
    arguments = ["plot", str(tmp_path / "c.toml"), "--out", str(tmp_path / "fleet.png")]
    fleet(arguments, standalone_mode=False)
    assert (tmp_path / "fleet.png").read_bytes()[:4] == b"\x89PNG"


def test_exported_windows_equal_those_of_the_availability() -> None:
    fleet = {**BASE["fleet"], "availability": {"kind": "windows", "windows": [[[0, 5], [8, 9]]] * 6, "period_s": 10.0}}
    world = build_world(parse({**BASE, "fleet": fleet}))
    assert windows(world.fleet.availability, 0, 23.0) == [
        (0.0, 5.0),
        (8.0, 9.0),
        (10.0, 15.0),
        (18.0, 19.0),
        (20.0, 23.0),
    ]
    assert describe_fleet(parse({**BASE, "fleet": fleet}))[0]["available_share"] == pytest.approx(24 / 40)


def test_energy_counts_training_and_transfers() -> None:
    _, records, _ = run(parse({**BASE, "fleet": POWER, "run": {"horizon": 10.0}}))
    # Two rounds of 5 s: the slowest client computes for 3 s, and every client receives and sends for 2 s a round.
    assert records.visits["outcome"].tolist() == ["done"] * 12
    joules = 2 * (1.0 * 5.0 + 2.0 * 1.0) + 2 * 6 * 2.0 * 2.0
    assert energy_wh(records) == pytest.approx(joules / 3600)
    assert client_seconds(records) == pytest.approx(2 * (3 + 4 + 5 + 3 + 3 + 3))


def test_visits_cut_by_the_end_use_energy_until_then() -> None:
    _, records, _ = run(parse({**BASE, "fleet": POWER, "run": {"horizon": 1.0}}))
    # Half a second of receiving at 2 W for six clients, half a second of computing at 5 W and at 1 W.
    assert energy_wh(records) == pytest.approx((6 * 0.5 * 2.0 + 0.5 * 5.0 + 0.5 * 1.0) / 3600)


def test_without_watts_there_is_no_energy_and_the_draws_are_unchanged() -> None:
    _, without, _ = run(parse(BASE))
    assert energy_wh(without) is None
    fleet = {
        **BASE["fleet"],
        "compute": {**BASE["fleet"]["compute"], "watts": {"kind": "uniform", "low": 1.0, "high": 9.0}},
    }
    _, with_watts, _ = run(parse({**BASE, "fleet": fleet}))
    assert with_watts.facts["events_sha256"] == without.facts["events_sha256"]
    assert len(set(with_watts.facts["watts"]["compute"])) == 6
    assert "link" not in with_watts.facts["watts"]


def test_impossible_power_is_rejected() -> None:
    fleet = {**POWER, "compute": {**POWER["compute"], "watts": [1.0, 1.0, -2.0, 1.0, 1.0, 1.0]}}
    with pytest.raises(ConfigError, match=r"fleet.compute.watts: client 2 draws -2.0 W"):
        build_world(parse({**BASE, "fleet": fleet}))


def test_watts_in_a_foreign_record_must_have_one_number_per_client() -> None:
    from fedtempo.record.checks import check_facts

    check_facts({"n_clients": 2, "watts": {"compute": [1.0, 2.0]}})
    with pytest.raises(ValueError, match="one number for each of 2 clients"):
        check_facts({"n_clients": 2, "watts": {"compute": [1.0, 2.0], "link": [1.0]}})
    with pytest.raises(ValueError, match="watts"):
        check_facts({"n_clients": 1, "watts": {"compute": [np.inf]}})
