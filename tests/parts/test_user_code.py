"""Errors in a user's code show the user's lines, then one line that names the key, and no lines of fedtempo."""

from __future__ import annotations

import asyncio
import pickle
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedtempo.cli import app
from fedtempo.deploy.client.answers import Answers
from fedtempo.deploy.client.settings import parse_client
from fedtempo.deploy.live.messages import Call, Reply
from fedtempo.deploy.run import deploy_to_folder
from fedtempo.errors import ConfigError, RunError, StrategyError, UserCodeError
from fedtempo.federation import ClientUnavailable, Federation
from fedtempo.learning.networks import Logistic, UserNetwork
from fedtempo.learning.training import Training
from fedtempo.parts import import_path, plugins, user_code
from fedtempo.runs.config import Config, parse
from fedtempo.runs.run import Run, run
from fedtempo.runtime.executors.device import OnDevice
from fedtempo.runtime.executors.job import Job, pack
from fedtempo.runtime.executors.ray_actor import Actor
from tests.deploy.live.deployments import config as deployed
from tests.deploy.live.loopback import Loopback
from tests.runtime.world import play

MODULE = """
import asyncio
from dataclasses import dataclass

import torch
from torch import nn

from fedtempo import ConfigError
from fedtempo.strategies.rounds import train_round


@dataclass(frozen=True)
class Divides:
    async def run(self, fed):
        await train_round(fed, fed.clients)
        self.share(0)

    def share(self, count):
        return 1 / count  # share


@dataclass(frozen=True)
class OnServer:
    async def run(self, fed):
        await fed.on_server(off, fed.model)


def off(vector):
    return vector.shape[7]  # off


@dataclass(frozen=True)
class InGroup:
    async def run(self, fed):
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(fed.train(fed.clients[0], fed.model))
            tasks.create_task(self.fails("first"))
            tasks.create_task(self.fails("second"))

    async def fails(self, which):
        raise LookupError(which)  # group


@dataclass(frozen=True)
class Asks:
    async def run(self, fed):
        await fed.train(None, fed.model)  # asks


@dataclass(frozen=True)
class Weighs:
    weights: tuple[float, ...] = ()

    async def run(self, fed):
        updates = await fed.train_all(fed.clients, fed.model)
        fed.commit(await fed.average(updates))
        updates = await fed.train_all(fed.clients, fed.model)
        await fed.average(updates, weights=self.weights)  # weighs


@dataclass(frozen=True)
class Configures:
    async def run(self, fed):
        fed.commit(fed.model)
        raise ConfigError("strategy.a = 3: give 4")


@dataclass(frozen=True)
class Mixes:
    async def run(self, fed):
        await fed.mix(fed.model, fed.model, float("nan"))  # mixes


@dataclass(frozen=True)
class Late:
    count: int = 0

    def __post_init__(self):
        {}[self.count]  # late

    async def run(self, fed):
        pass


@dataclass(frozen=True)
class Deals:
    def assign(self, labels, n_classes, n_clients, examples_per_client, rng, owners=None):
        raise OSError("no such shares")  # deals


@dataclass(frozen=True)
class Link:
    def build(self, n_clients, rng):
        raise ArithmeticError("no rate")  # link


class NotMade(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(64, missing)  # not made


class Forward(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(64, 10)

    def forward(self, x):
        if self.training:
            self.step.add_(1)  # forward
        return self.layer(x.flatten(1))


class Evaluated(Forward):
    def forward(self, x):
        if not self.training:
            raise OverflowError  # evaluated
        return self.layer(x.flatten(1))


def unfit():
    return nn.Sequential(nn.Flatten(), nn.Linear(63, 10), nn.Sigmoid())


def loss(outputs, labels):
    return outputs.missing(labels)  # loss


class Loss:
    def __init__(self):
        raise TypeError("two\\nlines")  # made loss


class Halves(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x / 2

    @staticmethod
    def backward(ctx, grad):
        raise FloatingPointError("halved")  # backward


def backward(outputs, labels):
    return Halves.apply(outputs).sum(dim=1)


def optimizer(parameters, lr):
    raise RuntimeError(lr)  # optimizer


class Stuck(torch.optim.SGD):
    def step(self):
        raise BufferError("stuck")  # stuck


def transform(x):
    return x.reshape(7)  # transform


def source():
    open("/no/such/file")  # source
"""

