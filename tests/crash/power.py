"""A disk that loses everything not yet synced, as may happen in a power failure."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any


class Disk:
    """A record of what this process has synced: the bytes of files, and the names in folders.

    SQLite's syncs are not recorded, so nothing of its files is kept.
    """

    def __init__(self) -> None:
        self._bytes: dict[int, bytes] = {}
        self._names: dict[Path, dict[str, int]] = {}
        self._fsync, self._unlink, self._replace = os.fsync, os.unlink, os.replace
        os.fsync, os.unlink, os.replace = self.fsync, self.unlink, self.replace

    def fsync(self, descriptor: int) -> None:
        descriptor_path, status = Path(f"/proc/self/fd/{descriptor}"), os.fstat(descriptor)
        if stat.S_ISDIR(status.st_mode):
            folder = Path(os.readlink(descriptor_path))
            self._names[folder] = {entry.name: entry.inode() for entry in os.scandir(folder)}
        else:
            self._bytes[status.st_ino] = descriptor_path.read_bytes()

    def unlink(self, path: Any, **options: Any) -> None:
        self._forget(path)
        self._unlink(path, **options)

    def replace(self, source: Any, target: Any) -> None:
        self._forget(target)
        self._replace(source, target)

    def _forget(self, path: Any) -> None:
        """Drop the recorded bytes of a file, because its inode number may be reused."""
        if os.path.lexists(path):
            self._bytes.pop(os.lstat(path).st_ino, None)

    def loses_power(self, folder: Path, after: Path) -> None:
        """Write to `after` what `folder` holds after a power failure: synced names, with unsynced files empty."""
        after.mkdir()
        for name, number in self._names.get(folder, {}).items():
            path = folder / name
            if path.is_dir():
                self.loses_power(path, after / name)
            elif not name.startswith("run.sqlite"):
                (after / name).write_bytes(self._bytes.get(number, b""))
