"""What programs hold, read from /proc (Linux): memory, handles, threads; and the sizes of files and folders."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

SHARED_MEMORY = Path("/dev/shm")  # noqa: S108  where Linux keeps it; nothing is created there


@dataclass(frozen=True)
class Sample:
    """What a process held at one time.

    time_s: seconds from the begin. life: how often its program was restarted before. own_kb: memory of its own
    (RssAnon); files_kb: pages of files in memory, which processes share. files, sockets, others: open handles.
    log_bytes: size of its log.
    """

    time_s: float
    program: str
    life: int
    own_kb: int
    files_kb: int
    files: int
    sockets: int
    others: int
    threads: int
    log_bytes: int


def sample(time_s: float, program: str, life: int, process: int, log: Path) -> Sample | None:
    """Return what a process holds now; None if it has ended."""
    folder = Path("/proc") / str(process)
    try:
        status = dict(line.split(":\t", 1) for line in (folder / "status").read_text().splitlines() if ":\t" in line)
        own, of_files, threads = (int(status[name].split()[0]) for name in ("RssAnon", "RssFile", "Threads"))
        targets = [_target(handle) for handle in (folder / "fd").iterdir()]
    except (OSError, KeyError):
        return None
    sockets = sum(target.startswith("socket:") for target in targets)
    files = sum(target.startswith("/") for target in targets)
    others = len(targets) - sockets - files
    return Sample(time_s, program, life, own, of_files, files, sockets, others, threads, size_of(log))


def proportional_kb(processes: Iterable[int]) -> int:
    """Return the memory of processes, kB; pages that several share count once."""
    total = 0
    for process in processes:
        try:
            lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        total += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return total


def shared_memory_of(processes: Iterable[int]) -> list[str]:
    """Return the names in shared memory that name one of these processes."""
    numbers = {str(process) for process in processes}
    try:
        names = os.listdir(SHARED_MEMORY)
    except OSError:
        return []
    return sorted(name for name in names if numbers & set(name.replace("_", "-").split("-")))


def entries_of(folder: Path) -> list[str]:
    """Return the names of all files and folders below a folder."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*")) if folder.exists() else []


def size_of(path: Path) -> int:
    """Return the size of a file, or of all files below a folder, bytes; 0 if there is none."""
    if path.is_dir():
        return sum(size_of(inner) for inner in path.iterdir())
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _target(handle: Path) -> str:
    try:
        return os.readlink(handle)
    except OSError:
        return "ended"
