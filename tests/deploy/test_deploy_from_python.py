"""A deployment from Python on this machine: numeric labels, trackers, and a running event loop, as in a notebook."""

from __future__ import annotations

import asyncio
import tomllib
from pathlib import Path

import pytest

pytest.importorskip("flwr")

from fedtempo import ConfigError, Experiment
from fedtempo.runs.run import run
from fedtempo.studies.display import Display
from tests.deploy.live.deployments import real
from tests.report.trackers.test_tracking import Remembers

pytestmark = pytest.mark.deploy

MODULE = """
import numpy as np

def make():
    x = np.random.default_rng(1).normal(size=(90, 3)).astype(np.float32)
    y = (x @ [1.0, -2.0, 0.5] + 3).astype(np.float32)
    return x[:60], y[:60], x[60:], y[60:]
"""


def test_an_experiment_is_deployed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "deployed_numbers.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    Remembers.instances.clear()
    config = real(data__source="deployed_numbers:make", data__clients=2, run__max_commits=2)
    experiment = Experiment.of(config).with_({"run.track": ["tests.report.trackers.test_tracking:Remembers"]})
    said: list[str] = []

    async def cell() -> object:
        return experiment.deploy(tmp_path / "run", local=2, say=said.append)

    result = asyncio.run(cell())
    simulated, records, _ = run(config)
    assert result.summary["model_sha256"] == simulated["model_sha256"]
    assert result.summary["measure"] == "r2"
    assert result.curve().mae.tolist() == records.evaluations["mae"].tolist()
    assert (tmp_path / "run/report.html").exists()
    assert [line for line in said if line.startswith("client client-")]
    assert any("evaluation/r2" in point.values for point in Remembers.instances[0].points)
    with pytest.raises(ConfigError, match="local = 0"):
        experiment.deploy(tmp_path / "none", local=0)


def test_a_measured_fleet_is_that_of_a_configuration(tmp_path: Path) -> None:
    experiment = Experiment.of(real(data__clients=2))
    said: list[str] = []
    measured = experiment.measure_fleet(tmp_path / "fleet.toml", local=2, visits=2, display=Display(say=said.append))
    text = measured.read_text(encoding="utf-8")
    assert text.startswith("# Measured on live clients, in this order: client-0, client-1.")
    assert [line for line in said if line.startswith("client client-")]
    fleet = tomllib.loads(text)["fleet"]
    assert len(fleet["compute"]["speed"]) == 2
    assert all(seconds > 0 for seconds in fleet["compute"]["speed"])
    tables = {**experiment.config.tables, "fleet": {"preset": str(measured)}}
    assert list(Experiment.from_tables(tables).config.fleet.compute.speed.values) == fleet["compute"]["speed"]
    with pytest.raises(ConfigError, match="visits = 0: give the number"):
        experiment.measure_fleet(tmp_path / "none.toml", local=2, visits=0)
    with pytest.raises(ConfigError, match="already exists"):
        experiment.measure_fleet(measured, local=2)
