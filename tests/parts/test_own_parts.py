"""A user's parts: imported from beside the configuration or as entry points, used, written back, and run."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedtempo.cli import catalogue
from fedtempo.data.dataset import from_arrays
from fedtempo.data.partitions import ByOwner, Iid
from fedtempo.deploy.client.answers import Answers
from fedtempo.deploy.client.settings import parse_client
from fedtempo.errors import ConfigError
from fedtempo.parts import import_path, plugins
from fedtempo.runs.config import load, parse
from fedtempo.runs.identity import code_sha256
from fedtempo.runs.run import run
from fedtempo.runs.world import build_world, dealt_by, load_data, training_of

FLEET = {"compute": {"unit": "s/visit", "speed": 1.0}, "link": "none", "estimates": "exact"}
TABLES: dict[str, Any] = {
    "run": {"max_commits": 2, "evaluate": "commit"},
    "data": {"clients": 2, "examples_per_client": 50},
    "training": {"lr": 0.1},
    "fleet": FLEET,
    "strategy": {"name": "fedavg"},
    "executor": {"kind": "inline"},
}

MODULE = '''
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import nn

from fedtempo.fleet.links import Fixed
from fedtempo.strategies import FedAvg


@dataclass(frozen=True)
class Every:
    """My own strategy."""

    step: float = 1.0

    async def run(self, fed):
        await FedAvg().run(fed)


@dataclass(frozen=True)
class Alternate:
    """Examples in turn."""

    start: int = 0

    def assign(self, labels, n_classes, n_clients, examples_per_client, rng, owners=None):
        return [np.arange((i + self.start) % n_clients, len(labels), n_clients) for i in range(n_clients)]


@dataclass(frozen=True)
class Twice:
    def assign(self, labels, n_classes, n_clients, examples_per_client, rng, owners=None):
        return [np.array([0.5])] * n_clients


class Net(nn.Sequential):
    def __init__(self, input_shape, outputs, hidden=8):
        super().__init__(nn.Flatten(), nn.Linear(64, hidden), nn.ReLU(), nn.Linear(hidden, outputs))


def loss(outputs, labels):
    return nn.functional.cross_entropy(outputs, labels, reduction="none")


def optimizer(parameters, lr):
    return torch.optim.SGD(parameters, lr=lr)


def data(n=20):
    """My own data."""
    x, y = np.random.default_rng(0).normal(size=(n, 64)), np.arange(n) % 10
    return x, y, x, y


def halve(x):
    return x / 2


def fail(x):
    raise RuntimeError("never again")
'''


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Create a user's folder with a module, and remove what is imported from it from sys.modules afterwards."""
    (tmp_path / "my_parts.py").write_text(MODULE)
    path, folders, modules = list(sys.path), list(import_path._folders), set(sys.modules)
    yield tmp_path
    sys.path[:] = path
    import_path._folders[:] = folders
    for name in {"my_parts", "other_parts"} & (sys.modules.keys() - modules):
        del sys.modules[name]


def configured(folder: Path, text: str, name: str = "config.toml") -> Path:
    path = folder / name
    path.write_text(
        text
        + """
[run]
max_commits = 2
evaluate = "commit"
[fleet]
compute = { unit = "s/visit", speed = 1.0 }
link = "none"
estimates = "exact"
[executor]
kind = "inline"
"""
    )
    return path


OWN = """
[data]
clients = 2
partition = { kind = "my_parts:Alternate", start = 1 }
transform = "my_parts:halve"
[model]
network = "my_parts:Net"
hidden = 4
[training]
loss = "my_parts:loss"
optimizer = "my_parts:optimizer"
[strategy]
name = "my_parts:Every"
step = 0.5
"""


def test_every_part_can_be_a_users_module_beside_the_configuration(folder: Path) -> None:
    config = load(configured(folder, OWN))
    summary, _, model = run(config)
    assert summary["commits"] == 2
    assert model is not None
    assert len(model) == 64 * 4 + 4 + 4 * 10 + 10
    world = build_world(config)
    assert world.owned[0].tolist() == list(range(1, len(world.dataset.train_y), 2))
    assert world.dataset.train_x.max() == 0.5
    again = parse(config.tables)
    assert again.tables == config.tables
    assert again.tables["data"]["partition"] == {"kind": "my_parts:Alternate", "start": 1}
    assert again.tables["model"] == {"network": "my_parts:Net", "hidden": 4}
    assert np.array_equal(run(again)[2], model)


