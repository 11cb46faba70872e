"""Every registered strategy runs on real clients on this machine, as a simulation predicts."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("flwr")

from benchmarks.prediction import compared
from fedtempo.deploy.flower.grid import SuperLink, joined
from fedtempo.deploy.flower.local import clients
from fedtempo.deploy.flower.superlink import started
from fedtempo.deploy.run import deploy_to_folder
from fedtempo.record import load_run
from fedtempo.runs.config import Config, parse
from fedtempo.strategies import STRATEGIES

pytestmark = [pytest.mark.deploy, pytest.mark.slow]

SPECIAL: dict[str, dict[str, Any]] = {
    "centralized": {"strategy.round_s": 4.0},
    "csgd": {"strategy.n_clusters": 1},
    "fch": {"strategy.clients_per_round": 3},
    "fedcs": {"strategy.deadline_s": 6.0},
    "fedhusky": {"strategy.clusters": 2},
    "fedhusky-paper": {"strategy.clusters": 2},
    "fedrep": {"model.local": ["*bias"], "strategy.head_epochs": 1},
    "hybrid": {"strategy.clusters": 2},
    "hybrid-fl": {"strategy.deadline_s": 6.0},
    "psfl": {"strategy.width": 2, "strategy.length": 2},
}
BASE: dict[str, Any] = {
    "run": {"horizon": 15.0, "evaluate_every": 3.0},
    "data": {
        "source": "digits",
        "clients": 5,
        "examples_per_client": 20,
        "tell_labels": True,
        "share_examples": 1.0,
        "partition": {"kind": "dirichlet", "alpha": 0.5},
    },
    "model": {"network": "logistic"},
    "training": {"lr": 0.05, "batch_size": 5},
    "fleet": {
        "compute": {"unit": "s/visit", "speed": 0.2},
        "link": {"kind": "fixed", "download_s": 0.3, "upload_s": 0.3},
        "estimates": {"kind": "observed", "prior_s": [0.3, 0.2, 0.3]},
    },
    "executor": {"kind": "inline"},
}


def configuration(name: str) -> Config:
    return parse({**BASE, "strategy": {"name": name}}).with_changes(SPECIAL.get(name, {}))


@pytest.fixture(scope="module")
def superlink(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SuperLink]:
    folder = tmp_path_factory.mktemp("everyone")
    with contextlib.ExitStack() as stack:
        superlink = stack.enter_context(started(folder))
        stack.enter_context(clients(configuration("fedavg"), superlink, folder))
        yield superlink


@pytest.mark.parametrize("name", sorted(STRATEGIES))
def test_every_strategy_runs_on_real_clients(name: str, superlink: SuperLink, tmp_path: Path) -> None:
    with joined(superlink, outage_s=60) as grid:
        summary = deploy_to_folder(configuration(name), tmp_path / "run", grid)
    assert summary["ended"] == "horizon"
    assert summary["commits"] >= 1
    outcomes = set(load_run(tmp_path / "run").visits["outcome"])
    assert "done" in outcomes
    assert outcomes <= {"done", "cut", "cancelled"}


def test_a_simulation_of_the_measured_fleet_predicts_the_deployment(tmp_path: Path) -> None:
    for strategy, outcome in compared(tmp_path / "prediction").outcomes.items():
        by_name = {measure.name: measure for measure in outcome.measures}
        for name in ("time between commits, mean, s", "time to target, s"):
            error = by_name[name].error
            assert error is not None, (strategy, name)
            assert abs(error) <= 0.15, (strategy, by_name[name], outcome.differences)
        busy = by_name["busy ratio, mean"]
        assert busy.real == pytest.approx(busy.predicted, abs=0.1), strategy
