"""A real SuperLink and clients on 127.0.0.1 with TLS and keys: a run, also with failing clients."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("flwr")


from fedtempo.cli.deploy import keys
from fedtempo.deploy.flower.grid import joined
from fedtempo.deploy.flower.keys import make_keys
from fedtempo.deploy.flower.superlink import end, free_port, started
from fedtempo.deploy.live.joining import wait_for_clients
from fedtempo.deploy.run import deploy_to_folder
from fedtempo.federation import ClientUnavailable, Federation
from fedtempo.record import load_run
from fedtempo.runs.run import run
from tests.deploy.live.deployments import real as config
from tests.deploy.processes import ClientProcess, SecuredSuperLink, addresses, client, deployed, family, secured

pytestmark = pytest.mark.deploy

NAMES = ("alice", "bert", "carla")
OTHERS = ("dora", "emil", "fritz", "liar", "glutton")
DIES_IN_TRAINING = """
import os, signal, threading, time
from fedtempo.deploy.client import answers
train = answers.train
def dying(*arguments, **options):
    threading.Timer(1.0, os.kill, (os.getpid(), signal.{signal})).start()
    time.sleep(100)
    return train(*arguments, **options)
answers.train = dying
"""
DIES_IN_SENDING = """
import os, signal
from fedtempo.deploy.flower import node
push_objects = node.push_objects
def dying(objects, push, **options):
    if len(objects) > 4:  # a model
        os.kill(os.getpid(), signal.SIGKILL)
    return push_objects(objects, push, **options)
node.push_objects = dying
"""
SENDS_TOO_LITTLE = """
from fedtempo.deploy.client.answers import Answers
answer = Answers.answer
def lying(self, kind, content, arrays):
    told, sent = answer(self, kind, content, arrays)
    return told, tuple(array[:-1] for array in sent)
Answers.answer = lying
"""


SENDS_TOO_MUCH = """
import numpy
from fedtempo.deploy.client.answers import Answers
answer = Answers.answer
def gorging(self, kind, content, arrays):
    told, sent = answer(self, kind, content, arrays)
    return told, tuple(numpy.zeros(16_000_000, numpy.float32) for array in sent)
Answers.answer = gorging
"""
NOTES_NAMES = """
import os, socket, sys
getaddrinfo = socket.getaddrinfo
def note(what):
    program = "flower-superlink" if "--isolation" in sys.orig_argv else "fedtempo"
    with open({path!r}, "a") as file:
        print(program, what, file=file)
def noting(host, *arguments, **options):
    note(host)
    return getaddrinfo(host, *arguments, **options)
