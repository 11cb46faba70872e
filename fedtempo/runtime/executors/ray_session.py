"""A connection to a Ray cluster that keeps quiet and leaves nothing behind."""

from __future__ import annotations

import contextlib
import importlib
import logging
import math
import os
import secrets
import shutil
import signal
import socket
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from typing import Any

from fedtempo.errors import ConfigError
from fedtempo.parts.machine import usable_cpus

_ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_DEDUP_LOGS_SKIP_REGEX": ".",  # of what the nodes say, nothing is printed
    "RAY_IGNORE_UNHANDLED_ERRORS": "1",  # each is handled, or nobody wanted the result any more
    "RAY_BACKEND_LOG_LEVEL": "fatal",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}
"""How Ray is asked to be quiet, where the user's environment says nothing else. Most is read when Ray is imported."""


_ANSWER_S = 10.0
"""How long a cluster may take to accept a connection."""


class Session:
    """A connection to the cluster at `address`, or to a cluster of this process's own where there is no address.

    A connection that this process has already is used and left as it is. local_cpus: what a cluster of one's own is
    taken to have (default: the processors that this process may use). Raises ConfigError where Ray or the
    cluster is not there.
    """

    def __init__(self, address: str | None, local_cpus: float | None = None) -> None:
        self.ray = imported()
        self._folder: str | None = None
        self._connected = not self.ray.is_initialized()
        if not self._connected:
            return
        settings: dict[str, Any] = {"address": address}
        if address is None:
            os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))  # nobody else can use it
            self._folder = tempfile.mkdtemp(prefix="fedtempo-ray-", dir=_short_folder())
            settings = {
                "address": "local",
                "num_cpus": usable_cpus() if local_cpus is None else math.ceil(local_cpus),
                "include_dashboard": False,
                "_temp_dir": self._folder,
            }
        try:
            _must_answer(address)
            with _signals_as_they_are(), _silence():
                self.ray.init(**settings, log_to_driver=False, logging_level=logging.CRITICAL)
        except BaseException as error:
            self.close()
            if not isinstance(error, Exception):
                raise
            where = "no local cluster could be started" if address is None else f"no cluster at {address!r}"
            reason = str(error).strip().splitlines()[0]
            raise ConfigError(f"executor.address: {where}: {type(error).__name__}: {reason}") from error

    def room_for(self, needs: Mapping[str, float]) -> int:
        """How many actors the cluster's nodes can hold in all. needs: of one, by the names that Ray gives resources."""
        wanted = {name: amount for name, amount in needs.items() if amount}
        if not wanted:
            return usable_cpus()
        nodes = [node["Resources"] for node in self.ray.nodes() if node["Alive"]]
        return sum(
            min(math.floor(node.get(name, 0.0) / amount + 1e-9) for name, amount in wanted.items()) for node in nodes
        )

    def has_node(self, name: str) -> bool:
        """Whether a node is not known to be lost."""
        return any(node["Alive"] and node["NodeID"] == name for node in self.ray.nodes())

    def close(self) -> None:
        """Disconnect; a cluster of one's own is shut down and its files are removed."""
        if self._connected and self.ray.is_initialized():
            with _signals_as_they_are():
                self.ray.shutdown()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)


def imported() -> Any:
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    try:
        return importlib.import_module("ray")
    except ImportError as error:
        raise ConfigError("executor.kind = 'ray': needs Ray: pip install 'fedtempo[ray]'") from error


def _short_folder() -> str | None:
    """Where Ray's files go. Sockets' names must be short, and the folder that Python would take may have a long one."""
    asked = os.environ.get("RAY_TMPDIR", "/tmp")  # noqa: S108  the folder that is made in it is this user's alone
    return asked if os.path.isdir(asked) else None


def _must_answer(address: str | None) -> None:
    """Raises OSError where nobody listens at host:port. Ray itself tries for minutes, and then ends the process."""
    host, colon, port = (address or "").removeprefix("ray://").rpartition(":")
    if colon and port.isdecimal():
        socket.create_connection((host.strip("[]"), int(port)), timeout=_ANSWER_S).close()


@contextlib.contextmanager
def _signals_as_they_are() -> Iterator[None]:
    """Ray takes SIGTERM for itself; the run has a handler of its own."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handler = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, handler)


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """Ray's native code says on standard error that it was asked to be quiet."""
    sys.stderr.flush()
    before, nothing = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 2)
    os.close(nothing)
    try:
        yield
    finally:
        os.dup2(before, 2)
        os.close(before)
