"""Personal models leave a run by name: the final model with the layers that one client keeps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import nn
from typer.testing import CliRunner

from fedtempo import Experiment, Result, open_run
from fedtempo.cli.app import app
from fedtempo.errors import ConfigError, RunError
from fedtempo.runs.client_layers import client_id
from tests.api.test_models import OwnNet, accuracy
from tests.crash import lives

CLIENTS = 6
EXPERIMENT = Experiment(
    run={"horizon": 9.5, "evaluate_every": 2.0, "keep": ["last", "clients"]},
    data={"source": "digits", "clients": CLIENTS, "examples_per_client": [10, 40], "test_examples": 150},
    model={"network": f"{OwnNet.__module__}:OwnNet", "local": ["1.*", "3.*"]},  # batch norm, and a convolution
    training={"lr": 0.2, "batch_size": 10},
    strategy={"name": "fedavg", "clients_per_round": 2},
    executor="inline",
    fleet={"compute": {"unit": "s/visit", "speed": 1.0}, "link": "none", "estimates": "exact"},
)


def mean_accuracy(result: Result) -> float:
    """Score each client's personal model in plain PyTorch; return the mean, weighted by examples."""
    scores, weights = [], []
    for client, examples in enumerate(result.clients()["examples"]):
        module = OwnNet((1, 8, 8), 10)
        module.load_state_dict(result.state_dict(client=client))
        scores.append(accuracy(module, result))
        weights.append(examples)
    return float(np.average(scores, weights=weights))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("personal") / "run"
    EXPERIMENT.run(path)
    return path


@pytest.mark.parametrize("strategy", ["fedavg", "sequential", "fedbuff", "fedhusky"])
def test_personal_models_score_what_the_evaluation_of_clients_says(strategy: str, tmp_path: Path) -> None:
    """Also if clients trained once more after the last commit, as in fedbuff and fedhusky."""
    fields = {"fedbuff": {"buffer": 4}, "fedhusky": {"clusters": 2}}.get(strategy, {})
    experiment = EXPERIMENT.with_(strategy={"name": strategy, **fields})
    results = [experiment.run(), experiment.run(tmp_path / "run")]
    results.append(experiment.with_({"executor.kind": "processes", "executor.workers": 2}).run())
    for result in results:
        assert mean_accuracy(result) == pytest.approx(result.summary["final_accuracy"], abs=1e-12)
    first = [{name: tensor.tolist() for name, tensor in each.state_dict(client=1).items()} for each in results]
    assert first[0] == first[1] == first[2]


def test_only_own_layers_differ_and_a_client_without_visits_has_the_first_values(folder: Path) -> None:
    result = open_run(folder)
    shared = result.state_dict()
    visited = set(result.visits().query("outcome == 'done'")["client"])
    for client in range(CLIENTS):
        personal = result.state_dict(client=client)
        assert list(personal) == list(shared)
        differing = {name for name in shared if not torch.equal(personal[name], shared[name])}
        if client in visited:
            assert {"1.weight", "1.running_mean", "3.weight"} <= differing
            assert {name.partition(".")[0] for name in differing} == {"1", "3"}
            assert all(tensor.is_contiguous() for tensor in personal.values())


def test_the_file_holds_all_clients_by_name(folder: Path) -> None:
    """The first axis is the client, among those that have trained."""
    result = open_run(folder)
    stacked = load_file(folder / "models/clients.safetensors")
    assert set(stacked) == {"1.weight", "1.bias", "1.running_mean", "1.running_var", "3.weight", "3.bias"}
    trained = sorted(set(result.visits().query("outcome == 'done'")["client"]))
    assert result.records.facts["client_layers"]["clients"] == len(trained)
    for row, client in enumerate(trained):
        own = result.state_dict(client=int(client))
        assert all(torch.equal(tensor[row], own[name]) for name, tensor in stacked.items())