TABLES: dict[str, Any] = {
    "run": {"max_commits": 2, "evaluate": "commit"},
    "data": {"clients": 2, "examples_per_client": 20, "test_examples": 20},
    "model": {"network": "logistic"},
    "training": {"lr": 0.1},
    "fleet": {"compute": {"unit": "s/visit", "speed": 1.0}, "link": "none", "estimates": "exact"},
    "strategy": {"name": "fedavg"},
    "executor": {"kind": "inline"},
}

LINE = {text.partition("  # ")[2]: i for i, text in enumerate(MODULE.splitlines(), 1) if "  # " in text}
SOURCE = {text.partition("  # ")[2]: text.strip() for text in MODULE.splitlines() if "  # " in text}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "mine.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(import_path, "_folders", [])
    for name in ("mine", "other", "plugged"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return tmp_path


def configured(changes: dict[str, Any]) -> Config:
    return parse(TABLES).with_changes(changes)


CASES = [
    ("strategy.name", "Divides", "ZeroDivisionError: division by zero", "share", "share"),
    ("strategy.name", "OnServer", "IndexError: tuple index out of range", "off", "off"),
    ("strategy.name", "InGroup", "LookupError: first", "group", "fails"),
    ("strategy.name", "Asks", "AttributeError: 'NoneType' object has no attribute 'id'", "asks", "run"),
    ("data.partition.kind", "Deals", "OSError: no such shares", "deals", "assign"),
    ("fleet.link", "Link", "ArithmeticError: no rate", "link", "build"),
    ("model.network", "NotMade", "NameError: name 'missing' is not defined", "not made", "__init__"),
    ("model.network", "Forward", "AttributeError: 'Forward' object has no attribute 'step'", "forward", "forward"),
    ("model.network", "Evaluated", "OverflowError", "evaluated", "forward"),
    ("training.loss", "loss", "AttributeError: 'Tensor' object has no attribute 'missing'", "loss", "loss"),
    ("training.loss", "Loss", "TypeError: two lines", "made loss", "__init__"),
    ("training.loss", "backward", "FloatingPointError: halved", "backward", "backward"),
    ("training.optimizer", "optimizer", "RuntimeError: 0.1", "optimizer", "optimizer"),
    ("training.optimizer", "Stuck", "BufferError: stuck", "stuck", "step"),
    ("data.transform", "transform", "ValueError: cannot reshape array of size", "transform", "transform"),
    ("data.source", "source", "FileNotFoundError: [Errno 2] No such file or directory", "source", "source"),
]
TRAINED = [case for case in CASES if case[0].startswith(("model", "training"))]


def must_tell(error: UserCodeError, case: tuple[str, str, str, str, str]) -> None:
    key, name, says, mark, function = case
    places: dict[Any, str] = {"fleet.link": "fleet", ("training.loss", "backward"): "training"}
    expected = places.get(key) or places.get((key, name)) or f"{key} = 'mine:{name}'"
    where_raised = f"mine.py:{LINE[mark]} in {function}"
    line = str(error)
    assert "\n" not in line
    assert line.startswith(f"{expected}: {says}")
    assert f"({where_raised})" in line
    assert f"{where_raised}\n    {SOURCE[mark]}" in error.frames
    assert "fedtempo/" not in error.frames
    assert "Traceback" not in error.frames


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]}={case[1]}")
def test_the_users_lines_are_shown_then_one_line_with_the_key(case: tuple[str, str, str, str, str]) -> None:
    with pytest.raises(UserCodeError) as raised:
        run(configured({case[0]: {"kind": "mine:Link"} if case[1] == "Link" else f"mine:{case[1]}"}))
    must_tell(raised.value, case)
    cause = "ExceptionGroup" if case[1] == "InGroup" else case[2].partition(":")[0]
    assert type(raised.value.__cause__).__name__ == cause