def test_a_users_parts_are_hashed_with_the_run(folder: Path) -> None:
    config = load(configured(folder, OWN))
    before = code_sha256(config)
    (folder / "my_parts.py").write_text(MODULE + "\n# changed\n")
    assert code_sha256(config) != before


def test_modules_beside_a_run_folders_configuration_are_not_imported(folder: Path) -> None:
    path = configured(folder, OWN)
    (folder / "run.sqlite").touch()
    with pytest.raises(ConfigError, match=r"training.loss = 'my_parts:loss': cannot import 'my_parts'.*beside"):
        load(path)
    (folder / "run.sqlite").unlink()
    with pytest.raises(ConfigError, match="cannot import 'my_parts'"):
        load(path, own=False)
    assert str(folder) not in sys.path


def test_modules_of_the_same_name_are_kept_apart(folder: Path) -> None:
    load(configured(folder, OWN))
    other = folder / "other"
    other.mkdir()
    (other / "my_parts.py").write_text(MODULE)
    with pytest.raises(
        ConfigError, match=r"'my_parts' was imported from .*, which hides the one in .*other; rename it"
    ):
        load(configured(other, OWN))


def test_a_module_can_be_in_a_folder_beside_the_configuration(folder: Path) -> None:
    (folder / "own_nets").mkdir()
    (folder / "own_nets" / "wide.py").write_text(MODULE)
    config = load(configured(folder, '[model]\nnetwork = "own_nets.wide:Net"\n[strategy]\nname = "fedavg"\n'))
    assert len(config.network.build((1, 8, 8), 10)) == 4  # type: ignore[arg-type]


def test_a_users_module_shadows_no_installed_one(folder: Path) -> None:
    (folder / "string.py").write_text(MODULE)
    with pytest.raises(ConfigError, match=r"strategy.name = 'string:Every': 'string' was imported from .*; rename it"):
        load(configured(folder, '[strategy]\nname = "string:Every"\n'))


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"strategy.name": "my_parts:Net"}, r"strategy.name = 'my_parts:Net': Net must be a dataclass"),
        ({"strategy.step": "far"}, r"strategy.step = 'far'"),
        ({"data.partition": "my_parts:Every"}, r"data.partition: Every has no `assign`"),
        ({"data.partition": "my_parts:Twice"}, r"client 0 gets float64 of shape \(1,\); it must be rows"),
        ({"data.transform": "my_parts:fail"}, r"data.transform = 'my_parts:fail': RuntimeError: never again"),
        ({"data.transform": "my_parts:none"}, r"data.transform = 'my_parts:none': module 'my_parts' has no 'none'"),
        ({"model.width": 3}, r"model.network = 'my_parts:Net': cannot be built: .*width"),
        (
            {"training.loss": "crossentropy"},
            r"loss = 'crossentropy': no such loss; did you mean 'cross-entropy'",
        ),
        ({"training.optimizer": "adamw"}, r"training.optimizer = 'adamw': no such optimiser; did you mean 'adam'"),
        ({"fleet.link": {"kind": "my_parts:Net"}}, r"fleet.link.*my_parts:Net': Net must be a dataclass"),
        ({"fleet.link": {"kind": "fixd"}}, r"fleet.link.*'fixd': no such link; did you mean 'fixed'"),
    ],
)
def test_errors_name_the_key_and_the_part(folder: Path, changes: dict[str, Any], says: str) -> None:
    config = load(configured(folder, OWN))
    with pytest.raises(ConfigError, match=says):
        run(config.with_changes(changes))


def test_a_module_that_fails_to_import_is_named(folder: Path) -> None:
    (folder / "other_parts.py").write_text("def broken(:\n")
    with pytest.raises(ConfigError, match=r"strategy.name = 'other_parts:X': cannot import 'other_parts': SyntaxError"):
        load(configured(folder, '[strategy]\nname = "other_parts:X"\n'))


