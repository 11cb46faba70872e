"""Processes of a deployment on this machine: clients, their logs and their connections."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomli_w

from fedtempo.deploy.flower.control_secret import CONTROL_FILE, read_secret
from fedtempo.deploy.flower.grid import SuperLink, joined
from fedtempo.deploy.flower.keys import make_keys, register
from fedtempo.deploy.flower.superlink import Certificates, started
from fedtempo.deploy.run import deploy_to_folder
from fedtempo.runs.config import Config


@dataclass(frozen=True)
class ClientProcess:
    """A running client process and its log."""

    process: subprocess.Popen[bytes]
    log: Path

    def says(self, pattern: str, seconds: float = 60.0) -> str:
        """Wait until the log has a line that matches; returns the match."""
        matches: list[str] = []

        def look() -> bool:
            matches.extend(match.group() for match in re.finditer(pattern, self.text))
            return bool(matches)

        wait_until(look, seconds, lambda: f"{pattern!r} is not in the log:\n{self.text}")
        return matches[0]

    @property
    def text(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace")

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Send a signal and wait; returns the exit code."""
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(number)
        return self.process.wait(30)


@contextlib.contextmanager
def client(
    folder: Path, name: str, superlink: str, *, before: str = "", part: int = 0, **settings: Any
) -> Iterator[ClientProcess]:
    """Run a client process inside the block. before: Python code that it runs first, to make it misbehave."""
    data = {"source": "digits", "clients": 3, "examples_per_client": 20, "part": part}
    path = folder / f"{name}-{time.monotonic_ns()}.toml"
    path.write_text(tomli_w.dumps({"name": name, "superlink": superlink, **settings, "data": data}))
    log = path.with_suffix(".log")
    command = f"sys.argv = ['fedtempo', 'client', {str(path)!r}]"
    code = f"{before}\nimport sys\nfrom fedtempo.cli.app import main\n{command}\nmain()"
    with log.open("ab") as output:
        process = subprocess.Popen([sys.executable, "-c", code], stdout=output, stderr=output, start_new_session=True)
    running = ClientProcess(process, log)
    try:
        yield running
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()


def wait_until(what: Callable[[], bool], seconds: float, complaint: Callable[[], str] = lambda: "too late") -> None:
    until = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < until, complaint()
        time.sleep(0.05)


def family(root: int | None = None) -> dict[int, str]:
    """Return the command lines of a process, by default this one, and its descendants by process id."""
    parents: dict[int, int] = {}
    lines: dict[int, str] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has just ended
            pid = int(folder.name)
            parents[pid] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            lines[pid] = (folder / "cmdline").read_text().replace("\0", " ")
    members = {os.getpid() if root is None else root}
    while more := {pid for pid, parent in parents.items() if parent in members} - members:
        members |= more
    return {pid: lines[pid] for pid in members if pid in lines}


def addresses(pids: Iterable[int]) -> set[str]:
    """Return the addresses at both ends of these processes' sockets, in the hexadecimal form of /proc."""
    inodes = set()
    for pid in pids:
        for descriptor in Path("/proc").glob(f"{pid}/fd/*"):
            with contextlib.suppress(OSError):  # it has just been closed
                inodes.update(re.findall(r"^socket:\[(\d+)\]$", os.readlink(descriptor)))
    ends = set()
    for table in ("tcp", "tcp6", "udp", "udp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[9] in inodes:
                ends |= {end.rpartition(":")[0] for end in fields[1:3]}
    return ends


@dataclass(frozen=True)
class SecuredSuperLink:
    """A SuperLink with TLS and keys, and the folder of its keys."""

    superlink: SuperLink
    keys: Path
    folder: Path

    def client(self, name: str, key: str | None = None, **options: Any) -> contextlib.AbstractContextManager[Any]:
        """Run a client with its own key, with another's, or without one ("")."""
        settings = {"superlink": self.superlink.address, "root_certificates": str(self.keys / "ca.crt")}
        if key != "":
            settings["private_key"] = str(self.keys / (key or name))
        return client(self.folder, name, **{**settings, **options})


@contextlib.contextmanager
def secured(folder: Path, names: Sequence[str]) -> Iterator[SecuredSuperLink]:
    """Run a SuperLink with TLS that accepts clients of these names."""
    keys = folder / "keys"
    make_keys(keys, ["127.0.0.1", "localhost"], names)
    certificates = Certificates(keys / "ca.crt", keys / "server.crt", keys / "server.key")
    secret = read_secret(keys / CONTROL_FILE, "control.secret")
    with started(
        folder, certificates=certificates, keys=True, database=folder / "state.db", secret=secret
    ) as superlink:
        assert len(register(superlink, keys)) == len(names)
        assert register(superlink, keys) == []
        yield SecuredSuperLink(superlink, keys, folder)


def deployed(secured_superlink: SecuredSuperLink, config: Config, folder: Path) -> dict[str, Any]:
    with joined(secured_superlink.superlink, outage_s=60) as grid:
        return deploy_to_folder(config, folder, grid)