socket.getaddrinfo = noting
note("started")
"""


@pytest.fixture(scope="module")
def secured_superlink(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredSuperLink]:
    with secured(tmp_path_factory.mktemp("deploy"), [*NAMES, *OTHERS]) as secured_superlink:
        make_keys(secured_superlink.keys, [], ["stranger"])
        yield secured_superlink
    with socket.socket() as probe, pytest.raises(ConnectionRefusedError):
        probe.connect(("127.0.0.1", int(secured_superlink.superlink.address.rpartition(":")[2])))


@pytest.fixture(scope="module")
def clients(secured_superlink: SecuredSuperLink) -> Iterator[dict[str, ClientProcess]]:
    """Start all clients of these tests together: well-behaved ones, and one for each kind of failure."""
    other = secured_superlink.folder / "other"
    make_keys(other, ["127.0.0.1"], [])
    options: dict[str, dict[str, Any]] = {name: {"part": part} for part, name in enumerate(NAMES)}
    options |= {
        "dora": {"before": DIES_IN_TRAINING.format(signal="SIGTERM")},
        "emil": {"before": DIES_IN_TRAINING.format(signal="SIGKILL")},
        "fritz": {"before": DIES_IN_SENDING},
        "liar": {"before": SENDS_TOO_LITTLE},
        "glutton": {"before": SENDS_TOO_MUCH},
        "stranger": {},
        "keyless": {"key": ""},
        "misled": {"key": "alice", "root_certificates": str(other / "ca.crt")},
    }
    with contextlib.ExitStack() as stack:
        yield {
            name: stack.enter_context(secured_superlink.client(name, **settings)) for name, settings in options.items()
        }


def test_rejected_clients_are_told_why(clients: dict[str, ClientProcess]) -> None:
    misled, stranger = clients["misled"], clients["stranger"]
    assert misled.process.wait(60) == 2
    assert "root_certificates" in misled.text
    assert "CERTIFICATE_VERIFY_FAILED" in misled.text
    stranger.says(r"rejected: \[code: 2004\]")
    assert stranger.stop() == 0
    clients["keyless"].says(r"rejected: \[code: 200\d\]")
    assert clients["keyless"].stop() == 0


def test_a_key_is_good_for_one_client_at_a_time(
    secured_superlink: SecuredSuperLink, clients: dict[str, ClientProcess]
) -> None:
    clients["alice"].says("connected to")
    with secured_superlink.client("double", key="alice") as double:
        double.says(r"rejected: \[code: 2004\]")
        assert "connected to" not in double.text
        assert double.stop() == 0
    assert clients["alice"].process.poll() is None


def test_keys_are_registered_by_a_command(
    secured_superlink: SecuredSuperLink, capsys: pytest.CaptureFixture[str]
) -> None:
    keys(secured_superlink.keys, [], ["latecomer"], False, secured_superlink.superlink.address, [])
    text = capsys.readouterr().out
    assert f"latecomer is registered at {secured_superlink.superlink.address}" in text
    assert "alice" not in text, "known keys are not registered again"
    with secured_superlink.client("latecomer") as latecomer:
        latecomer.says("connected to")
        assert latecomer.stop() == 0


@pytest.mark.usefixtures("clients")
def test_a_run_has_the_bits_of_its_simulation_and_stays_on_this_machine(
    secured_superlink: SecuredSuperLink, tmp_path: Path
) -> None:
    seen: set[str] = set()

    async def script(fed: Federation) -> None:
        assert any("flower.guarded" in line for line in family().values())
        for _ in range(3):
            updates = await fed.train_all(fed.clients, fed.model)
            seen.update(addresses(family()))
            fed.commit(await fed.average(updates))

    simulated, _, _ = run(config())
    summary = deployed(secured_superlink, config(script, deploy__names=list(NAMES)), tmp_path / "run")
    assert summary["model_sha256"] == simulated["model_sha256"]
    assert summary["visits"] == simulated["visits"] == 9
    assert seen <= {"0100007F", "00000000"}, "only 127.0.0.1 (and no peer yet)"
    assert load_run(tmp_path / "run").facts["client_names"] == list(NAMES)


@pytest.mark.parametrize(
    ("name", "deadline_s", "why", "outcome", "code"),
    [
        ("dora", 60.0, "offline", "unavailable", 0),
        ("emil", 12.0, "no answer within", "late", -signal.SIGKILL),
        ("liar", 60.0, "shape", "refused", None),
        ("glutton", 60.0, "its reply is larger than", "refused", None),
    ],
)
def test_a_client_that_fails_during_a_visit_is_given_up_and_the_others_continue(
    name: str,
    deadline_s: float,
    why: str,
    outcome: str,
    code: int | None,
    secured_superlink: SecuredSuperLink,
    clients: dict[str, ClientProcess],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    took: list[float] = []

    async def script(fed: Federation) -> None:
        (failing,) = [client for client in fed.clients if client.name == name]
        began = fed.now
        with pytest.raises(ClientUnavailable, match=why):
            await fed.train(failing, fed.model)
        took.append(fed.now - began)
        updates = await fed.train_all([client for client in fed.clients if client is not failing], fed.model)
        fed.commit(await fed.average(updates))

    settings = config(
        script, deploy__names=["alice", "bert", name], deploy__deadline_floor_s=deadline_s, run__max_commits=1
    )
    deployed(secured_superlink, settings, tmp_path / "run")
    assert took[0] < 40
    assert sorted(load_run(tmp_path / "run").visits["outcome"]) == sorted([outcome, "done", "done"])
    if code is None:
        assert clients[name].process.poll() is None
        assert re.search(f"client {name}: its update is rejected: .*{why}", caplog.text)
        clients[name].says(f"visit 1: the server rejects the update: .*{why}")
    elif outcome == "late":
        assert f"client {name} does not answer: no reply within 12 s" in caplog.text
    else:
        assert clients[name].process.wait(10) == code


def test_a_client_killed_while_sending_does_not_block_the_others(
    secured_superlink: SecuredSuperLink, clients: dict[str, ClientProcess], tmp_path: Path
) -> None:
    took: list[float] = []

    async def script(fed: Federation) -> None:
        (failing,) = [client for client in fed.clients if client.name == "fritz"]
        remaining = [client for client in fed.clients if client is not failing]

        async def go_on() -> None:
            while "train" not in clients["fritz"].text:
                await fed.sleep_until(fed.now + 0.1)
            began = time.monotonic()
            for _ in range(3):
                fed.commit(await fed.average(await fed.train_all(remaining, fed.model)))
            took.append(time.monotonic() - began)

        with pytest.raises(ClientUnavailable, match="no answer within"):
            await asyncio.gather(fed.train(failing, fed.model), go_on())

    names = ["alice", "bert", "fritz"]
    settings = config(script, deploy__names=names, deploy__deadline_floor_s=15.0, run__max_commits=9)
    deployed(secured_superlink, settings, tmp_path / "run")
    assert sorted(load_run(tmp_path / "run").visits["outcome"]) == ["done"] * 6 + ["late"]
    assert took[0] < 30
    assert clients["fritz"].process.wait(10) == -signal.SIGKILL


def test_a_client_survives_the_loss_of_its_superlink(tmp_path: Path) -> None:
    address, database = f"127.0.0.1:{free_port()}", tmp_path / "state.db"
    with client(tmp_path, "solo", address, insecure=True) as solo:
        with started(tmp_path, address=address, database=database):
            solo.says("connected to")
        solo.says("connected to(.|\\n)*no connection")
        with started(tmp_path, address=address, database=database) as superlink:
            solo.says("no connection(.|\\n)*connected to .* again")
            with joined(superlink, outage_s=60) as grid:
                assert [client.description.name for client in wait_for_clients(grid, 1, 60)] == ["solo"]
        assert solo.stop() == 0


@pytest.mark.slow
def test_flowers_supernode_can_serve_as_a_client(tmp_path: Path) -> None:
    settings = tmp_path / "client.toml"
    settings.write_text('name = "stock"\ninsecure = true\n[data]\nsource = "digits"\nclients = 50\npart = 0\n')
    with started(tmp_path) as superlink, (tmp_path / "supernode.log").open("wb") as log:
        command = [
            str(Path(sys.executable).parent / "flower-supernode"),
            "--insecure",
            "--superlink",
            superlink.address,
        ]
        command += ["--port", str(free_port()), "--node-config", f'fedtempo="{settings}"']
        node = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True, env=_with_programs(tmp_path))
        try:
            with joined(superlink, outage_s=60) as grid:
                deploy_to_folder(
                    config(data__clients=1, run__max_commits=1, deploy__wait_s=240.0, deploy__deadline_floor_s=240.0),
                    tmp_path / "run",
                    grid,
                )
        finally:
            end([node])
    assert load_run(tmp_path / "run").visits["outcome"].tolist() == ["done"]


def _with_programs(home: Path) -> dict[str, str]:
    """Return an environment in which a SuperNode finds the programs that it starts."""
    return {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "FLWR_HOME": str(home / "supernode"),
    }


def test_deploy_starts_everything_on_this_machine_and_leaves_nothing_running(tmp_path: Path) -> None:
    settings = tmp_path / "run.toml"
    settings.write_text(config().dump())
    out = tmp_path / "run"
    before = family().keys()
    noted = tmp_path / "names"
    noted.mkdir()
    (noted / "sitecustomize.py").write_text(NOTES_NAMES.format(path=str(noted / "resolved")))
    done = subprocess.run(
        [sys.executable, "-m", "fedtempo", "deploy", str(settings), "--local", "2", "--out", str(out)],
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(noted), os.environ.get("PYTHONPATH", "")])},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [line.split() for line in (noted / "resolved").read_text().splitlines()]
    assert {line[0] for line in lines} == {"fedtempo", "flower-superlink"}, "all programs are looked at"
    assert {line[1] for line in lines} == {"started", "127.0.0.1"}
    assert {"summary.json", "report.html", "run.sqlite", "config.toml", "logs"} <= {path.name for path in out.iterdir()}
    assert {path.name for path in (out / "logs").iterdir()} == {"superlink.log", "client-0.log", "client-1.log"}
    assert family().keys() <= before
    assert not [line for line in _orphans() if str(tmp_path) in line or "fedtempo-" in line]


def _orphans() -> list[str]:
    """Return the command lines of orphaned processes."""
    commands = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if int((folder / "stat").read_text().rpartition(")")[2].split()[1]) == 1:
                commands.append((folder / "cmdline").read_text().replace("\0", " "))
    return commands
