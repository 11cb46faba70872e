"""Start a SuperLink as a child process, and check whether one answers."""

from __future__ import annotations

import contextlib
import os
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import httpx

from fedtempo.deploy.addresses import split
from fedtempo.deploy.flower import need_flower
from fedtempo.deploy.flower.control_secret import CONTROL_FILE, new_secret, read_secret, write_secret
from fedtempo.deploy.flower.grid import SuperLink
from fedtempo.errors import ConfigError, RunError
from fedtempo.parts.foreign_text import one_line
from fedtempo.record.sqlite_files import must_name_no_files

_READY_S = 60.0
_END_S = 10.0


@dataclass(frozen=True)
class Certificates:
    """PEM files of a server: the authority's certificate, the server's certificate, and its key."""

    authority: Path
    certificate: Path
    key: Path


def free_port() -> int:
    """Return a free port of this machine."""
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
    secret: str | None = None,
) -> Iterator[SuperLink]:
    """Run a SuperLink inside the block; its log and state are in `folder`.

    address: host:port to listen at (default: a free port of 127.0.0.1). certificates: for TLS (default: no TLS). keys:
    accept only clients with registered keys. database: file for state that outlives the SuperLink (default: in memory).
    secret: of its control interface (default: a new one). Raises RunError if it does not start.
    """
    address = address or f"127.0.0.1:{free_port()}"
    host, port = split(address)
    secret = secret or new_secret()
    command = guarded_command(
        write_secret(folder / "control.secret", secret), address, certificates, keys=keys, database=database
    )
    reached = address if host != "0.0.0.0" else f"127.0.0.1:{port}"  # noqa: S104  the user chose the address
    superlink = SuperLink(reached, None if certificates is None else certificates.authority, secret)
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
            start_new_session=True,  # Ctrl-C goes to the run, which ends its SuperLink itself
        )
    try:
        _wait_until_ready(superlink, process, logfile)
        yield superlink
    finally:
        end([process])


def guarded_command(
    secret_file: Path, address: str, certificates: Certificates | None, *, keys: bool, database: Path | None
) -> list[str]:
    """Return the command of a SuperLink whose control interface asks for a secret; for the rest see `started`.

    Raises ConfigError if opening the database would change other files, or it cannot be read.
    """
    need_flower()
    host, port = split(address)
    command = [sys.executable, "-P", "-m", "fedtempo.deploy.flower.guarded", str(secret_file)]
    command += ["--host", host, "--port", str(port), "--isolation", "process"]
    command += ["--disable-runtime-dependency-installation"]
    if certificates is None:
        command.append("--insecure")
    else:
        command += ["--ssl-ca-certfile", str(certificates.authority)]
        command += ["--ssl-certfile", str(certificates.certificate), "--ssl-keyfile", str(certificates.key)]
    if keys:
        command.append("--enable-supernode-auth")
    if database is not None:
        try:
            must_name_no_files(database)
        except OSError as error:
            raise ConfigError(f"{database} cannot hold the SuperLink's state: {error.strerror or error}") from error
        command += ["--database", str(database)]
    return command


def serve(keys: Path, address: str, database: Path | None) -> NoReturn:
    """Run a SuperLink in place of this process, with the certificates and the secret in the folder `keys`.

    It accepts only clients with registered keys. Raises ConfigError if a file is missing.
    """
    files = [keys / name for name in ("ca.crt", "server.crt", "server.key", CONTROL_FILE)]
    if missing := [file for file in files if not file.is_file()]:
        raise ConfigError(f"{missing[0]} does not exist; run `fedtempo keys {keys} --host NAME` where ca.key is")
    read_secret(files[3], str(files[3]))
    try:
        split(address)
    except ValueError as error:
        raise ConfigError(f"address = {address!r}: {error}") from error
    command = guarded_command(files[3], address, Certificates(*files[:3]), keys=True, database=database)
    os.execv(command[0], command)  # noqa: S606  a list of arguments, no shell


def tied(command: Sequence[str]) -> list[str]:
    """Wrap a command so that its process ends when this one ends, even if this one is killed."""
    return [sys.executable, str(Path(__file__).with_name("die_with_parent.py")), str(os.getpid()), *command]


def end(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    """Terminate processes; kill those that do not end in time."""
    for process in processes:
        process.terminate()
    for process in processes:
        try:
            process.wait(_END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def answers(superlink: SuperLink) -> bool:
    """Return whether a SuperLink answers. Raises ConfigError if the file of certificates is invalid."""
    scheme = "http" if superlink.insecure else "https"
    try:
        context = ssl.create_default_context(cafile=superlink.root_certificates)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"root_certificates = {superlink.root_certificates}: invalid PEM file: {error}") from error
    try:
        return bool(httpx.get(f"{scheme}://{superlink.address}/health", verify=context, timeout=5.0).is_success)
    except httpx.HTTPError:
        return False


def _wait_until_ready(superlink: SuperLink, process: subprocess.Popen[bytes], logfile: Path) -> None:
    until = time.monotonic() + _READY_S
    while not answers(superlink):
        if process.poll() is not None or time.monotonic() > until:
            lines = logfile.read_text(encoding="utf-8", errors="replace").strip().splitlines()
            raise RunError(
                f"the SuperLink did not start, see {logfile}: {one_line(lines[-1]) if lines else 'the log is empty'}"
            )
        time.sleep(0.1)
