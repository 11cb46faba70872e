"""The programs of the deployment as processes: SuperLink, driver and clients, started as the docs say."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w

from benchmarks.long_deployment.plan import DRIVER, SUPERLINK, client_names, paces
from fedtempo.deploy.client.settings import ClientData
from fedtempo.deploy.flower.keys import make_keys, register, superlink_of
from fedtempo.deploy.flower.superlink import answers, free_port, tied
from fedtempo.errors import RunError
from fedtempo.runs.config import Config, parse

_READY_S, _END_S = 120.0, 30.0


@dataclass
class Program:
    """A program that runs as one process at a time. life: how often it was restarted."""

    name: str
    log: Path
    process: subprocess.Popen[bytes] | None = None
    life: int = 0
    began_at: list[int] = field(default_factory=list)
    """Size of the log when each life began."""
    exits: list[int] = field(default_factory=list)
    processes: list[int] = field(default_factory=list)


class Programs:
    """All programs of a deployment, and the folder in which they work."""

    def __init__(self, folder: Path, tables: dict[str, Any], clients: int, slowest_s: float, seed: int) -> None:
        """tables: the run's configuration without its SuperLink."""
        self.folder, self._clients = folder, client_names(clients)
        self.keys, self.temporary, self.logs = folder / "keys", folder / "tmp", folder / "logs"
        for made in (self.temporary, self.logs, folder / "clients", folder / "work"):
            made.mkdir(parents=True)
        self._address = f"127.0.0.1:{free_port()}"
        make_keys(self.keys, ["127.0.0.1"], self._clients)
        deploy = {
            **tables.get("deploy", {}),
            "superlink": self._address,
            "root_certificates": str(self.keys / "ca.crt"),
            "control_secret": str(self.keys / "control.secret"),
        }
        self.config: Config = parse({**tables, "deploy": deploy})
        (folder / "server.toml").write_text(self.config.dump(), encoding="utf-8")
        self._write_clients(paces(clients, seed, slowest_s / 4, slowest_s))
        names = (SUPERLINK, DRIVER, *self._clients)
        self.programs = {name: Program(name, self.logs / f"{name}.log") for name in names}

    @property
    def run_folder(self) -> Path:
        return self.folder / "run"

    @property
    def database(self) -> Path:
        return self.folder / "state.db"

    def begin(self) -> None:
        """Start everything: the SuperLink, which learns the clients' keys, then clients and driver."""
        self.start(SUPERLINK)
        superlink = superlink_of(self.keys, self._address)
        until = time.monotonic() + _READY_S
        while not answers(superlink):
            if time.monotonic() > until or self.programs[SUPERLINK].process is None:
                raise RunError(f"the SuperLink did not start, see {self.programs[SUPERLINK].log}")
            time.sleep(0.1)
        register(superlink, self.keys)
        for name in self._clients:
            self.start(name)
        self.start(DRIVER)

    def start(self, name: str) -> None:
        """Start a program, or start it again."""
        program = self.programs[name]
        program.began_at.append(program.log.stat().st_size if program.log.exists() else 0)
        environment = {
            **os.environ,
            "TMPDIR": str(self.temporary),
            "FLWR_HOME": str(self.folder / "flower"),
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        }
        with program.log.open("ab") as log:
            program.process = subprocess.Popen(  # noqa: S603  a list of arguments, no shell
                tied(self._command(name)),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder / "work",
                env=environment,
                start_new_session=True,
            )
        program.processes.append(program.process.pid)

    def end(self, name: str, *, killed: bool = False, told: bool = False) -> int:
        """End a program and return its exit code. told: whether it has had its signal already."""
        process = self.programs[name].process
        assert process is not None
        if not told:
            process.send_signal(signal.SIGKILL if killed else signal.SIGTERM)
        try:
            code = process.wait(_END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            code = process.wait()
        self.programs[name].exits.append(code)
        return code

    def end_all(self) -> None:
        """End what still runs: clients first, as an operator would."""
        running = [name for name, program in self.programs.items() if _runs(program)]
        for name in running[::-1]:
            process = self.programs[name].process
            if name != SUPERLINK and process is not None:
                process.terminate()
        for name in running[::-1]:
            self.end(name, told=name != SUPERLINK)

    @property
    def processes(self) -> set[int]:
        """Numbers of all processes that were started."""
        return {process for program in self.programs.values() for process in program.processes}

    def _command(self, name: str) -> list[str]:
        fedtempo = [sys.executable, "-P", "-m", "fedtempo"]
        if name == SUPERLINK:
            return [
                *fedtempo,
                "superlink",
                str(self.keys),
                "--address",
                self._address,
                "--database",
                str(self.database),
            ]
        if name != DRIVER:
            return [*fedtempo, "client", str(self.folder / "clients" / name / "client.toml")]
        if (self.run_folder / "deployment.json").exists():
            return [*fedtempo, "resume", str(self.run_folder), "--log-format", "text"]
        server = str(self.folder / "server.toml")
        return [*fedtempo, "deploy", server, "--out", str(self.run_folder), "--log-format", "text"]

    def _write_clients(self, paces_s: list[float]) -> None:
        data = self.config.data
        for part, (name, pace_s) in enumerate(zip(self._clients, paces_s, strict=True)):
            shared: dict[str, Any] = {"clients": len(paces_s), "examples_per_client": data.examples_per_client}
            examples = ClientData(data.source, part=part, seed=self.config.run.seed, **shared).read()
            folder = self.folder / "clients" / name
            folder.mkdir()
            np.savez(folder / "data.npz", train_x=examples.x, train_y=examples.y)
            settings = {
                "name": name,
                "superlink": self._address,
                "root_certificates": str(self.keys / "ca.crt"),
                "private_key": str(self.keys / name),
                "pace_s": pace_s,
                "data": {"source": f"folder:{folder / 'data.npz'}"},
            }
            (folder / "client.toml").write_text(tomli_w.dumps(settings), encoding="utf-8")


def _runs(program: Program) -> bool:
    return program.process is not None and program.process.poll() is None
