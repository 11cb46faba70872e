"""Further measures of a deployment: metrics at the server, and a line about clients' own test sets."""

from __future__ import annotations

import logging
import math
from pathlib import Path

import pytest

from fedtempo.deploy.run import deploy_to_folder
from fedtempo.errors import ConfigError
from fedtempo.record import load_run
from tests.deploy.live.deployments import config
from tests.deploy.live.loopback import Loopback, digits_clients


def test_the_server_computes_metrics_and_says_what_it_does_not(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    grid = Loopback(digits_clients(3))
    asked = {"run__metrics": ["f1-macro", "confusion"], "data__client_test_share": 0.2}
    with caplog.at_level(logging.WARNING, "fedtempo.run"):
        summary = deploy_to_folder(config(run__max_commits=1, **asked), tmp_path / "run", grid)
    grid.close()
    assert math.isfinite(summary["metrics"]["f1-macro"]["final"])
    assert "clients" not in summary
    records = load_run(tmp_path / "run")
    assert records.further["confusion"]["examples"].size
    assert not records.further["client_evaluations"]["time"].size
    assert any("data.client_test_share: not used here, since clients keep" in line for line in caplog.messages)


def test_a_target_over_clients_cannot_be_reached_there(tmp_path: Path) -> None:
    grid = Loopback(digits_clients(3))
    asked = {"run__target": {"clients-mean": 0.5}, "data__client_test_share": 0.2}
    with pytest.raises(ConfigError, match="real clients are not evaluated on their own test sets"):
        deploy_to_folder(config(run__max_commits=1, **asked), tmp_path / "run", grid)
    grid.close()
