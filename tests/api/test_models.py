"""Trained models leave a run by name: plain PyTorch loads them and scores what the run says."""

from __future__ import annotations

import asyncio
import shutil
import signal
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import nn
from typer.testing import CliRunner

import fedtempo
from fedtempo import Experiment, Result, open_run
from fedtempo.api import models as api_models
from fedtempo.cli.app import app
from fedtempo.data.sources import load
from fedtempo.errors import ConfigError, RunError
from fedtempo.record.journal import Journal
from fedtempo.runs.identity import identity
from fedtempo.runs.models import read_model
from fedtempo.runs.run import Run
from tests.learning.own_models import texts


class OwnNet(nn.Sequential):
    """Convolutions and batch normalisation in a module of a user's own."""

    def __init__(self, shape: Sequence[int], outputs: int) -> None:
        super().__init__(
            nn.Conv2d(shape[0], 6, 3, padding=1),
            nn.BatchNorm2d(6),
            nn.ReLU(),
            nn.Conv2d(6, 8, 3),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(288, outputs),
        )


EXPERIMENT = Experiment(
    run={"horizon": 16.0, "evaluate_every": 2.0, "keep": ["last", "best"]},
    data={"source": "digits", "clients": 4, "examples_per_client": 60, "test_examples": 200},
    model=OwnNet,
    training={"lr": 0.2, "batch_size": 10},
    strategy="fedavg",
    executor="inline",
    fleet={"compute": {"unit": "s/visit", "speed": 1.0}, "link": "none", "estimates": "exact"},
)
NAMED = EXPERIMENT.with_(model={"network": "cnn", "channels": [4, 6], "hidden": [16], "batch_norm": True})


def accuracy(module: nn.Module, result: Result) -> float:
    """Score a module on the run's test examples with plain PyTorch."""
    from fedtempo.runs.config import parse
    from fedtempo.runs.world import build_world

    data, tests = load("digits"), build_world(parse(result.config)).test
    module.eval()
    with torch.no_grad():
        predicted = module(torch.as_tensor(tests.inputs(data))).argmax(dim=1).numpy()
    return float((predicted == tests.labels(data)).mean())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "run"
    EXPERIMENT.run(path)
    return path


def test_plain_pytorch_scores_what_the_run_says(folder: Path) -> None:
    result = open_run(folder)
    assert sorted(path.name for path in (folder / "models").iterdir()) == ["best.safetensors", "last.safetensors"]
    for kind in ("last", "best"):
        expected = {"last": "final_accuracy", "best": "best_accuracy"}[kind]
        module = OwnNet((1, 8, 8), 10)
        module.load_state_dict(load_file(folder / "models" / f"{kind}.safetensors"))
        assert accuracy(module, result) == result.summary[expected]
        assert accuracy(result.load_into(OwnNet((1, 8, 8), 10), kind), result) == result.summary[expected]
        state = result.state_dict(kind)
        assert list(state) == list(module.state_dict())
        assert all(torch.equal(value, module.state_dict()[name]) for name, value in state.items())
        assert all(value.is_contiguous() for value in state.values())


def test_exports_hold_the_same_tensors(folder: Path, tmp_path: Path) -> None:
    result = open_run(folder)
    state = result.state_dict("best")
    assert result.export_model("pt", "best") == folder / "models/best.pt"
    assert result.export_model("safetensors", "best") == folder / "models/best.safetensors"
    saved = torch.load(folder / "models/best.pt", weights_only=True)
    loaded = load_file(result.export_model("safetensors", "best", tmp_path / "new" / "mine.safetensors"))
    with pytest.raises(ConfigError, match=r"mine\.safetensors already exists; choose another file"):
        result.export_model("safetensors", "last", tmp_path / "new" / "mine.safetensors")
    assert list(saved) == list(state)
    assert loaded.keys() == state.keys()
    assert all(torch.equal(saved[name], value) and torch.equal(loaded[name], value) for name, value in state.items())
    (folder / "models/best.pt").unlink()