def test_a_users_link_is_used(folder: Path) -> None:
    (folder / "other_parts.py").write_text(
        "from dataclasses import dataclass\n"
        "from fedtempo.fleet.links import LINKS\n"
        "Base = LINKS['fixed']\n"
        "@dataclass(frozen=True)\n"
        "class Slow:\n"
        "    seconds: float\n"
        "    def build(self, n_clients, rng):\n"
        "        return Base(download_s=self.seconds, upload_s=self.seconds).build(n_clients, rng)\n"
    )
    path = configured(folder, '[strategy]\nname = "fedavg"\n')
    config = load(path, ['fleet.link={kind = "other_parts:Slow", seconds = 3.0}', "executor.kind=none"])
    _, records, _ = run(config)
    assert records.commits["time"].tolist() == [7.0, 14.0]
    assert parse(config.tables).tables["fleet"]["link"] == {"kind": "other_parts:Slow", "seconds": 3.0}


@pytest.fixture
def installed(folder: Path) -> None:
    """Fake an installed package whose entry points are the module's parts."""
    points = {
        "strategies": {"every": "my_parts:Every", "lost": "my_parts:Lost"},
        "networks": {"net": "my_parts:Net"},
        "partitions": {"alternate": "my_parts:Alternate"},
        "losses": {"own-loss": "my_parts:loss"},
        "sources": {"own-data": "my_parts:data"},
    }
    package = folder / "my_parts-1.0.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: my-parts\nVersion: 1.0\n")
    groups = {f"fedtempo.{kind}": named for kind, named in points.items()}
    (package / "entry_points.txt").write_text(
        "\n".join(f"[{group}]\n" + "\n".join(f"{n} = {v}" for n, v in named.items()) for group, named in groups.items())
    )
    sys.path.insert(0, str(folder))


@pytest.mark.usefixtures("installed")
def test_entry_points_are_used_like_built_in_parts() -> None:
    config = parse(
        {
            **TABLES,
            "data": {"source": "own-data", "options": {"n": 30}, "clients": 2, "partition": "alternate"},
            "model": {"network": "net", "hidden": 4},
            "training": {"loss": "own-loss"},
            "strategy": {"name": "every"},
        }
    )
    summary, _, model = run(config)
    assert summary["strategy"] == "every"
    assert model is not None
    assert parse(config.tables).tables == config.tables
    with pytest.raises(ConfigError, match=r"strategy.name = 'evry': no such strategy; did you mean 'every'"):
        config.with_changes({"strategy.name": "evry"})
    with pytest.raises(ConfigError, match=r"strategy.name \(entry point 'lost'\) = 'my_parts:Lost': .* has no 'Lost'"):
        config.with_changes({"strategy.name": "lost"})


