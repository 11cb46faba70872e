"""What killed processes leave in shared memory and among temporary files, named so that the next run finds it."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import NamedTuple

SHARED_MEMORY = Path("/dev/shm")  # noqa: S108  where Linux keeps it; no file of this name is created
_PROC = Path("/proc")
_NAME = re.compile(r"fedtempo-(\d+)-([0-9a-f]+)-([0-9a-f]{8})-([0-9a-f]{8})-.+")


class Removed(NamedTuple):
    """How many files and folders were removed, and their size in bytes."""

    number: int
    size: int


def prefix() -> str:
    """Return the beginning of a name that says which process owns a file or folder: "fedtempo-...-".

    It names the process by number and start, the boot of the machine, and the space of process numbers (containers have
    their own).
    """
    started = _started(os.getpid())
    return (
        f"fedtempo-{os.getpid()}-" if started is None else f"fedtempo-{os.getpid()}-{started:x}-{_boot()}-{_space()}-"
    )


def remove_leftovers() -> Removed:
    """Remove what this user's killed processes left on this machine; return how much it was."""
    number = size = 0
    for folder in (SHARED_MEMORY, Path(tempfile.gettempdir())):
        with contextlib.suppress(OSError):
            for path in folder.iterdir():
                if (match := _NAME.fullmatch(path.name)) and _is_abandoned(path, match):
                    with contextlib.suppress(OSError):
                        size += _size(path)
                        shutil.rmtree(path) if path.is_dir() else path.unlink()
                        number += 1
    return Removed(number, size)


def own_temporary_folder() -> None:
    """Let multiprocessing keep its sockets in a folder named by its owner, where names may be that long."""
    import multiprocessing.process
    import multiprocessing.util

    config = getattr(multiprocessing.process.current_process(), "_config", None)
    if not isinstance(config, dict) or config.get("tempdir") is not None or _started(os.getpid()) is None:
        return
    if len(tempfile.gettempdir()) > 20:  # the path of a socket has at most 107 bytes
        return
    folder = tempfile.mkdtemp(prefix=prefix())
    config["tempdir"] = folder
    multiprocessing.util.Finalize(None, shutil.rmtree, args=(folder, True), exitpriority=-100)


def _is_abandoned(path: Path, match: re.Match[str]) -> bool:
    status = path.lstat()
    if path.is_symlink() or (hasattr(os, "getuid") and status.st_uid != os.getuid()):
        return False
    process, started, boot, space = match.groups()
    if boot != _boot():
        return True
    return space == _space() and _started(int(process)) != int(started, 16)


def _size(path: Path) -> int:
    files = path.rglob("*") if path.is_dir() else [path]
    return sum(file.lstat().st_size for file in files if file.is_file())


def _started(process: int) -> int | None:
    """Return when a process started, in the kernel's ticks; None if it has ended, or on a system without /proc."""
    try:
        fields = (_PROC / str(process) / "stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else int(fields[19])


@cache
def _boot() -> str:
    return _short((_PROC / "sys/kernel/random/boot_id").read_text())


@cache
def _space() -> str:
    return _short(os.readlink(_PROC / "self/ns/pid"))


def _short(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]
