"""Killed servers: the run continues after the death of its server or of the SuperLink, and no client trains twice."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("flwr")

from fedtempo.deploy.flower.grid import SuperLink
from fedtempo.deploy.flower.service import grid
from fedtempo.deploy.flower.superlink import answers, free_port, started
from fedtempo.errors import ConfigError
from fedtempo.record import load_run
from fedtempo.runs.config import Config
from fedtempo.runs.run import run
from tests.deploy.live.deployments import real
from tests.deploy.processes import ClientProcess, client, family, wait_until
from tests.parts.test_leftovers import of_process, prefix_of_the_dead

pytestmark = pytest.mark.deploy

PACE_S = 1.5


@contextlib.contextmanager
def three_clients(folder: Path, address: str) -> Iterator[list[ClientProcess]]:
    with contextlib.ExitStack() as stack:
        yield [
            stack.enter_context(client(folder, f"c{part}", address, part=part, insecure=True, pace_s=PACE_S))
            for part in range(3)
        ]


def driver(*arguments: str | Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "fedtempo", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def kill_all(process: subprocess.Popen[str]) -> None:
    """Kill a driver and all that it started at once, so that none of them can end in order."""
    process.send_signal(signal.SIGSTOP)  # it starts nothing meanwhile
    for pid in family(process.pid):
        os.kill(pid, signal.SIGKILL)


def written(folder: Path, config: Config) -> Path:
    path = folder / "run.toml"
    path.write_text(config.dump())
    return path


def trainings(clients: list[ClientProcess]) -> list[int]:
    """Return how often each client trained, and whether it ever trained twice for the same visit."""
    stays = [re.findall(r"train (\d+) answered in", client.text) for client in clients]
    assert all(count == 1 for client in stays for count in Counter(client).values())
    return [len(client) for client in stays]


def finished(process: subprocess.Popen[str], folder: Path) -> dict[str, Any]:
    out, _ = process.communicate(timeout=600)
    assert process.returncode == 0, out
    summary: dict[str, Any] = json.loads((folder / "summary.json").read_text())
    return summary


@pytest.mark.parametrize(("away_s", "given_up"), [(0.0, False), (2 * PACE_S, False), (0.0, True)])
def test_a_killed_server_continues_with_its_clients(away_s: float, given_up: bool, tmp_path: Path) -> None:
    """given_up: whether the SuperLink has abandoned the submitted run, as it does after a minute."""
    address = f"127.0.0.1:{free_port()}"
    config = real(deploy__superlink=address, deploy__control_secret=str(tmp_path / "control.secret"))
    with three_clients(tmp_path, address) as clients, started(tmp_path, address=address):
        with driver("deploy", written(tmp_path, config), "--out", tmp_path / "run") as process:
            wait_until(lambda: _sent(tmp_path / "run") >= 6, 120)  # the second round has begun
            process.kill()
            process.wait()
        if away_s:
            wait_until(lambda: trainings(clients) == [2, 2, 2], 60)
        if given_up:
            path = tmp_path / "run" / "deployment.json"
            remembered_options = json.loads(path.read_text())
            path.write_text(
                json.dumps({**remembered_options, "session": {**remembered_options["session"], "token": "expired"}})
            )
        summary = finished(driver("resume", tmp_path / "run"), tmp_path / "run")
        assert trainings(clients) == [3, 3, 3]
    simulated, _, _ = run(config)
    assert summary["model_sha256"] == simulated["model_sha256"]
    records = load_run(tmp_path / "run")
    assert records.facts["resumed"] == 1
    assert records.visits["outcome"].tolist() == ["done"] * 9
    assert not (tmp_path / "run" / "deployment.json").exists()


def test_a_run_survives_a_killed_superlink(tmp_path: Path) -> None:
    address, database = f"127.0.0.1:{free_port()}", tmp_path / "state.db"
    config = real(deploy__superlink=address, deploy__control_secret=str(tmp_path / "control.secret"))
    with three_clients(tmp_path, address) as clients:
        with started(tmp_path, address=address, database=database):
            process = driver("deploy", written(tmp_path, config), "--out", tmp_path / "run")
            wait_until(lambda: _sent(tmp_path / "run") >= 6, 120)  # the second round has begun
            port = address.rpartition(":")[2]
            (superlink,) = [pid for pid, line in family().items() if "flower.guarded" in line and port in line]
            os.kill(superlink, signal.SIGKILL)
        with started(tmp_path, address=address, database=database):
            summary = finished(process, tmp_path / "run")
            assert trainings(clients) == [3, 3, 3]
    assert summary["model_sha256"] == run(config)[0]["model_sha256"]
    assert load_run(tmp_path / "run").visits["outcome"].tolist() == ["done"] * 9


@pytest.mark.parametrize("kill", [subprocess.Popen.kill, kill_all], ids=["server", "server and SuperLink"])
def test_a_killed_server_and_its_superlink_continue_with_the_state_that_the_superlink_kept(
    kill: Callable[[subprocess.Popen[str]], None], tmp_path: Path
) -> None:
    address, database = f"127.0.0.1:{free_port()}", tmp_path / "state.db"
    config = real(deploy__superlink=address, deploy__database=str(database))
    with three_clients(tmp_path, address) as clients:
        with driver("deploy", written(tmp_path, config), "--out", tmp_path / "run") as process:
            wait_until(lambda: _sent(tmp_path / "run") >= 6, 120)  # the second round has begun
            kill(process)
        wait_until(lambda: not answers(SuperLink(address)), 30)  # the SuperLink has ended with it
        summary = finished(driver("resume", tmp_path / "run"), tmp_path / "run")
        assert trainings(clients) == [3, 3, 3]
    assert summary["model_sha256"] == run(config)[0]["model_sha256"]
    assert load_run(tmp_path / "run").visits["outcome"].tolist() == ["done"] * 9


@pytest.mark.parametrize("kill", [subprocess.Popen.kill, kill_all], ids=["server", "all"])
def test_processes_started_by_a_killed_server_end_with_it(
    kill: Callable[[subprocess.Popen[str]], None], tmp_path: Path
) -> None:
    config = real(data__clients=2)
    with driver("deploy", written(tmp_path, config), "--local", "2", "--out", tmp_path / "run") as process:
        wait_until(lambda: _sent(tmp_path / "run") >= 1, 120)
        ours = ("flower.guarded", "fedtempo client")
        started_here = [pid for pid, line in family().items() if any(name in line for name in ours)]
        assert len(started_here) == 3
        kill(process)
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in started_here), 30)
    assert of_process(process.pid)
    summary = finished(driver("resume", tmp_path / "run"), tmp_path / "run")
    assert summary["ended"] == "budget"
    assert not of_process(process.pid)


def test_the_next_deployment_removes_what_a_killed_process_left(tmp_path: Path) -> None:
    left = Path(tempfile.mkdtemp(prefix=prefix_of_the_dead()))
    with (
        pytest.raises(ConfigError, match="no SuperLink answers"),
        grid(real(deploy__superlink="127.0.0.2:9"), tmp_path),
    ):
        pass
    assert not left.exists()


def _sent(folder: Path) -> int:
    """Return the number of calls sent for visits."""
    try:
        return (folder / "journal.jsonl").read_text().count('["named", ')
    except FileNotFoundError:
        return 0
