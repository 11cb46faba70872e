"""What stays at real clients: the same bits as in a simulation, through restarts of server and clients."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedtempo.deploy.client.answers import Answers
from fedtempo.deploy.client.memory import Memory, NotKept
from fedtempo.deploy.client.settings import load_client, parse_client
from fedtempo.deploy.live.messages import Call, Reply
from fedtempo.deploy.run import deploy_to_folder
from fedtempo.record import load_run
from fedtempo.runs.config import Config, parse
from fedtempo.runs.run import run
from tests.deploy.live.deployments import TABLES
from tests.deploy.live.loopback import Loopback, digits_clients
from tests.deploy.live.test_live_resume import killed, resumed

NETWORK = "tests.strategies.nets:normalised"
LOCAL = {"model.local": ["3.*"]}


def settings(strategy: str = "fedavg", **changes: Any) -> Config:
    tables = {**TABLES, "model": {"network": NETWORK}, "strategy": {"name": strategy}}
    keys = {name.replace("__", "."): value for name, value in changes.items()}
    return parse(tables).with_changes({"run.max_commits": 4, "run.horizon": 600.0, **LOCAL, **keys})


def clients(folder: Path | None = None, **more: Any) -> list[Answers]:
    if folder is None:
        return digits_clients(3, networks=[NETWORK], **more)
    return [
        Answers(
            parse_client(
                {
                    "name": f"c{i}",
                    "insecure": True,
                    "networks": [NETWORK],
                    "state_folder": f"c{i}.state",
                    "data": {"source": "digits", "clients": 3, "examples_per_client": 20, "part": i},
                },
                folder,
            )
        )
        for i in range(3)
    ]


@pytest.mark.parametrize("strategy", ["fedavg", "scaffold", "csgd", "sequential", "power-of-choice"])
@pytest.mark.parametrize("choice", [{}, LOCAL, {"model.buffers": "local"}, {"model.buffers": "frozen"}], ids=str)
def test_a_deployment_gives_the_bits_of_a_simulation(tmp_path: Path, strategy: str, choice: dict[str, Any]) -> None:
    config = settings(strategy, model__local=[]).with_changes({"model.local": [], **choice, "run.evaluate_clients": 0})
    simulated, _, _ = run(config)
    grid = Loopback(clients())
    deployed = deploy_to_folder(config, tmp_path / "run", grid)
    grid.close()
    assert deployed["model_sha256"] == simulated["model_sha256"]
    assert deployed["final_loss"] == simulated["final_loss"]
    assert deployed["bytes"]["up"] == simulated["bytes"]["up"]


def killed_and_resumed(config: Config, place: Path, restart: bool) -> dict[str, Any]:
    """Deploy, kill the server at its fifth visit and resume; return the summary. restart: the clients restart too."""
    grid = Loopback(clients(place))
    killed(config, place / "run", grid, 5)
    if restart:
        grid.clients = {100 + i: client for i, client in enumerate(clients(place))}
    summary = resumed(config, place / "run", grid)
    grid.close()
    return summary


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_steps_at_the_server_are_those_of_a_simulation_even_if_it_was_killed(tmp_path: Path, optimizer: str) -> None:
    step = {"kind": "sgd", "momentum": 0.9} if optimizer == "sgd" else optimizer
    config = settings(server__optimizer=step, run__checkpoint_every=0.001)
    simulated, _, _ = run(config.with_changes({"run.evaluate_clients": 0}))
    assert killed_and_resumed(config, tmp_path, restart=False)["model_sha256"] == simulated["model_sha256"]


@pytest.mark.parametrize("strategy", ["fedavg", "scaffold"])
@pytest.mark.parametrize("restart", [False, True], ids=["same clients", "restarted clients"])
def test_a_server_and_clients_that_were_killed_give_the_same_bits(tmp_path: Path, strategy: str, restart: bool) -> None:
    config = settings(strategy, run__checkpoint_every=0.001)
    simulated, _, _ = run(config.with_changes({"run.evaluate_clients": 0}))
    assert killed_and_resumed(config, tmp_path, restart)["model_sha256"] == simulated["model_sha256"]
    for i in range(3):
        (folder,) = (tmp_path / f"c{i}.state").iterdir()
        assert sorted(path.name for path in folder.iterdir()) == ["3.state", "4.state", "base"]


def test_a_client_that_lost_its_memory_gets_again_what_does_not_travel(tmp_path: Path) -> None:
    """Its first visit after that fails; then the server sends all of it again."""
    grid = Loopback(clients())

    def forget(call: Call, reply: Reply) -> Reply:
        if call.kind == "train" and call.node == 101 and call.content["visit"] == 2:
            grid.clients[101] = clients()[1]
        return reply

    grid.change = forget
    deploy_to_folder(settings(run__max_commits=5), tmp_path / "run", grid)
    grid.close()
    visits = load_run(tmp_path / "run").visits
    lost = [outcome for client, outcome in zip(visits["client"], visits["outcome"], strict=True) if client == 1]
    assert lost == ["done", "done", "unavailable", "done", "done"]
    assert [len(call.arrays) for call in grid.calls if call.kind == "train" and call.node == 101] == [2, 1, 1, 2, 1]


def test_a_client_only_runs_procedures_that_it_agreed_to() -> None:
    answers = clients()[0]
    call = {"job": {"seed": 1, "network": {"network": "mlp", "hidden": [8]}, "n_classes": 10, "layout": "?"}}
    call |= {"client": 0, "visit": 1, "training": {}, "procedure": "os:system", "returns": 0}
    reply, _ = answers.answer("train", call, (np.zeros(3, np.float32),))
    assert "differs from the server's" in reply["refused"]
    from fedtempo.learning.networks import Mlp, create
    from fedtempo.learning.state import FlatModel

    model = FlatModel(create(Mlp(hidden=(8,)), (1, 8, 8), 10, 0), (1, 8, 8))
    call["job"]["layout"] = model.layout
    vector = model.vector.numpy()
    reply, _ = answers.answer("train", call, (vector,))
    assert reply["refused"] == "'os:system' is neither fedtempo's nor among `training` in this client's TOML"
    reply, _ = answers.answer("train", {**call, "procedure": "scaffold", "returns": 1}, (vector, vector))
    assert reply["refused"] == "run '': a run's name has 32 hexadecimal digits"
    named = {**call, "job": {**call["job"], "run": "0" * 32}, "procedure": "scaffold", "returns": 1}
    reply, _ = answers.answer("train", named, (vector,))
    assert "values to unpack" in reply["refused"]
    reply, sent = answers.answer("train", named, (vector, vector * 0))
    assert len(sent) == 2
    for numbers in ([1.0], {"mu": "1"}):
        reply, _ = answers.answer("train", {**named, "numbers": numbers}, (vector, vector * 0))
        assert reply["refused"] == f"numbers = {numbers!r}: it must map names to numbers"
    reply, _ = answers.answer("train", {**call, "procedure": None}, (vector, vector))
    assert reply["refused"] == "the call has 1 arrays too many"


@pytest.mark.parametrize("name", ["", "..", "a/b", "0" * 31, "0" * 33, "A" * 32])
def test_the_name_of_a_run_cannot_lead_elsewhere(tmp_path: Path, name: str) -> None:
    with pytest.raises(NotKept, match=re.escape(f"run {name!r}")):
        Memory(tmp_path).of(name)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("on_disk", [False, True])
def test_the_last_visit_can_be_repeated(tmp_path: Path, on_disk: bool) -> None:
    def memory() -> Any:
        return memories.of("1" * 32) if not on_disk else Memory(tmp_path).of("1" * 32)

    memories = Memory(None)
    assert memory().before(1) is None
    memory().keep(1, b"one")
    assert memory().before(1) is None
    assert memory().before(2) == b"one"
    memory().keep(4, b"four")
    assert memory().before(4) == b"one"
    memory().keep(4, b"four again")
    assert memory().before(4) == b"one"
    memory().keep(5, b"five")
    assert (memory().before(5), memory().before(6)) == (b"four again", b"five")
    with pytest.raises(NotKept, match=r"^its state before visit 4 is gone: it has made visit 5 since$"):
        memory().before(4)


def test_the_folder_is_in_systemds_or_beside_the_clients_file_by_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("STATE_DIRECTORY", raising=False)
    (tmp_path / "client.toml").write_text('name = "c7"\ninsecure = true\n[data]\nsource = "digits"\n')
    assert load_client(tmp_path / "client.toml").state_folder == str(tmp_path / "c7.state")
    monkeypatch.setenv("STATE_DIRECTORY", "/var/lib/fedtempo-client")
    assert load_client(tmp_path / "client.toml").state_folder == "/var/lib/fedtempo-client/c7.state"


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(NotKept, match=r"file/1+/0\.state could not be written: .*; set state_folder$"):
        Memory(tmp_path / "file").of("1" * 32).keep(1, b"")