@pytest.mark.usefixtures("installed")
def test_entry_points_are_listed_and_described(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    catalogue.list_("strategies")
    catalogue.list_("losses")
    text = capsys.readouterr().out
    assert "My own strategy. (my_parts:Every)" in text
    assert "has no 'Lost'" in text
    assert "own-loss" in text
    catalogue.list_("sources")
    assert "My own data. (my_parts:data)" in capsys.readouterr().out
    catalogue.describe("every")
    text = capsys.readouterr().out
    assert "from my_parts:Every" in text
    assert "step" in text


NATURAL = {"source": "natural_data:make"}


@pytest.fixture
def natural(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "natural_data.py").write_text(
        "import numpy as np\n"
        "from fedtempo.data.dataset import from_arrays\n"
        "def make(named=True):\n"
        "    rng = np.random.default_rng(1)\n"
        "    x, owners = rng.normal(size=(90, 3)), rng.permutation(np.repeat([0, 1, 2], [20, 30, 40]))\n"
        "    y = (x[:, 0] > 0).astype(int)\n"
        "    names = ('north', 'south', 'coast') if named else ()\n"
        "    return from_arrays('natural', x, y, x, y, train_owners=owners, owner_names=names)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "natural_data", raising=False)


@pytest.mark.usefixtures("natural")
def test_clients_named_by_the_data_set_become_the_clients() -> None:
    config = parse({**TABLES, "data": NATURAL})
    world = build_world(config)
    assert [client.name for client in world.clients] == ["north", "south", "coast"]
    assert [client.num_examples for client in world.clients] == [20, 30, 40]
    assert sorted(np.concatenate(world.owned).tolist()) == list(range(90))
    for owner, rows in enumerate(world.owned):
        assert set(world.dataset.train_owners[rows].tolist()) == {owner}  # type: ignore[index]
    summary, records, _ = run(config)
    assert records.facts["client_names"] == ["north", "south", "coast"]
    assert summary["data"]["task"] == "classes"


@pytest.mark.usefixtures("natural")
def test_the_configuration_takes_precedence_over_the_data_set() -> None:
    base = parse({**TABLES, "data": NATURAL})
    assert isinstance(dealt_by(base, load_data(base))[0], ByOwner)
    iid = base.with_changes({"data.partition": "iid"})
    assert (type(dealt_by(iid, load_data(iid))[0]), dealt_by(iid, load_data(iid))[1]) == (Iid, 50)
    two = build_world(base.with_changes({"data.clients": 2}))
    assert len(two.clients) == 2
    assert {client.name for client in two.clients} < {"north", "south", "coast"}
    large = base.with_changes({"data.partition": {"kind": "by-owner", "min_examples": 25}})
    assert [client.name for client in build_world(large).clients] == ["south", "coast"]
    with pytest.raises(ConfigError, match=r"clients = 4: only 3 owners have 1 or more examples"):
        build_world(base.with_changes({"data.clients": 4}))


def regression() -> dict[str, Any]:
    return {**TABLES, "data": {"source": "number_data:make", "clients": 3}, "model": {"network": "mlp", "hidden": [8]}}


@pytest.fixture
def number_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "number_data.py").write_text(
        "import numpy as np\n"
        "def make():\n"
        "    x = np.random.default_rng(1).normal(size=(300, 3))\n"
        "    y = x @ [1.0, -2.0, 0.5] + 3\n"
        "    return x[:240], y[:240], x[240:], y[240:]\n"
        "def tokens():\n"
        "    x = np.random.default_rng(1).integers(0, 6, (60, 5))\n"
        "    return x[:40], (x[:40] + 1) % 6, x[40:], (x[40:] + 1) % 6\n"
        "class Pairs:\n"
        "    def __init__(self, n):\n"
        "        self.n = n\n"
        "    def __len__(self):\n"
        "        return self.n\n"
        "    def __getitem__(self, i):\n"
        "        import torch\n"
        "        if i == 7:\n"
        "            raise OSError('disk on fire')\n"
        "        return torch.full((1, 2, 2), float(i)), i % 2\n"
        "def pairs(n=5):\n"
        "    return Pairs(n), Pairs(4)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "number_data", raising=False)


@pytest.mark.usefixtures("number_data")
def test_a_run_on_numbers_works_from_data_to_summary() -> None:
    config = parse(regression()).with_changes({"run.max_commits": 6, "training.lr": 0.05, "run.target_accuracy": 0.8})
    summary, records, _ = run(config)
    assert summary["data"]["task"] == "numbers"
    assert summary["final_accuracy"] > 0.8
    assert summary["final_loss"] == pytest.approx(records.evaluations["loss"][-1])
    assert records.evaluations["accuracy"][0] < 0
    assert len(records.facts["class_names"]) == 10
    skewed = {"data.partition": "one-label", "data.examples_per_client": 20, "data.clients": 10}
    world = build_world(config.with_changes(skewed))
    values = world.dataset.train_y
    assert all(values[rows].std() < values.std() for rows in world.owned)
    assert sum(values[rows].std() for rows in world.owned) / 10 < 0.25 * values.std()
    with pytest.raises(ConfigError, match=r"training.loss = 'cross-entropy': number_data:make needs numbers"):
        run(config.with_changes({"training.loss": "cross-entropy"}))
    with pytest.raises(ConfigError, match=r"training.class_weights: number_data:make has numbers, not classes"):
        run(config.with_changes({"training.class_weights": [1.0]}))


@pytest.mark.usefixtures("number_data")
def test_a_run_on_tokens_works_from_data_to_summary() -> None:
    tables = {**TABLES, "data": {"source": "number_data:tokens", "clients": 2}}
    network = {"network": "char-lstm", "hidden": 16, "n_layers": 1, "every_step": True}
    config = parse({**tables, "model": network}).with_changes(
        {"run.max_commits": 4, "training.lr": 0.05, "training.optimizer": "adam", "training.epochs": 5}
    )
    summary, _, _ = run(config)
    assert summary["data"]["task"] == "tokens"
    assert summary["final_accuracy"] > 0.5
    with pytest.raises(ConfigError, match="has no classes to deal by; it can be 'iid' or 'by-owner'"):
        run(config.with_changes({"data.partition": "one-label"}))
    with pytest.raises(
        ConfigError, match=r"training.loss = 'logit-adjusted': number_data:tokens has tokens, not classes"
    ):
        run(config.with_changes({"training.loss": "logit-adjusted"}))


@pytest.mark.usefixtures("number_data")
def test_pytorch_data_sets_are_read() -> None:
    data = load_data(parse({**TABLES, "data": {"source": "number_data:pairs"}}))
    assert data.train_x.shape == (5, 1, 2, 2)
    assert data.train_x[3].max() == 3.0
    assert data.train_y.tolist() == [0, 1, 0, 1, 0]
    message = r"^data\.source = 'number_data:pairs': train, example 7: OSError: disk on fire$"
    with pytest.raises(ConfigError, match=message):
        load_data(parse({**TABLES, "data": {"source": "number_data:pairs", "options": {"n": 9}}}))


def test_balanced_weights_follow_from_the_clients_label_counts() -> None:
    config = parse({**TABLES, "data": {"clients": 4, "tell_labels": True}}).with_changes(
        {"training.class_weights": "balanced", "data.label_pseudo_count": 0.0}
    )
    world = build_world(config)
    weights = np.array(training_of(config, world).class_weights)
    counts = np.sum(world.histograms, axis=0)
    np.testing.assert_allclose(weights, counts.sum() / (10 * counts), rtol=1e-12)
    with pytest.raises(ConfigError, match=r"class_weights = 'balanced': .*data.tell_labels = true"):
        run(config.with_changes({"data.tell_labels": False}))
    with pytest.raises(ConfigError, match="class_weights has 2 weights; digits has 10 classes"):
        run(config.with_changes({"training.class_weights": [1.0, 2.0]}))


def test_a_server_cannot_make_a_client_import_a_module(monkeypatch: pytest.MonkeyPatch) -> None:
    tables = {"name": "a", "insecure": True, "data": {"source": "digits", "part": 0, "clients": 20}}
    imported: list[str] = []
    monkeypatch.setattr(plugins.importlib, "import_module", lambda name: imported.append(name))
    for key in ("loss", "optimizer"):
        call = {"job": {}, "training": {key: "antigravity:fly"}, "client": 0, "visit": 0}
        reply, _ = Answers(parse_client(tables)).answer("train", call, (np.zeros(3, dtype=np.float32),))
        assert "'antigravity:fly' is neither fedtempo's nor among `training` in this client's TOML" in reply["refused"]
    assert imported == []


@pytest.mark.usefixtures("number_data")
def test_a_client_can_transform_its_data_but_shares_labels_only_of_classes(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(folder)
    tables = {"name": "a", "insecure": True, "data": {"source": "number_data:make"}}
    assert Answers(parse_client(tables)).description()["task"] == "numbers"
    for name in ("tell_labels", "share_examples"):
        with pytest.raises(ConfigError, match=f"{name} = true: needs classes, but number_data:make has numbers"):
            Answers(parse_client({**tables, name: True}))
    transformed = parse_client({**tables, "data": {"source": "digits", "transform": "my_parts:halve"}}).data.read()
    assert transformed.x.max() == 0.5


def test_data_files_are_found_beside_the_configuration(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    np.savez(folder / "own.npz", train_x=np.zeros((4, 2)), train_y=[0, 1, 0, 1], test_x=np.ones((2, 2)), test_y=[0, 1])
    path = configured(folder, '[data]\nsource = "npz:own.npz"\nclients = 2\n[strategy]\nname = "fedavg"\n')
    monkeypatch.chdir(folder.parent)
    config = load(path)
    assert config.data.source == f"npz:{(folder / 'own.npz').resolve()}"
    assert len(load_data(config).train_y) == 4
    assert load(path, ["data.source=npz:own.npz"]).data.source == "npz:own.npz"


def test_tasks_must_match_their_arrays() -> None:
    data = from_arrays("a", np.zeros((2, 1)), [0.5, 1.5], np.zeros((1, 1)), [1.0])
    assert (data.task, data.n_classes) == ("numbers", 1)
    tokens = from_arrays("a", np.full((2, 3), 7), np.zeros((2, 3), int), np.zeros((1, 3), int), np.zeros((1, 3), int))
    assert (tokens.task, tokens.n_classes) == ("tokens", 8)
    with pytest.raises(ConfigError, match="training labels are float32"):
        from_arrays("a", np.zeros((2, 1)), [0.5, 1.5], np.zeros((1, 1)), [1])
    with pytest.raises(ConfigError, match="train_y: example 1 holds a value that is not finite"):
        from_arrays("a", np.zeros((2, 1)), [0.5, np.nan], np.zeros((1, 1)), [1.0])
