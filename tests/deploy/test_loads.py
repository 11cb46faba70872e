"""Loads of the machines of a deployment: told by clients, read under bounds, kept, and compared."""

from __future__ import annotations

import itertools
import math
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fedtempo.deploy.flower.measuring import Measure, as_toml
from fedtempo.deploy.live.messages import Call, Reply
from fedtempo.deploy.loads import Load, differences, loads_of, measured_loads, read_load
from fedtempo.deploy.run import deploy_to_folder
from fedtempo.errors import ConfigError
from fedtempo.record import load_run
from fedtempo.runtime.run_settings import RunSettings
from tests.deploy.live.deployments import config
from tests.deploy.live.loopback import Loopback, digits_clients

ODD = [None, 1.0, "1", [], [1.0], [1.0, 2, 3], ["1", 2], [True, 2], [math.nan, 2], [math.inf, 2], [-1.0, 2], [1.0, 0]]
ODD += [[1.0, 5e-324], [1.0, 0.009], [1.0, math.nan], [10**400, 2], [1.0, 10**400], [[1.0], 2], {"average": 1.0}]


@pytest.fixture
def grid() -> Any:
    loopback = Loopback(digits_clients(3))
    yield loopback
    loopback.close()


@pytest.mark.parametrize("value", ODD, ids=repr)
def test_an_odd_load_counts_as_none(value: Any) -> None:
    assert read_load(value) is None


def test_odd_loads_in_replies_count_as_none(tmp_path: Path, grid: Loopback) -> None:
    odd, told = itertools.cycle(ODD), []

    def tell(call: Call, reply: Reply) -> Reply:
        if call.kind != "train" or call.node == 100:
            return replace(reply, content={**reply.content, "load": [3.0, 2]})
        told.append(next(odd))
        return replace(reply, content={**reply.content, "load": told[-1]})

    grid.change = tell
    deploy_to_folder(replace(config(), run=RunSettings(max_commits=12)), tmp_path / "run", grid)
    assert len(told) >= len(ODD)
    records = load_run(tmp_path / "run")
    assert (records.visits["outcome"] == "done").all()
    assert records.facts["loads"]["clients"] == [[3.0, 2.0], None, None]
    assert loads_of(records).keys() == {"", "c0"}


def test_a_measured_fleet_keeps_the_loads_under_which_it_was_measured(tmp_path: Path, grid: Loopback) -> None:
    def tell(call: Call, reply: Reply) -> Reply:
        loads = {100: [0.5, 2], 101: [6.0, 4], 102: "a client of an earlier version tells nothing"}
        return replace(reply, content={**reply.content, "load": loads[call.node]}) if call.kind == "train" else reply

    grid.change = tell
    measuring = replace(config(), strategy=Measure(2), run=RunSettings(max_commits=1))
    deploy_to_folder(measuring, tmp_path / "measured", grid)
    text = as_toml(load_run(tmp_path / "measured"))
    (tmp_path / "fleet.toml").write_text(text)
    measured = measured_loads(tmp_path / "fleet.toml")
    assert measured.keys() == {"", "c0", "c1"}
    assert measured["c0"] == Load(0.5, 2)
    assert measured["c1"] == Load(6.0, 4)
    assert "measured" not in tomllib.loads(text)["fleet"]

    grid.change = lambda call, reply: replace(reply, content={**reply.content, "load": [7.0, 2]})
    deploy_to_folder(config(), tmp_path / "run", grid)
    told = loads_of(load_run(tmp_path / "run"))
    assert {name: told[name] for name in ("c0", "c1", "c2")} == dict.fromkeys(("c0", "c1", "c2"), Load(7.0, 2))
    lines = differences({name: measured[name] for name in ("c0", "c1")}, told)
    assert lines == [
        "client c0: load 0.5 on 2 processors when measured, 7.0 on 2 processors in the deployment",
        "client c1: load 6.0 on 4 processors when measured, 7.0 on 2 processors in the deployment",
    ]


def test_loads_differ_if_programs_wait_a_quarter_longer_for_a_processor() -> None:
    one = {"": Load(8.0, 2)}
    assert differences(one, {"": Load(9.9, 2)}) == []
    assert len(differences(one, {"": Load(10.1, 2)})) == 1
    assert len(differences(one, {"": Load(0.1, 2)})) == 1
    assert differences({"": Load(0.1, 2)}, {"": Load(2.4, 2)}) == []
    assert differences(one, {}) == []
    extremes = [Load(0.0, 0.01), Load(1e6, 0.01), Load(5e-324, 1e6), Load(1e6, 1e6)]
    assert all(read_load(list(load)) == load for load in extremes)
    for before in extremes:
        for then in extremes:
            assert len(differences({"": before}, {"": then})) == (before.wait != then.wait)
    many = {f"c{number}": Load(0.0, 1) for number in range(9)}
    assert differences(many, dict.fromkeys(many, Load(5.0, 1)))[3:] == ["and 6 more machines"]


def test_a_file_without_loads_has_none_and_an_unreadable_one_is_named(tmp_path: Path) -> None:
    path = tmp_path / "fleet.toml"
    for text in ("[fleet]", "measured = 3", "[measured]\nclients = 3\nserver = 4", "[measured.clients]\na = [1, 0]"):
        path.write_text(text)
        assert measured_loads(path) == {}
    path.write_text("[")
    with pytest.raises(ConfigError, match=r"fleet\.toml: cannot be read"):
        measured_loads(path)
