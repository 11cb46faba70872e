"""The examples with a user's data and strategy work as their pages say, in the number of lines given there."""

from __future__ import annotations

import csv
import json
import runpy
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from fedtempo.cli import runs
from fedtempo.deploy.client.settings import parse_client
from fedtempo.parts import import_path
from fedtempo.runs.config import load
from fedtempo.runs.run import run
from fedtempo.runs.world import build_world
from fedtempo.strategies import STRATEGIES

ROOT = Path(__file__).parents[1]
CSV, STRATEGY = ROOT / "examples/own_csv", ROOT / "examples/own_strategy"


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    """Remove modules imported from the examples' folders from sys.modules afterwards."""
    path, folders = list(sys.path), list(import_path._folders)
    yield
    sys.path[:] = path
    import_path._folders[:] = folders
    for name in ("small", "active_fl"):
        sys.modules.pop(name, None)


def lines(path: Path) -> int:
    return len(path.read_text().splitlines())


def test_three_hospitals_and_a_users_network_take_twenty_lines() -> None:
    assert lines(CSV / "patients.toml") + lines(CSV / "small.py") <= 20
    config = load(CSV / "patients.toml", ["executor.kind=inline"])
    world = build_world(config)
    assert [client.name for client in world.clients] == ["coast", "north", "south"]
    assert sorted(np.concatenate(world.owned).tolist()) == list(range(len(world.dataset.train_y)))
    summary, _, model = run(config, world=world)
    assert model is not None
    assert len(model) == 10 * 16 + 16 + 16 * 2 + 2
    assert summary["time_to_target_s"] is not None
    assert summary["data"]["about"] == (
        "classes of 'diagnosis': benign, malignant, from 10 features, 3 clients by 'hospital': coast, north, south"
    )


def test_a_real_client_holds_what_the_simulation_gives_it() -> None:
    config = load(CSV / "patients.toml")
    world = build_world(config)
    shared = {"source": config.data.source, "options": config.data.options, "partition": "by-owner", "clients": 3}
    for part, rows in enumerate(world.owned):
        tables = {"name": "a", "insecure": True, "data": {**shared, "part": part, "seed": config.run.seed}}
        held = parse_client(tables).data.read()
        assert np.array_equal(held.x, world.dataset.train_x[rows])
        assert np.array_equal(held.y, world.dataset.train_y[rows])
        assert held.n_outputs == 2
        assert held.task == "classes"


def test_the_table_is_reproduced_by_its_script(tmp_path: Path) -> None:
    table = tmp_path / "patients.csv"
    runpy.run_path(str(CSV / "make_data.py"))["main"](table)
    assert table.read_text() == (CSV / "patients.csv").read_text()
    with table.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 569
    assert sum(row["diagnosis"] == "malignant" for row in rows) == 212


def test_a_strategy_of_a_paper_takes_forty_lines() -> None:
    assert lines(STRATEGY / "active_fl.py") <= 40
    config = load(STRATEGY / "all.toml", ["executor.kind=inline", "run.horizon=200"]).for_comparison("active-fl")
    summary, records, _ = run(config)
    assert summary["best_accuracy"] > 0.6
    visits = records.visits
    first = visits["client"][visits["base_version"] == 0]
    assert len(first) == 6
    # Clients that never trained come first: twenty, six of whom had their turn.
    assert len(set(visits["client"][visits["base_version"] < 2].tolist())) > 9


def test_the_strategy_prefers_clients_of_high_value() -> None:
    strategy = runpy.run_path(str(STRATEGY / "active_fl.py"))["ActiveFL"]
    values, rng = np.array([5.0, 1.0, 8.0, 2.0, 7.0, 3.0, 6.0, 4.0]), np.random.default_rng(0)
    best = strategy(clients_per_round=2, others=0.0)
    assert {client for _ in range(20) for client in best.choose(values, rng)} == {2, 4}
    with_others = strategy(clients_per_round=2, others=0.5)
    assert {client for _ in range(200) for client in with_others.choose(values, rng)} == set(range(8))
    assert all(len(set(with_others.choose(values, rng))) == 2 for _ in range(20))


@pytest.mark.long
def test_the_strategy_is_compared_with_all_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    out = tmp_path / "compared"
    runs.compare(
        STRATEGY / "all.toml",
        "active-fl,all",
        "1",
        out,
        set_=["run.horizon=15", "executor.kind=inline", "data.test_examples=50", "run.evaluate_every=15"],
    )
    compared = json.loads((out / "comparison.json").read_text())
    assert compared["strategies"].keys() == {"active-fl", *STRATEGIES}
    assert "active-fl" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("page", "file"),
    [
        ("own-data.md", CSV / "patients.toml"),
        ("own-data.md", CSV / "small.py"),
        ("own-strategy.md", STRATEGY / "active_fl.py"),
    ],
)
def test_pages_show_the_tested_files(page: str, file: Path) -> None:
    assert file.read_text() in (ROOT / "docs" / page).read_text()