@pytest.mark.parametrize("case", TRAINED, ids=lambda case: f"{case[0]}={case[1]}")
def test_errors_in_worker_processes_are_shown_with_the_users_lines(case: tuple[str, str, str, str, str]) -> None:
    with pytest.raises(UserCodeError) as raised:
        run(configured({case[0]: f"mine:{case[1]}", "executor.kind": "processes", "executor.workers": 1}))
    must_tell(raised.value, case)
    if case[1] != "NotMade":  # it is first constructed in this process
        assert "Traceback" in str(raised.value.__cause__)
        assert f'mine.py", line {LINE[case[3]]}' in str(raised.value.__cause__)


@pytest.mark.parametrize("case", [case for case in TRAINED if "optim" not in case[0]], ids=lambda case: case[1])
def test_errors_on_a_device_are_shown_with_the_users_lines(case: tuple[str, str, str, str, str]) -> None:
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((20, 1, 8, 8)).astype(np.float32), rng.integers(0, 10, 20)
    key, name, *_ = case
    network = UserNetwork(f"mine:{name}") if key == "model.network" else Logistic()
    training = Training(loss=f"mine:{name}") if key == "training.loss" else Training()

    def visit() -> None:
        with OnDevice(Job(network, 10, x, y, [np.arange(20)], x, y, 1), "cpu", 1) as executor:
            trained = executor.train(executor.initial(), 0, 1, training).result()
            executor.evaluate(trained.location).result()

    with pytest.raises(UserCodeError) as raised:
        visit()
    must_tell(raised.value, case)


def test_errors_in_ray_actors_are_shown_with_the_users_lines() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((20, 1, 8, 8)).astype(np.float32), rng.integers(0, 10, 20)
    job = Job(Logistic(), 10, x, y, [np.arange(20)], x, y, 1)
    model = job.model()
    actor = Actor(*pack(job, model.channels_last))
    case = next(case for case in TRAINED if case[1] == "loss")
    with pytest.raises(UserCodeError) as raised:
        actor.train(model.vector.numpy().copy(), 0, 1, Training(loss="mine:loss"))
    must_tell(raised.value, case)


def test_a_network_of_the_wrong_shape_is_named_even_if_the_error_is_raised_in_pytorch() -> None:
    with pytest.raises(UserCodeError, match=r"^model\.network = 'mine:unfit': RuntimeError: mat1 and mat2 shapes"):
        run(configured({"model.network": "mine:unfit"}))


def test_a_part_that_cannot_be_constructed_is_named() -> None:
    with pytest.raises(UserCodeError, match=rf"^strategy: KeyError: 0 \(mine\.py:{LINE['late']} in __post_init__\)$"):
        configured({"strategy.name": "mine:Late"})


def test_several_errors_are_counted() -> None:
    with pytest.raises(UserCodeError, match=r"LookupError: first \(.*\) \(and 1 more error\)$"):
        run(configured({"strategy.name": "mine:InGroup"}))


