"""A sweep on a Ray cluster of this machine: the same bits, with and without a shared folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fedtempo.api.experiment import Experiment
from fedtempo.api.results import open_run
from fedtempo.runtime.executors.ray_session import Session
from fedtempo.studies import on_ray

GRID = {"strategy.clients_per_round": [2, 3]}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Start a local cluster, which all sweeps of this module use."""
    session = Session(None, 2)
    yield session.ray
    session.close()


@pytest.fixture
def experiment() -> Experiment:
    return Experiment(
        strategy={"name": "fedavg", "clients_per_round": 2},
        fleet={"compute": {"unit": "s/visit", "speed": 1.0}, "link": "none", "estimates": "exact"},
        data={"source": "digits", "clients": 4, "examples_per_client": 10},
        model="logistic",
        run={"horizon": 5.0},
        executor="ray",
    )


def hashes(sweep: Any) -> list[tuple[str, int, str]]:
    return [(run.label, run.seed, run.summary["model_sha256"]) for run in sweep.runs]


@pytest.mark.ray
def test_each_run_is_a_task_with_the_same_bits(cluster: Any, experiment: Experiment, tmp_path: Path) -> None:
    on_cluster = experiment.sweep(GRID, tmp_path / "ray", seeds=[1, 2], jobs=None)
    here = experiment.with_(executor="inline").sweep(GRID, tmp_path / "here", seeds=[1, 2])
    assert len(on_cluster) == 4
    assert hashes(on_cluster) == hashes(here)


def test_a_node_without_the_folder_sends_the_files_of_its_run(experiment: Experiment, tmp_path: Path) -> None:
    alone = experiment.with_(executor="inline")
    run = on_ray.PlannedRun(alone.config, "alone")
    answer = on_ray._complete_on_node(run, str(tmp_path / "nowhere"), "a plan", on_ray.computing_versions(), [], False)
    outcome = on_ray._received(tmp_path / "driver" / "alone", answer)
    assert isinstance(outcome, dict)
    names = {path.name for path in (tmp_path / "driver" / "alone").iterdir()}
    assert {"run.sqlite", "summary.json", "config.toml", "journal.jsonl", "models"} <= names
    assert outcome["model_sha256"] == alone.run().summary["model_sha256"]
    assert open_run(tmp_path / "driver" / "alone").summary["events_sha256"] == outcome["events_sha256"]
    assert not (tmp_path / "nowhere").exists()


def test_a_node_with_other_versions_does_nothing(experiment: Experiment, tmp_path: Path) -> None:
    run = on_ray.PlannedRun(experiment.config, "alone")
    outcome, packed = on_ray._complete_on_node(run, str(tmp_path), "a plan", {"torch": "0.1"}, [], False)
    assert packed is None
    assert "a node of the cluster has torch" in str(outcome)
