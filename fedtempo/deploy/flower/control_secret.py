"""The secret of a SuperLink's control interface: its file, and how a request shows that its sender has it.

The secret itself is never sent. A request carries a claim and its HMAC. Without TLS, the claim names the port to which
it is sent and the time, so that it is worth nothing to a program that listens there in place of the SuperLink: neither
a SuperLink at another port nor one that starts later accepts it. With TLS, a certificate says who receives it.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import stat
import time
from pathlib import Path

from fedtempo.errors import ConfigError

CONTROL_FILE = "control.secret"
"""Name of the file with the secret, in a folder of keys."""

HEADER = "x-fedtempo-control"
"""HTTP header with the proof."""

_BY_CERTIFICATE = "certificate"
_VALID_S = 60.0
_SHORTEST = 32
_LONGEST = 1024


def new_secret() -> str:
    """Return a secret that nobody can guess."""
    return secrets.token_urlsafe(32)


def write_secret(path: Path, secret: str) -> Path:
    """Write a secret to a new file that only its owner may read."""
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
        file.write(secret + "\n")
    return path


def read_secret(path: Path, where: str) -> str:
    """Return the secret in a file. where: names the file in errors.

    Raises ConfigError if the file cannot be read, is open to every user of the machine, or holds no secret.
    """
    try:
        if path.stat().st_mode & (stat.S_IROTH | stat.S_IWOTH):
            raise ConfigError(f"{where}: every user of this machine can read it; run `chmod o= {path}`")
        with path.open("rb") as file:
            content = file.read(_LONGEST + 1)
    except OSError as error:
        raise ConfigError(f"{where}: cannot be read: {error.strerror}") from error
    secret = content.strip().decode("ascii", errors="replace")
    if not _SHORTEST <= len(secret) <= _LONGEST or not secret.isascii() or not secret.isprintable() or " " in secret:
        raise ConfigError(f"{where}: must be one line of {_SHORTEST} to {_LONGEST} ASCII characters, without spaces")
    return secret


def proof(secret: str, port: int | None) -> str:
    """Return what shows a SuperLink that the sender of a request has the secret.

    port: where the SuperLink listens on this machine; None if its certificate is checked, wherever it is.
    """
    claim = _BY_CERTIFICATE if port is None else f"{port} {time.monotonic():.3f}"
    return f"{claim} {_signature(secret, claim)}"


def proves(given: str, secret: str, port: int | None, started_s: float) -> bool:
    """Return whether `given` shows a SuperLink that the sender has the secret.

    port: where the SuperLink listens, if it knows. started_s: by the machine's monotonic clock, when it started.
    """
    claim, _, signature = given.rpartition(" ")
    if not hmac.compare_digest(signature.encode(), _signature(secret, claim).encode()):
        return False
    if claim == _BY_CERTIFICATE:
        return True
    its_port, _, sent_s = claim.partition(" ")
    return its_port == str(port) and max(started_s, time.monotonic() - _VALID_S) <= float(sent_s)


def _signature(secret: str, claim: str) -> str:
    return hmac.new(secret.encode(), f"{HEADER} {claim}".encode(), hashlib.sha256).hexdigest()