def test_the_command_exports_tables_and_models(folder: Path, tmp_path: Path) -> None:
    def export(*options: str) -> str:
        return CliRunner().invoke(app, ["export", str(folder), *options], catch_exceptions=False).output

    assert export("--model", "best").strip() == f"{folder}/models/best.safetensors"
    assert export("--to", "pt", "--out", f"{tmp_path}/last.pt").strip() == f"{tmp_path}/last.pt"
    state = torch.load(tmp_path / "last.pt", weights_only=True)
    assert all(torch.equal(value, open_run(folder).state_dict()[name]) for name, value in state.items())
    assert export("--to", "csv", "--out", str(tmp_path / "tables")).count(".csv") == 5
    with pytest.raises(ConfigError, match="to = 'csv': models are exported as safetensors, pt, onnx"):
        export("--model", "best", "--to", "csv")
    with pytest.raises(ConfigError, match=r"model = 'worst': no such model \(choose from best, last\)"):
        export("--model", "worst")


def test_the_best_model_is_the_first_with_the_best_accuracy(folder: Path) -> None:
    result = open_run(folder)
    curve = result.curve()
    best = result.records.facts["best_model"]
    row = curve.loc[curve["accuracy"].idxmax()]
    assert (best["version"], best["time_s"], best["accuracy"]) == (row["version"], row["time"], row["accuracy"])
    assert best["accuracy"] == result.summary["best_accuracy"]


def test_the_module_of_a_named_network_comes_from_fedtempo() -> None:
    result = NAMED.run()
    module = fedtempo.build_network("cnn", (1, 8, 8), 10, channels=[4, 6], hidden=[16], batch_norm=True)
    assert accuracy(result.load_into(module), result) == result.summary["final_accuracy"]
    assert accuracy(result.network("best"), result) == result.summary["best_accuracy"]
    assert not result.network().training
    with pytest.raises(ConfigError, match=r"the model of fedavg does not fit the network: missing: 0\.running_mean"):
        result.load_into(nn.Sequential(nn.BatchNorm1d(3)))
    with pytest.raises(ConfigError, match="the run is in memory"):
        result.export_model()


@pytest.mark.parametrize("workers", [1, 2])
def test_worker_processes_keep_the_same_models(folder: Path, tmp_path: Path, workers: int) -> None:
    EXPERIMENT.with_(executor={"kind": "processes", "workers": workers}).run(tmp_path / "run")
    for kind in ("last", "best"):
        one, two = (open_run(path).state_dict(kind) for path in (folder, tmp_path / "run"))
        assert all(torch.equal(value, two[name]) for name, value in one.items())


def test_an_interrupted_run_keeps_the_best_model_of_all_its_parts(tmp_path: Path) -> None:
    def interrupt(sim: Any, evaluations: Any) -> None:
        asyncio.get_running_loop().call_at(9.5, lambda: signal.raise_signal(signal.SIGINT))

    experiment = EXPERIMENT.with_({"run.checkpoint_every": 1e-6, "run.evaluate_every": 0.5})
    whole, path = experiment.run(), tmp_path / "run"
    assert Run(experiment.config, watch=interrupt).begin(path)["ended"] == "interrupted"
    partial = open_run(path)
    assert partial.load_into(OwnNet((1, 8, 8), 10)) is not None
    assert accuracy(partial.network("best"), partial) == partial.summary["best_accuracy"]
    Run(experiment.config).resume(path)
    for kind in ("last", "best"):
        state = open_run(path).state_dict(kind)
        assert all(torch.equal(value, state[name]) for name, value in whole.state_dict(kind).items())
    assert sorted(file.name for file in (path / "models").iterdir()) == ["best.safetensors", "last.safetensors"]
    (path / "summary.json").unlink()
    Journal.create(path / "journal.jsonl", identity(experiment.config, load("digits").sha256))
    with pytest.raises(ConfigError, match=r"run\.keep was .*best.* and is None"):
        Run(experiment.with_({"run.keep": ["last"]}).config).resume(path)


