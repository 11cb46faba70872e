"""What clients keep between visits, in files: the operating system's cache holds them in memory while there is room."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import weakref
from collections.abc import Callable
from pathlib import Path

from fedtempo.errors import RunError


class StateFile:
    """Location of what one client keeps. The file is deleted when this process's last reference is gone."""

    __slots__ = ("_owner", "path")

    def __init__(self, path: str) -> None:
        self.path, self._owner = path, os.getpid()

    def __del__(self) -> None:
        if os.getpid() == self._owner:  # a forked process has a copy that it does not own
            with contextlib.suppress(OSError):
                os.unlink(self.path)


class StateFiles:
    """The states of one executor, in a temporary folder that is made for the first state and deleted by `close`."""

    def __init__(self) -> None:
        self._folder: str | None = None
        self._number = 0
        self._close: Callable[[], object] = lambda: None

    def new(self) -> StateFile:
        """Return the location of a state that is still to be written."""
        if self._folder is None:
            self._folder = tempfile.mkdtemp(prefix="fedtempo-states-")
            self._close = weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        self._number += 1
        return StateFile(f"{self._folder}/{self._number}")

    def add(self, data: bytes) -> StateFile:
        """Write a state and return its location."""
        state = self.new()
        write_state(state.path, data)
        return state

    def close(self) -> None:
        self._close()


def read_state(path: str) -> bytes:
    """Return the state in a file. Raises RunError."""
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise RunError(f"{path}: a client's state could not be read: {error.strerror}") from error


def write_state(path: str, data: bytes) -> None:
    """Write a state to a file. Raises RunError."""
    try:
        Path(path).write_bytes(data)
    except OSError as error:
        raise RunError(
            f"{path}: a client's state could not be written: {error.strerror}; set TMPDIR to a folder with more room"
        ) from error
