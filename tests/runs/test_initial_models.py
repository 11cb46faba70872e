"""The initial model comes from a file: into simulations and deployments, whole or in part, and never by guessing."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from fedtempo import open_run
from fedtempo.data.sources import load as load_data
from fedtempo.deploy.run import deploy_to_folder
from fedtempo.errors import ConfigError
from fedtempo.record import load_run
from fedtempo.record.journal import Journal
from fedtempo.runs.config import Config, load, parse
from fedtempo.runs.identity import identity
from fedtempo.runs.run import Run, configuration, run
from tests.deploy.live.loopback import Loopback, digits_clients


class Net(nn.Module):
    """Frozen convolutions below a head with batch normalisation."""

    def __init__(self, shape: Sequence[int], outputs: int) -> None:
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(shape[0], 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU())
        self.features[0].requires_grad_(False)
        self.head = nn.Linear(256, outputs)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.head(self.features(x).flatten(1))
        return result


class Tied(nn.Module):
    """Two names for one parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(64, 64)
        self.second = nn.Linear(64, 64)
        self.second.weight = self.first.weight
        self.head = nn.Linear(64, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.head(self.second(torch.relu(self.first(x.flatten(1)))))
        return result


class WithTable(nn.Module):
    """An integer buffer that training uses."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(64, 10)
        self.register_buffer("order", torch.arange(64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.head(x.flatten(1)[:, self.order])
        return result


NETWORK = f"{__name__}:Net"
TABLES: dict[str, Any] = {
    "run": {"max_commits": 2, "evaluate": "commit"},
    "data": {"source": "digits", "clients": 3, "examples_per_client": 20},
    "model": {"network": NETWORK},
    "training": {"lr": 0.1, "batch_size": 5},
    "fleet": {"compute": {"unit": "s/visit", "speed": 1.0}, "link": "none", "estimates": "exact"},
    "strategy": {"name": "fedavg"},
    "executor": {"kind": "inline"},
}


def config(**model: Any) -> Config:
    return parse({**TABLES, "model": {"network": NETWORK, **model}})


@pytest.fixture(scope="module")
def module() -> nn.Module:
    """A module with parameters and statistics that no seed gives."""
    torch.manual_seed(77)
    module = Net((1, 8, 8), 10)
    module(torch.randn(64, 1, 8, 8) * 3 + 1)
    return module.eval()


@pytest.fixture
def file(module: nn.Module, tmp_path: Path) -> Path:
    save_file(module.state_dict(), tmp_path / "pretrained.safetensors")
    return tmp_path / "pretrained.safetensors"


@pytest.mark.parametrize("suffix", [".safetensors", ".pt"])
def test_a_run_begins_with_the_models_of_the_file(module: nn.Module, tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"pretrained{suffix}"
    if suffix == ".pt":
        torch.save(module.state_dict(), path)
    else:
        save_file(module.state_dict(), path)
    _, records, model = run(config(initial=str(path)))
    data = load_data("digits")
    with torch.no_grad():
        right = module(torch.as_tensor(data.test_x)).argmax(1).numpy() == data.test_y
    assert records.evaluations["accuracy"][0] == right.mean()
    assert model is not None
    frozen = [module.state_dict()[name].numpy().tobytes() for name in ("features.0.weight", "features.0.bias")]
    assert model[-40:].tobytes() == b"".join(frozen)


def test_a_part_of_the_file_is_enough(module: nn.Module, file: Path) -> None:
    state = module.state_dict()
    save_file({name: value for name, value in state.items() if name.startswith("features")}, file)
    base = {"run": {**TABLES["run"], "horizon": 0.5}}
    settings = parse(
        {**TABLES, **base, "model": {"network": NETWORK, "initial": str(file), "initial_only": ["features.*"]}}
    )
    random = parse({**TABLES, **base})
    models = []
    for each in (settings, random):
        _, _, models_of_run = Run(each).in_memory()
        models.append(models_of_run["last"].arrays())
    for name, value in state.items():
        loaded, drawn = (arrays[name] for arrays in models)
        if name.endswith("num_batches_tracked"):
            assert loaded == 0
        elif name.startswith("features"):
            assert np.array_equal(loaded, value.numpy())
        else:
            assert np.array_equal(loaded, drawn)


@pytest.mark.parametrize("executor", [{"workers": 1}, {"workers": 2}, {"workers": 2, "start_method": "spawn"}])
def test_every_executor_begins_with_the_same_bits(file: Path, executor: dict[str, Any]) -> None:
    settings = config(initial=str(file))
    inline, _, _ = run(settings)
    processes, _, _ = run(parse({**settings.given, "executor": {"kind": "processes", **executor}}))
    assert processes["model_sha256"] == inline["model_sha256"]
    assert processes["model_sha256"] != run(config())[0]["model_sha256"]


def test_a_deployment_begins_with_the_same_bits(file: Path, tmp_path: Path) -> None:
    settings = config(initial=str(file))
    grid = Loopback(digits_clients(3, networks=[NETWORK]))
    try:
        summary = deploy_to_folder(settings, tmp_path / "run", grid)
    finally:
        grid.close()
    assert summary["model_sha256"] == run(settings)[0]["model_sha256"]


def test_a_deployment_rejects_integers_that_clients_cannot_know(tmp_path: Path) -> None:
    network = f"{__name__}:WithTable"
    state = WithTable().state_dict()
    state["order"] = state["order"].flip(0)
    torch.save(state, tmp_path / "flipped.pt")
    settings = config(network=network, initial=str(tmp_path / "flipped.pt"))
    _, records, _ = run(settings)
    data = load_data("digits")
    assert (records.evaluations["accuracy"][0] > 0) == (len(data.test_y) > 0)
    grid = Loopback(digits_clients(3, networks=[network]))
    try:
        with pytest.raises(ConfigError, match="the integer buffer order has other values"):
            deploy_to_folder(settings, tmp_path / "run", grid)
    finally:
        grid.close()
    assert not (tmp_path / "run").exists()


def test_tied_parameters_may_be_stored_once(tmp_path: Path) -> None:
    torch.manual_seed(3)
    state = Tied().state_dict()
    del state["second.weight"]
    save_file(state, tmp_path / "tied.safetensors")
    tables = {**TABLES, "run": {"horizon": 0.5}}
    settings = parse(
        {**tables, "model": {"network": f"{__name__}:Tied", "initial": str(tmp_path / "tied.safetensors")}}
    )
    _, _, models = Run(settings).in_memory()
    arrays = models["last"].arrays()
    assert np.array_equal(arrays["second.weight"], state["first.weight"].numpy())
    assert np.array_equal(arrays["first.weight"], arrays["second.weight"])


def test_half_precision_is_converted(module: nn.Module, tmp_path: Path) -> None:
    path = tmp_path / "half.safetensors"
    save_file(
        {name: value.bfloat16() if value.is_floating_point() else value for name, value in module.state_dict().items()},
        path,
    )
    _, _, models = Run(parse({**config(initial=str(path)).given, "run": {"horizon": 0.5}})).in_memory()
    assert np.array_equal(
        models["last"].arrays()["head.weight"], module.state_dict()["head.weight"].bfloat16().float().numpy()
    )


def without(name: str) -> Callable[[dict[str, Any]], None]:
    return lambda state: state.pop(name)


@pytest.mark.parametrize(
    ("change", "only", "message"),
    [
        (without("head.weight"), [], r"missing: head\.weight; model\.initial_only = \[\.\.\.\] takes only a part"),
        (lambda state: state.update(fc=torch.zeros(3)), [], r"not in the network: fc; model\.initial_only"),
        (
            lambda state: state.update({"head.weight": torch.zeros(10, 255)}),
            [],
            r"wrong shape: head\.weight \(10, 255\) instead of \(10, 256\)",
        ),
        (without("head.weight"), ["head.*"], r"the file does not fit the network: missing: head\.weight$"),
        (lambda state: None, ["heads.*"], r"initial_only: 'heads\.\*' matches no name in the network \(features\.0"),
        (lambda state: state["head.bias"].fill_(torch.nan), [], r"head\.bias holds values that are not finite"),
        (lambda state: state["features.1.running_var"].fill_(-1), [], r"running_var holds a negative variance"),
        (
            lambda state: state.update({"head.bias": torch.zeros(10, dtype=torch.int64)}),
            [],
            r"head\.bias holds torch\.int64, the network torch\.float32",
        ),
    ],
)  # fmt: skip
def test_a_file_that_does_not_fit_is_rejected(
    module: nn.Module, tmp_path: Path, change: Callable[[dict[str, Any]], None], only: list[str], message: str
) -> None:
    state = {name: value.clone() for name, value in module.state_dict().items()}
    change(state)
    save_file(state, tmp_path / "file.safetensors")
    with pytest.raises(ConfigError, match=message) as caught:
        run(config(initial=str(tmp_path / "file.safetensors"), initial_only=only))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.safetensors", None, "cannot be read: No such file or directory"),
        ("a.safetensors", b"nothing", "not a safetensors file"),
        ("a.pt", b"nothing", "not a plain state_dict saved by torch.save"),
        ("a.pt", {"epoch": 3, "state_dict": {}}, "only tensors by name.*it holds the keys 'epoch', 'state_dict'"),
        ("a.pt", [1], "it holds list"),
        ("a.pt", {}, "holds no tensors"),
        ("a.pt", nn.Linear(2, 2), "damaged, or holds more than tensors, such as a whole module; save module.state_"),
    ],
)  # fmt: skip
def test_other_files_are_rejected(tmp_path: Path, name: str, content: Any, message: str) -> None:
    path = tmp_path / name
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif content is not None:
        torch.save(content, path)
    with pytest.raises(ConfigError, match=message) as caught:
        Run(config(initial=str(path))).begin(tmp_path / "run")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "run").exists()


def test_settings_are_checked() -> None:
    with pytest.raises(ConfigError, match=r"model: initial = 'a\.zip': must be a \.safetensors or \.pt file"):
        config(initial="a.zip")
    with pytest.raises(ConfigError, match="initial_only needs initial"):
        config(initial_only=["head.*"])
    with pytest.raises(ConfigError, match=r"initial_only.*give a list of patterns: \['head'\]"):
        config(initial="a.pt", initial_only="head")


def test_a_run_is_resumed_with_the_same_content_only(file: Path, module: nn.Module, tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text(
        f'[run]\nmax_commits = 2\n[model]\nnetwork = "{NETWORK}"\ninitial = "pretrained.safetensors"\n'
        '[strategy]\nname = "fedavg"\n[executor]\nkind = "inline"\n[data]\nclients = 3\nexamples_per_client = 20\n'
        '[fleet]\ncompute = { unit = "s/visit", speed = 1.0 }\nlink = "none"\nestimates = "exact"\n'
    )
    settings = load(tmp_path / "run.toml")
    assert settings.initial.initial == str(file.resolve())
    folder = tmp_path / "run"
    summary = Run(settings).begin(folder)
    assert open_run(folder).config["model"]["initial"] == str(file.resolve())
    Journal.create(folder / "journal.jsonl", identity(settings, load_data("digits").sha256))
    (folder / "summary.json").unlink()
    moved = Path(shutil.move(file, tmp_path / "moved.safetensors"))
    with pytest.raises(ConfigError, match=r"pretrained\.safetensors': cannot be read"):
        Run(configuration(folder, [])).resume(folder)
    save_file({name: value + 1 for name, value in module.state_dict().items()}, file)
    with pytest.raises(ConfigError, match=r"cannot be resumed: model\.initial was 'a file with the hash"):
        Run(configuration(folder, [])).resume(folder)
    again = Run(configuration(folder, [f"model.initial={moved}"])).resume(folder)
    assert again["model_sha256"] == summary["model_sha256"]
    assert load_run(folder).config["model"]["initial"] == str(file.resolve())
