"""A connection to a Ray cluster, without output and without remains."""

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
    "RAY_DEDUP_LOGS_SKIP_REGEX": ".",  # print nothing of the nodes' output
    "RAY_IGNORE_UNHANDLED_ERRORS": "1",  # errors are handled, or belong to abandoned results
    "RAY_BACKEND_LOG_LEVEL": "fatal",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}
"""Settings that make Ray quiet, unless the user's environment sets them. Most are read when Ray is imported."""

_ANSWER_S = 10.0
"""Seconds within which a cluster must accept a connection."""


class Session:
    """A connection to the cluster at `address`, or to a new local cluster if there is no address.

    An existing connection of this process is used and left open. local_cpus: number of CPUs of a local cluster
    (default: the CPUs that this process may use). Raises ConfigError if Ray is not installed or the cluster cannot be
    reached.
    """

    def __init__(self, address: str | None, local_cpus: float | None = None) -> None:
        self.ray = imported()
        self._folder: str | None = None
        self._connected = not self.ray.is_initialized()
        if not self._connected:
            return
        settings: dict[str, Any] = {"address": address}
        if address is None:
            os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))  # so that no other user can use it
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
        """Return how many actors fit on the cluster's nodes. needs: claims of one actor by Ray's resource names."""
        claims = {name: amount for name, amount in needs.items() if amount}
        if not claims:
            return usable_cpus()
        nodes = [node["Resources"] for node in self.ray.nodes() if node["Alive"]]
        return sum(
            min(math.floor(node.get(name, 0.0) / amount + 1e-9) for name, amount in claims.items()) for node in nodes
        )

    def has_node(self, name: str) -> bool:
        """Return whether a node is alive as far as is known."""
        return any(node["Alive"] and node["NodeID"] == name for node in self.ray.nodes())

    def close(self) -> None:
        """Disconnect; shut down a local cluster and remove its files."""
        if self._connected and self.ray.is_initialized():
            with _signals_as_they_are():
                self.ray.shutdown()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)


def imported() -> Any:
    """Import Ray. Raises ConfigError if it is not installed."""
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    try:
        return importlib.import_module("ray")
    except ImportError as error:
        raise ConfigError("executor.kind = 'ray': needs Ray: pip install 'fedtempo[ray]'") from error


def _short_folder() -> str | None:
    """Return a folder with a short path for Ray's files, since socket paths are limited; None for Python's default."""
    folder = os.environ.get("RAY_TMPDIR", "/tmp")  # noqa: S108  the folder made inside it is private to this user
    return folder if os.path.isdir(folder) else None


def _must_answer(address: str | None) -> None:
    """Raise OSError if nobody listens at host:port. Ray itself would try for minutes and then end the process."""
    host, colon, port = (address or "").removeprefix("ray://").rpartition(":")
    if colon and port.isdecimal():
        socket.create_connection((host.strip("[]"), int(port)), timeout=_ANSWER_S).close()


@contextlib.contextmanager
def _signals_as_they_are() -> Iterator[None]:
    """Restore the handler of SIGTERM, which Ray replaces, after the block."""
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
    """Discard standard error, on which Ray's native code reports its logging settings."""
    sys.stderr.flush()
    before, nothing = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 2)
    os.close(nothing)
    try:
        yield
    finally:
        os.dup2(before, 2)
        os.close(before)