@pytest.mark.parametrize(
    ("weights", "says"),
    [
        ([0.0, 0.0], "weights [0, 0] sum to 0; weights must be finite and not negative, with a sum above 0"),
        ([2.0, -1.0], "weights[1] = -1; weights must be finite and not negative, with a sum above 0"),
        ([float("nan"), 1.0], "weights[0] = nan; weights must be finite and not negative, with a sum above 0"),
        ([1.0, float("inf")], "weights[1] = inf; weights must be finite and not negative, with a sum above 0"),
        ([1e308, 1e308], "weights [1e+308, 1e+308] sum to inf; weights must be finite"),
        ([1.0, 2.0, 3.0], "3 weights for 2 updates: [1, 2, 3]; give one for each"),
        ([], "0 weights for 2 updates: []; give one for each"),
    ],
)
@pytest.mark.parametrize("kind", ["inline", "none"])
def test_invalid_weights_are_reported_with_strategy_commit_and_values(
    kind: str, weights: list[float], says: str
) -> None:
    config = configured({"strategy.name": "mine:Weighs", "executor.kind": kind})
    strategy = plugins.imported("mine:Weighs", "strategy.name")(tuple(weights))
    with pytest.raises(StrategyError) as raised:
        run(replace(config, strategy=strategy))
    line = str(raised.value)
    assert line.startswith(f"strategy.name = 'mine:Weighs': average after commit 1 (t = 2 s): {says}")
    assert line.endswith(f"(mine.py:{LINE['weighs']} in run)")
    assert raised.value.frames.endswith(SOURCE["weighs"])


@pytest.mark.parametrize(
    ("changes", "stays"),
    [
        ({"strategy.name": "mine:Divides"}, True),
        ({"data.source": "mine:source"}, False),
        ({"model.network": "mine:NotMade"}, False),
        ({"training.loss": "logit-adjusted", "training.prior": [1.0] * 9 + [0.0]}, False),
        ({"strategy.name": "mine:Configures"}, True),
    ],
    ids=["strategy", "source", "network", "configuration", "configuration, late"],
)
def test_an_error_after_the_run_began_keeps_its_folder(changes: dict[str, Any], stays: bool, folder: Path) -> None:
    with pytest.raises(ConfigError):
        Run(configured(changes)).begin(folder / "out")
    assert (folder / "out").exists() == stays


def test_a_nonfinite_share_is_reported_in_the_same_way() -> None:
    says = rf"'mine:Mixes': mix after commit 0 \(t = 0 s\): beta = nan; .*mine\.py:{LINE['mixes']} in run"
    with pytest.raises(StrategyError, match=says):
        run(configured({"strategy.name": "mine:Mixes"}))


def test_weights_of_statistics_are_checked() -> None:
    async def script(fed: Federation) -> None:
        await fed.on_server(lambda vector: vector, fed.model, statistics_from={fed.model: -1.0})

    with pytest.raises(StrategyError, match=r"on_server\(statistics_from=...\) after commit 0 .*: weights\[0\] = -1"):
        play(script)


def test_fedtempos_errors_are_passed_on_unchanged() -> None:
    for error in (ConfigError("a.b = 3: give 4"), RunError("it cannot go on"), UserCodeError("already reported")):

        async def script(fed: Federation, error: Exception = error) -> None:
            async with asyncio.TaskGroup() as tasks:

                async def fails() -> None:
                    raise error

                tasks.create_task(fails())

        with pytest.raises(type(error)) as raised:
            play(script)
        assert raised.value is error

    async def lost(fed: Federation) -> None:
        raise ClientUnavailable(fed.clients[1], "it left")

    with pytest.raises(ClientUnavailable, match=r"^client 1 is unavailable: it left$"):
        play(lost)

    async def interrupted(fed: Federation) -> None:
        raise KeyboardInterrupt

    assert play(interrupted)[0].ended == "interrupted"


def test_an_error_in_fedtempos_code_alone_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    """An error in a built-in strategy without any user code is a bug of fedtempo, and is shown as one."""
    monkeypatch.setattr("fedtempo.strategies.fedavg.uniform_sample", lambda clients, count, rng: {}[0])
    monkeypatch.setattr(user_code, "_is_users", lambda file: False)
    with pytest.raises(KeyError):
        run(configured({}))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("x = 1\nx.missing\n", r"AttributeError: 'int' object has no attribute 'missing' \(other\.py:2 in <module>\)$"),
        ("def broken(:\n", r"SyntaxError: .* \(other\.py:1 in <module>\)$"),
    ],
)
def test_a_module_that_cannot_be_imported_is_named(folder: Path, text: str, says: str) -> None:
    (folder / "other.py").write_text(text)
    with pytest.raises(ConfigError, match=rf"^strategy\.name = 'other:X': cannot import 'other': {says}") as raised:
        configured({"strategy.name": "other:X"})
    assert raised.value.frames.endswith(text.strip().splitlines()[-1])


