"""A SuperLink of one's own as a child process, and whether one answers."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx

from fedtempo.deploy.flower.grid import SuperLink
from fedtempo.errors import ConfigError, RunError

_READY_S = 60.0
_END_S = 10.0


@dataclass(frozen=True)
class Certificates:
    """PEM files of a server: its authority's certificate, its own, and its key."""

    authority: Path
    certificate: Path
    key: Path


def free_port() -> int:
    """A port of this machine that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextlib.contextmanager
def started(
    folder: Path,
    *,
    address: str | None = None,
    certificates: Certificates | None = None,
    keys: bool = False,
    database: Path | None = None,
) -> Iterator[SuperLink]:
    """A SuperLink while the block lasts; its log and state lie in `folder`.

    address: host:port to listen at; a free port of 127.0.0.1 where not given.
    certificates: for TLS; without them it speaks plainly. keys: only clients whose keys are registered are let in.
    database: what it must remember beyond its end; in memory where not given. Raises RunError where it does not start.
    """
    address = address or f"127.0.0.1:{free_port()}"
    host, _, port = address.rpartition(":")
    command = [_program("flower-superlink"), "--host", host, "--port", port, "--isolation", "process"]
    command.append("--disable-runtime-dependency-installation")
    if certificates is None:
        command.append("--insecure")
    else:
        command += ["--ssl-ca-certfile", str(certificates.authority)]
        command += ["--ssl-certfile", str(certificates.certificate), "--ssl-keyfile", str(certificates.key)]
    if keys:
        command.append("--enable-supernode-auth")
    if database is not None:
        command += ["--database", str(database)]
    reached = address if host != "0.0.0.0" else f"127.0.0.1:{port}"  # noqa: S104  whoever gave the address chose it
    superlink = SuperLink(reached, None if certificates is None else certificates.authority)
    home = folder / "flower"
    home.mkdir(parents=True, exist_ok=True)
    logfile = folder / "superlink.log"
    with logfile.open("ab") as output:
        process = subprocess.Popen(  # noqa: S603  a list of arguments, no shell
            tied(command),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env={**os.environ, "FLWR_HOME": str(home)},
            start_new_session=True,  # Ctrl-C is for the run, which ends its SuperLink itself
        )
    try:
        _wait_until_ready(superlink, process, logfile)
        yield superlink
    finally:
        end([process])


def tied(command: Sequence[str]) -> list[str]:
    """The command, so that its process ends when this one does, killed or not."""
    return [sys.executable, str(Path(__file__).with_name("die_with_parent.py")), str(os.getpid()), *command]


def end(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    """Ask processes to end, and make them end."""
    for process in processes:
        process.terminate()
    for process in processes:
        try:
            process.wait(_END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def answers(superlink: SuperLink) -> bool:
    """Whether a SuperLink answers there. Raises ConfigError for a file of certificates that is not usable."""
    scheme = "http" if superlink.insecure else "https"
    try:
        context = ssl.create_default_context(cafile=superlink.root_certificates)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"root_certificates = {superlink.root_certificates}: no usable PEM file: {error}") from error
    try:
        return bool(httpx.get(f"{scheme}://{superlink.address}/health", verify=context, timeout=5.0).is_success)
    except httpx.HTTPError:
        return False


def _wait_until_ready(superlink: SuperLink, process: subprocess.Popen[bytes], logfile: Path) -> None:
    until = time.monotonic() + _READY_S
    while not answers(superlink):
        if process.poll() is not None or time.monotonic() > until:
            lines = logfile.read_text(encoding="utf-8", errors="replace").strip().splitlines()
            raise RunError(f"the SuperLink did not start, see {logfile}: {lines[-1] if lines else 'it says nothing'}")
        time.sleep(0.1)


def _program(name: str) -> str:
    """One of Flower's programs: beside this Python, or on the path."""
    beside = Path(sys.executable).parent / name
    found = str(beside) if beside.exists() else shutil.which(name)
    if found is None:
        raise ConfigError(f"{name} is not there: `pip install 'fedtempo[flower]'`")
    return found
