"""The steps of pages about deployment, word by word, on a real SuperLink and three clients."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

pytest.importorskip("flwr")

from fedtempo.deploy.flower.grid import SuperLink
from fedtempo.deploy.flower.superlink import answers, end, free_port
from fedtempo.record import load_run
from tests.deploy.processes import wait_until
from tests.docs.blocks import ROOT, Block, blocks_of

pytestmark = pytest.mark.deploy

DEPLOY, OPERATE = ROOT / "docs/deploy.md", ROOT / "docs/operate.md"
SERVING = (["fedtempo", "client"], ["fedtempo", "superlink"])
"""Commands that a reader leaves running."""


@dataclass
class Reader:
    """A reader who follows a page in an empty folder. changes: texts that must differ here, such as ports."""

    folder: Path
    changes: dict[str, str]
    running: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def follow(self, page: Path, name: str, until: str = "no such command") -> None:
        """Do what the blocks of this name say. until: the beginning of the last command, which is left running."""
        blocks = [block for block in blocks_of(page) if ("deployment", name) in block.directives]
        assert blocks, f"{page}: no block <!-- test: deployment {name} -->"
        for block in blocks:
            if block.kind == "toml" and block.text.startswith("[deploy]\n"):
                path = self.folder / "server/server.toml"
                path.write_text(path.read_text().partition("[deploy]\n")[0] + self._changed(block.text))
            if block.title is not None:
                path = self.folder / block.title
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(self._changed(block.text), encoding="utf-8")
            if block.kind == "bash" and self._type(block, until):
                return

    def _type(self, block: Block, until: str) -> bool:
        """Type the commands into a new terminal; return whether the last one was that of `until`."""
        where = self.folder
        for line in self._changed(block.text).replace("\\\n", " ").splitlines():
            words = shlex.split(line, comments=True)
            if words[:1] == ["cd"]:
                where = where / words[1]
            elif line.startswith(until) or any(words[: len(start)] == start for start in SERVING):
                self._leave_running(line, where)
                if line.startswith(until):
                    return True
            elif words:
                done = subprocess.run(
                    ["/bin/bash", "-c", line],
                    cwd=where,
                    env=self._environment,
                    capture_output=True,
                    text=True,
                    timeout=300,
                )
                assert done.returncode == 0, f"{block.place}: {line}\n{done.stdout}{done.stderr}\n{self.logs()}"

        return False

    def _leave_running(self, line: str, where: Path) -> None:
        with (self.folder / f"terminal-{len(self.running)}.log").open("wb") as log:
            command = ["/bin/bash", "-c", f"exec {line}"]
            self.running.append(
                subprocess.Popen(
                    command, cwd=where, env=self._environment, stdout=log, stderr=log, start_new_session=True
                )
            )

    def logs(self) -> str:
        return "".join(path.read_text(errors="replace") for path in sorted(self.folder.glob("terminal-*.log")))

    @property
    def _environment(self) -> dict[str, str]:
        return {**os.environ, "PATH": f"{self.folder / 'bin'}{os.pathsep}{os.environ['PATH']}"}

    def _changed(self, text: str) -> str:
        for before, after in self.changes.items():
            text = text.replace(before, after)
        return text


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Callable[..., Reader]]:
    """Make readers whose programs are those of this environment."""
    readers: list[Reader] = []
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, command in (("fedtempo", f"{sys.executable} -m fedtempo"), ("python", sys.executable)):
        (programs / name).write_text(f'#!/bin/sh\nexec {command} "$@"\n')
        (programs / name).chmod(0o755)

    def make(**changes: str) -> Reader:
        changes = {":8000": f":{free_port()}", **changes}
        readers.append(Reader(tmp_path, changes))
        return readers[-1]

    yield make
    for one in readers:
        end([process for process in one.running if process.poll() is None])


def test_three_clients_are_set_up_as_the_page_says(reader: Callable[..., Reader]) -> None:
    newcomer = reader()
    newcomer.follow(DEPLOY, "setup")
    newcomer.follow(DEPLOY, "run")
    run = load_run(newcomer.folder / "server/first")
    summary = json.loads((newcomer.folder / "server/first/summary.json").read_text())
    assert summary["ended"] == "target"
    assert run.facts["client_names"] == ["ward-1", "ward-2", "ward-3"]
    assert run.facts["data"]["test"] == 143, "all rows of the server's table"
    assert set(run.visits["outcome"]) <= {"done", "cut"}
    assert newcomer.logs().count("trains on 142 examples; serving 127.0.0.1") == 3, newcomer.logs()
    for process in newcomer.running:
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0


def test_a_run_is_watched_resumed_and_measured_as_the_pages_say(reader: Callable[..., Reader]) -> None:
    port = f"127.0.0.1:{free_port()}"
    operator = reader(
        **{
            "127.0.0.1:9100": port,
            "[deploy]\n": f'[deploy]\nmetrics = "{port}"\n',
            "horizon = 300.0": "horizon = 25.0",
            "stop_at_target = true": "stop_at_target = false",
        }
    )
    operator.follow(DEPLOY, "setup")
    operator.follow(DEPLOY, "run", until="fedtempo deploy")
    folder = operator.folder / "server/first"
    journal = folder / "journal.jsonl"
    wait_until(lambda: journal.exists() and journal.read_text().count('["named", ') >= 5, 120, operator.logs)
    operator.follow(OPERATE, "metrics")
    operator.running[-1].kill()
    operator.running[-1].wait()
    operator.follow(OPERATE, "operate")
    assert json.loads((folder / "summary.json").read_text())["ended"] == "horizon"
    assert load_run(folder).facts["resumed"] == 1
    operator.follow(OPERATE, "measure")
    assert "ward-3" in (operator.folder / "server/fleet.toml").read_text()


def test_a_superlink_of_ones_own_is_set_up_as_the_page_says(reader: Callable[..., Reader]) -> None:
    operator = reader()
    operator.follow(DEPLOY, "setup")
    operator.follow(DEPLOY, "service")
    superlink = SuperLink(f"127.0.0.1{operator.changes[':8000']}", operator.folder / "server/keys/ca.crt")
    wait_until(lambda: answers(superlink), 60, operator.logs)
    operator.follow(DEPLOY, "register")
    operator.follow(DEPLOY, "run")
    assert json.loads((operator.folder / "server/first/summary.json").read_text())["ended"] == "target"
    operator.follow(DEPLOY, "keys")
    assert (operator.folder / "server/keys/ward-4.pub").exists()
    operator.running[0].terminate()
    assert operator.running[0].wait(30) in (0, -signal.SIGTERM), "the process is the SuperLink itself"