def test_an_installed_package_named_in_the_configuration_counts_as_user_code(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = folder / "site-packages"
    installed.mkdir()
    (installed / "plugged.py").write_text(
        "def transform(x):\n    return helped(x)\ndef helped(x):\n    return x[7, 'a']\n"
    )
    monkeypatch.syspath_prepend(installed)
    folders = (f"{installed}/", *user_code._installed())
    monkeypatch.setattr(user_code, "_installed", lambda: folders)
    with pytest.raises(UserCodeError, match=r"^data\.transform = 'plugged:transform': IndexError: .*plugged\.py:4 in "):
        run(configured({"data.transform": "plugged:transform"}))


def test_errors_survive_pickling() -> None:
    with pytest.raises(UserCodeError) as raised:
        run(configured({"strategy.name": "mine:Divides"}))
    copy = pickle.loads(pickle.dumps(raised.value))  # noqa: S301
    assert (str(copy), copy.frames, type(copy)) == (str(raised.value), raised.value.frames, UserCodeError)


@pytest.mark.parametrize("debug", ["", "1"])
def test_the_command_prints_the_users_lines_and_one_line_of_fedtempos(
    debug: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "run.toml").write_text(configured({"strategy.name": "mine:Divides"}).dump())
    monkeypatch.setenv("FEDTEMPO_DEBUG", debug)
    monkeypatch.setattr("sys.argv", ["fedtempo", "run", "run.toml", "--out", "out"])
    with pytest.raises(SystemExit) as ended:
        app.main()
    assert ended.value.code == 2
    printed = capsys.readouterr().err
    line = (
        f"error: strategy.name = 'mine:Divides': ZeroDivisionError: division by zero (mine.py:{LINE['share']} in share)"
    )
    assert line in printed
    assert ("Traceback" in printed) == bool(debug)
    if not debug:
        lines = printed[printed.index("mine.py:") :].splitlines()
        assert lines[0].endswith("in run")
        assert lines[2:] == [f"mine.py:{LINE['share']} in share", f"    {SOURCE['share']}", line]


@pytest.mark.parametrize(
    ("tables", "changes", "case"),
    [
        ({}, {"training.loss": "mine:loss"}, TRAINED[3]),
        ({"model": {"network": "mine:Forward"}}, {}, TRAINED[1]),
    ],
    ids=["loss", "network"],
)
def test_a_client_of_a_deployment_reports_its_users_error_in_one_line(
    tables: dict[str, Any], changes: dict[str, Any], case: tuple[str, str, str, str, str], tmp_path: Path
) -> None:
    client_settings: dict[str, Any] = {"insecure": True, "networks": ["mine:Forward"], "training": ["mine:loss"]}
    data = {"source": "digits", "clients": 2, "examples_per_client": 20}
    clients = [
        Answers(parse_client({"name": f"c{i}", "data": {**data, "part": i}, **client_settings})) for i in range(2)
    ]
    refusals: list[str] = []

    def heard(call: Call, reply: Reply) -> Reply:
        refusals.extend(text for name, text in reply.content.items() if name == "refused")
        return reply

    grid = Loopback(clients, heard)
    settings = parse({**deployed(data__clients=2).given, **tables}).with_changes({**changes, "run.horizon": 0.4})
    deploy_to_folder(settings, tmp_path / "run", grid)
    grid.close()
    assert refusals
    assert refusals[0].startswith(f"{case[0]} = 'mine:{case[1]}': {case[2]}")
    assert refusals[0].endswith(f"(mine.py:{LINE[case[3]]} in {case[4]})")
