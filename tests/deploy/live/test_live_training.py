"""Settings of local training on real clients: the bits of the simulation."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from fedtempo.deploy.client.answers import Answers
from fedtempo.deploy.client.settings import parse_client
from fedtempo.deploy.run import deploy_to_folder
from fedtempo.errors import ConfigError
from fedtempo.runs.config import parse
from fedtempo.runs.run import run
from tests.deploy.live.deployments import TABLES, config
from tests.deploy.live.loopback import Loopback, digits_clients
from tests.runtime.everything import AUGMENT, DROPOUT, SETTINGS, TOGETHER


@pytest.mark.parametrize(
    "schedule",
    [
        {"kind": "exponential", "gamma": 0.5},
        {"kind": "step", "by": "commit", "every": 2},
        {"kind": "StepLR", "options": {"step_size": 1, "gamma": 0.5}},
    ],
)
def test_the_server_schedules_the_clients_rates(schedule: dict[str, Any], tmp_path: Path, grid: Loopback) -> None:
    settings = config(training__schedule=schedule)
    summary = deploy_to_folder(settings, tmp_path / "run", grid)
    assert summary["model_sha256"] == run(settings)[0]["model_sha256"]
    assert summary["model_sha256"] != run(config())[0]["model_sha256"]


def test_clients_change_their_batches(tmp_path: Path) -> None:
    settings = config(data__augment=AUGMENT)
    with closing(Loopback(digits_clients(3, training=[AUGMENT]))) as agreed:
        summary = deploy_to_folder(settings, tmp_path / "run", agreed)
    assert summary["model_sha256"] == run(settings)[0]["model_sha256"]
    assert summary["model_sha256"] != run(config())[0]["model_sha256"]


@pytest.mark.parametrize("changes", [*SETTINGS.values(), TOGETHER], ids=[*SETTINGS, "together"])
@pytest.mark.parametrize("strategy", ["fedavg", "scaffold", "ditto", "csgd"])
def test_each_setting_gives_the_bits_of_a_simulation_with_dropout(
    strategy: str, changes: dict[str, Any], tmp_path: Path
) -> None:
    tables = {**TABLES, "model": DROPOUT, "strategy": {"name": strategy}}
    settings = parse(tables).with_changes({"run.evaluate_clients": 0, "run.horizon": 600.0, **changes})
    with closing(Loopback(digits_clients(3, training=[AUGMENT]), one_thread=True)) as grid:
        deployed = deploy_to_folder(settings, tmp_path / "run", grid)
    simulated = run(settings)[0]
    assert deployed["commits"] == simulated["commits"] == 3
    assert deployed["model_sha256"] == simulated["model_sha256"]
    assert deployed["final_loss"] == simulated["final_loss"]
    assert deployed["bytes"]["up"] == simulated["bytes"]["up"]


def test_clients_train_on_several_inputs(tmp_path: Path) -> None:
    network = "tests.learning.own_models:Masked"
    source = {"source": "tests.learning.own_models:text_data", "clients": 3}
    settings = parse({**TABLES, "data": source, "model": {"network": network}})
    tables = {"insecure": True, "networks": [network]}
    clients = [Answers(parse_client({"name": f"c{i}", "data": {**source, "part": i}, **tables})) for i in range(3)]
    with closing(Loopback(clients)) as grid:
        summary = deploy_to_folder(settings, tmp_path / "run", grid)
    assert summary["model_sha256"] == run(settings)[0]["model_sha256"]
    with pytest.raises(ConfigError, match="share_examples = true: examples with several inputs cannot be uploaded"):
        Answers(parse_client({"name": "c", "data": source | {"part": 0}, "share_examples": True, **tables}))