def test_only_the_models_to_keep_are_left(tmp_path: Path) -> None:
    result = EXPERIMENT.with_({"run.keep": [], "run.horizon": 2.0}).run(tmp_path / "none")
    assert not (tmp_path / "none/models").exists() or not list((tmp_path / "none/models").iterdir())
    with pytest.raises(
        ConfigError, match=r"last\.safetensors does not exist; a run with run.keep = \['last'\] keeps it"
    ):
        result.state_dict()
    result = EXPERIMENT.with_({"run.keep": ["last"], "run.horizon": 2.0}).run(tmp_path / "last")
    with pytest.raises(ConfigError, match=r"this run has no best model; set run\.keep"):
        result.state_dict("best")
    untrained = EXPERIMENT.with_(executor={"kind": "none"}).run(tmp_path / "untrained")
    assert untrained.model is None
    with pytest.raises(ConfigError, match=r"this run has no last model$"):
        untrained.state_dict()


def test_files_of_a_run_folder_are_checked(folder: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(folder, tmp_path / "copy"))
    file = copy / "models/last.safetensors"
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    with pytest.raises(RunError, match="is damaged: its parameters do not have the recorded hash"):
        open_run(copy).state_dict()
    file.write_bytes(content[:-3])
    with pytest.raises(RunError, match="is damaged"):
        open_run(copy).state_dict()
    file.unlink()
    file.symlink_to(folder / "models/last.safetensors")
    with pytest.raises(ConfigError, match="leads out of its folder"):
        open_run(copy).state_dict()
    with pytest.raises(ConfigError, match="name another file"):
        open_run(copy).export_model()
    sha256 = open_run(folder).summary["model_sha256"]
    assert np.array_equal(read_model(folder, "last", sha256).vector, open_run(folder).model)


def test_a_network_with_several_inputs_is_built_from_its_run(tmp_path: Path) -> None:
    experiment = Experiment(
        run={"horizon": 4.0, "evaluate_every": 2.0},
        data={"source": "tests.learning.own_models:text_data", "clients": 3},
        model="tests.learning.own_models:Masked",
        training={"lr": 0.2, "batch_size": 10},
        strategy="fedavg",
        executor="inline",
        fleet={"compute": {"unit": "s/visit", "speed": 1.0}, "link": "none", "estimates": "exact"},
    )
    experiment.run(tmp_path / "run")
    result = open_run(tmp_path / "run")
    assert result.records.facts["network"] == {
        "input_shape": {"input_ids": [6], "attention_mask": [6]},
        "inputs": "several",
        "outputs": 3,
    }
    inputs, labels = texts(20, 1)
    with torch.no_grad():
        outputs = result.network()(**{name: torch.as_tensor(value).long() for name, value in inputs.items()}).logits
    assert float((outputs.argmax(1).numpy() == labels).mean()) == result.summary["final_accuracy"]
    with pytest.raises(ConfigError, match=r"^to = 'onnx': networks with several inputs cannot be exported; use 'safet"):
        result.export_model("onnx")
    pair = fedtempo.build_network("tests.learning.own_models:Pair", ((3,), (2, 2)), 4)
    assert pair(torch.zeros(5, 3), torch.zeros(5, 2, 2))["logits"].shape == (5, 4)


def test_onnx_says_what_to_install(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api_models, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"^to = 'onnx': onnx and onnxscript not installed; pip install 'fedtempo\["):
        open_run(folder).export_model("onnx", path=tmp_path / "model.onnx")


@pytest.mark.skipif(not all(map(find_spec, ("onnx", "onnxscript", "onnxruntime"))), reason="needs ONNX")
@pytest.mark.skipif(sys.platform == "win32", reason="file names")
def test_onnx_scores_what_the_run_says(tmp_path: Path) -> None:
    import onnxruntime

    result = NAMED.run(tmp_path / "run")
    session = onnxruntime.InferenceSession(str(result.export_model("onnx", "best")))
    data = load("digits")
    outputs = session.run(None, {"input": data.test_x[:50]})[0]
    with torch.no_grad():
        expected = result.network("best")(torch.as_tensor(data.test_x[:50])).numpy()
    np.testing.assert_allclose(outputs, expected, rtol=1e-4, atol=1e-4)