@pytest.mark.parametrize("to", ["safetensors", "pt"])
def test_the_command_line_writes_a_personal_model(folder: Path, to: str) -> None:
    out = CliRunner().invoke(app, ["export", str(folder), "--client", "2", "--to", to])
    path = folder / f"models/last-client-2.{to}"
    assert (out.exit_code, out.output.strip()) == (0, str(path))
    module: nn.Module = OwnNet((1, 8, 8), 10)
    module.load_state_dict(load_file(path) if to == "safetensors" else torch.load(path, weights_only=True))
    result = open_run(folder)
    assert accuracy(module, result) == accuracy(result.load_into(OwnNet((1, 8, 8), 10), client=2), result)
    assert torch.equal(result.network(client="2").state_dict()["3.weight"], module.state_dict()["3.weight"])


def test_a_run_without_a_commit_has_no_trained_layers(tmp_path: Path) -> None:
    result = EXPERIMENT.with_({"run.horizon": 0.5}).run(tmp_path / "run")
    assert result.records.facts["client_layers"]["clients"] == 0
    personal, shared = result.state_dict(client=2), result.state_dict()
    assert all(torch.equal(personal[name], shared[name]) for name in shared)


def test_clients_may_be_named() -> None:
    facts = {"n_clients": 3, "client_names": ["north", "2", "south"]}
    assert [client_id(client, facts) for client in ("south", "2", 2, "0", 1)] == [2, 1, 2, 0, 1]


@pytest.mark.parametrize(
    ("changes", "asked", "line"),
    [
        (
            {"run.keep": ["last"]},
            {"client": 1},
            r"this run has no layers of its clients; set run\.keep = \['last', 'cl",
        ),
        ({}, {"client": CLIENTS}, r"^client = 6: no such client; this run has clients 0 to 5$"),
        ({}, {"client": "north"}, r"^client = 'north': no such client"),
        ({}, {"client": -1}, r"^client = -1: no such client"),
        ({"run.keep": ["last", "best", "clients"]}, {"client": 1, "model": "best"}, r"^client = 1: .* last model only"),
    ],
)
def test_what_is_not_there_is_said_in_one_line(changes: dict[str, Any], asked: dict[str, Any], line: str) -> None:
    result = EXPERIMENT.with_({"run.horizon": 2.5, **changes}).run()
    with pytest.raises(ConfigError, match=line):
        result.state_dict(**asked)


def test_keeping_layers_that_nobody_has_is_an_error() -> None:
    with pytest.raises(ConfigError, match=r"^run\.keep: clients keep nothing of this model; set model\.local"):
        EXPERIMENT.with_({"model.local": []}).run()
    with pytest.raises(ConfigError, match=r"keep = \['clients'\]: .* add 'last'"):
        EXPERIMENT.with_(run={"horizon": 1.0, "keep": ["clients"]})
    EXPERIMENT.with_({"model.local": [], "executor.kind": "none"}).run()


def test_a_damaged_file_is_named(folder: Path, tmp_path: Path) -> None:
    EXPERIMENT.with_({"run.horizon": 2.5}).run(tmp_path / "run")
    path = tmp_path / "run/models/clients.safetensors"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    for damaged in (bytes(content), content[:100], (folder / "models/last.safetensors").read_bytes()):
        path.write_bytes(damaged)
        with pytest.raises(RunError, match=r"clients\.safetensors is damaged: "):
            open_run(tmp_path / "run").state_dict(client=0)
    path.unlink()
    with pytest.raises(ConfigError, match=r"clients\.safetensors does not exist"):
        open_run(tmp_path / "run").state_dict(client=0)


@pytest.mark.parametrize("strategy", ["fedavg", "fedbuff"])
def test_an_interrupted_run_leaves_the_same_layers(tmp_path: Path, strategy: str) -> None:
    config = EXPERIMENT.with_({"strategy.name": strategy, "run.checkpoint_every": 1e-6}).config
    lives.Run(config).complete(tmp_path / "whole")
    lives.interrupted_at(config, tmp_path / "run", 3.5)
    lives.interrupted_at(config, tmp_path / "run", 6.5)
    lives.Run(config).complete(tmp_path / "run")
    lives.assert_the_same(tmp_path / "run", tmp_path / "whole")
    whole, resumed = (open_run(tmp_path / name).records.facts["client_layers"] for name in ("whole", "run"))
    assert whole == resumed
