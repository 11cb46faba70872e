"""What clients keep between visits: in memory up to a bound, beyond it in files."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import weakref
from collections.abc import Callable
from pathlib import Path

from fedtempo.errors import RunError
from fedtempo.parts import leftovers

IN_MEMORY = 256 * 2**20
"""Largest number of bytes of states in memory; further ones go to files."""

SMALL = 16 * 2**10
"""Largest state that is sent through a pipe. Two of these fit into its buffer, so that sending never waits."""


class State:
    """Location of what one client keeps. It is freed when this process's last reference is gone."""

    __slots__ = ("_owner", "_states", "data", "path")

    def __init__(self, states: States, path: str) -> None:
        self._states, self.path, self._owner = states, path, os.getpid()
        self.data: bytes | None = None

    def read(self) -> bytes:
        """Return the state. Raises RunError if its file cannot be read."""
        return read_state(self.path) if self.data is None else self.data

    def __del__(self) -> None:
        if self.data is not None:
            self._states.in_memory -= len(self.data)
        elif os.getpid() == self._owner:  # a forked process has a copy that it does not own
            with contextlib.suppress(OSError):
                os.unlink(self.path)


class States:
    """The states of one executor. Files are in a temporary folder, made for the first one and deleted by `close`."""

    def __init__(self) -> None:
        self._folder: str | None = None
        self._number = 0
        self._close: Callable[[], object] = lambda: None
        self.in_memory = 0

    def new(self) -> State:
        """Return the location of a state that is still to be filled, or written to its file by another process."""
        if self._folder is None:
            self._folder = tempfile.mkdtemp(prefix=leftovers.prefix())
            self._close = weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        self._number += 1
        return State(self, f"{self._folder}/{self._number}")

    def add(self, data: bytes) -> State:
        """Store a state and return its location."""
        state = self.new()
        self.fill(state, data)
        return state

    def fill(self, state: State, data: bytes) -> None:
        """Store the content of a new state."""
        if self.in_memory + len(data) > IN_MEMORY:
            write_state(state.path, data)
        elif state.data is None:
            state.data = data
            self.in_memory += len(data)

    def portable(self, state: State | None) -> bytes | str | None:
        """Return what `received` turns into the state in a process on this machine: itself if small, or its path."""
        if state is None:
            return None
        if state.data is None:
            return state.path
        if len(state.data) > SMALL:
            write_state(state.path, state.data)
            self.in_memory -= len(state.data)
            state.data = None
            return state.path
        return state.data

    def close(self) -> None:
        self._close()


def received(state: bytes | str | None) -> bytes | None:
    """Return the state that `States.portable` was given."""
    return read_state(state) if isinstance(state, str) else state


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
