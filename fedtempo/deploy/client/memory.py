"""What a client keeps for the runs that it takes part in: in memory, or in files that survive its process."""

from __future__ import annotations

import os
import re
from pathlib import Path

import numpy as np

from fedtempo.errors import FedtempoError
from fedtempo.record.strict_json import sync_folder
from fedtempo.runtime.executors import Vector

_RUN = re.compile(r"[0-9a-f]{32}")
_STATE = ".state"
_BASE = "base"


class NotKept(FedtempoError):
    """The client does not have what a call relies on."""


class Memory:
    """The memory of one client. folder: where to keep files (default: in memory only)."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._runs: dict[str, RunMemory] = {}

    def of(self, run: str) -> RunMemory:
        """Return what the client keeps for a run. Raises NotKept for a name that is not a run's."""
        if not _RUN.fullmatch(run):
            raise NotKept(f"run {run[:100]!r}: a run's name has 32 hexadecimal digits")
        if run not in self._runs:
            self._runs[run] = RunMemory(None if self._folder is None else self._folder / run)
        return self._runs[run]


class RunMemory:
    """What the client keeps for one run: what does not travel, and its state after its last two visits.

    Of two states, because a server that was restarted may ask for the last visit again.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._entries: dict[str, bytes] = {}

    def base(self) -> Vector | None:
        """Return the first values of what does not travel, if the server has sent them."""
        data = self._read(_BASE)
        return None if data is None else np.frombuffer(data, dtype="<f4")

    def keep_base(self, base: Vector) -> None:
        """Write these values to a file if there is a folder; otherwise the model alone has them."""
        if self._folder is not None:
            self._write(_BASE, np.ascontiguousarray(base, dtype="<f4").tobytes())

    def before(self, visit: int) -> bytes | None:
        """Return the state before this visit; None before the first. Raises NotKept if it is gone."""
        numbers = self._numbers()
        earlier = [number for number in numbers if number < visit]
        if numbers and not earlier:
            raise NotKept(f"its state before visit {visit} is gone: it has made visit {max(numbers)} since")
        return (self._read(f"{max(earlier)}{_STATE}") or None) if earlier else None

    def keep(self, visit: int, state: bytes | None) -> None:
        """Keep the state after this visit; later ones are forgotten, and all earlier ones but the last."""
        earlier = [number for number in self._numbers() if number < visit]
        if not earlier:
            self._write(f"0{_STATE}", b"")
        self._write(f"{visit}{_STATE}", state or b"")
        for number in self._numbers():
            if number not in (visit, max(earlier, default=0)):
                self._delete(f"{number}{_STATE}")

    def _numbers(self) -> list[int]:
        names = self._entries if self._folder is None else self._files()
        return [int(name.removesuffix(_STATE)) for name in names if re.fullmatch(r"\d+\.state", name)]

    def _files(self) -> list[str]:
        assert self._folder is not None
        return os.listdir(self._folder) if self._folder.is_dir() else []

    def _read(self, name: str) -> bytes | None:
        if self._folder is None:
            return self._entries.get(name)
        try:
            return (self._folder / name).read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise NotKept(f"{self._folder / name} could not be read: {error.strerror}") from error

    def _write(self, name: str, data: bytes) -> None:
        """Write an entry so that it survives a crash of the machine, complete or not at all."""
        if self._folder is None:
            self._entries[name] = data
            return
        path = self._folder / name
        new = path.with_suffix(".new")
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            with new.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(new, path)
            sync_folder(self._folder)
        except OSError as error:
            raise NotKept(f"{path} could not be written: {error.strerror}; set state_folder") from error

    def _delete(self, name: str) -> None:
        if self._folder is None:
            self._entries.pop(name, None)
        else:
            (self._folder / name).unlink(missing_ok=True)
