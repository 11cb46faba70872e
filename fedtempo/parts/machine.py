"""Processors and memory that this process may use, which can be less than the machine has.

Affinity (`taskset`, cpusets, most batch systems), the quota of a control group (containers, systemd) and what Slurm
allotted to a task all count; if several apply, the tightest counts.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import NamedTuple

_ROOT = Path("/")
"""Folder below which Linux shows control groups: proc/self/cgroup, proc/self/mountinfo and the mounted hierarchies."""

_UNLIMITED_BYTES = 2**60
"""Limits of at least this mean "no limit", which version 1 writes as a number near 2**63."""


@dataclass(frozen=True)
class Usable:
    """An amount that this process may use.

    installed: the machine's amount. limits: names of the limits that reduce it to `amount`; empty if none do.
    """

    amount: int
    installed: int
    limits: tuple[str, ...] = ()


class _Mount(NamedTuple):
    """A mounted hierarchy of control groups. root: the mounted part of the hierarchy. controllers: of version 1."""

    root: str
    point: str
    version: int
    controllers: frozenset[str]


def usable_cpus() -> int:
    """Return the number of processors that this process may keep busy, at least 1; see `processors`."""
    return processors().amount


def processors() -> Usable:
    """Return the number of processors that this process may keep busy, at least 1.

    A quota of 2.5 processors counts as 2: each worker keeps one busy, and a group that has used up its quota is halted
    as a whole, including the main process, which uses the remaining half. SLURM_CPUS_PER_TASK is ignored unless it is a
    positive whole number.
    """
    limits: dict[str, int] = {}
    if hasattr(os, "sched_getaffinity"):
        limits["affinity"] = len(os.sched_getaffinity(0))
    if quotas := list(_cpu_quotas()):
        limits["cgroup quota"] = max(1, math.floor(min(quotas)))
    allotted = os.environ.get("SLURM_CPUS_PER_TASK", "").strip()
    if allotted.isascii() and allotted.isdigit() and int(allotted) > 0:
        limits["SLURM_CPUS_PER_TASK"] = int(allotted)
    return _tightest(os.cpu_count() or 1, limits)


def memory() -> Usable | None:
    """Return the bytes of memory that this process may use, or None if the system does not report its memory."""
    if not hasattr(os, "sysconf") or "SC_PHYS_PAGES" not in os.sysconf_names:
        return None
    groups, unmapped = list(_memory_limits()), unmapped_bytes()
    limits = {"cgroup limit": min(groups)} if groups else {}
    installed = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return _tightest(installed, limits if unmapped is None else {**limits, "ulimit -v": unmapped})


def unmapped_bytes() -> int | None:
    """Return how much more address space this process may map (`ulimit -v`), bytes; None if there is no limit."""
    try:
        import resource

        allowed = resource.getrlimit(resource.RLIMIT_AS)[0]
        if allowed == resource.RLIM_INFINITY:
            return None
        mapped = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    except (ImportError, OSError, ValueError):  # not on Linux
        return None
    return max(0, allowed - mapped)


def _tightest(installed: int, limits: Mapping[str, int]) -> Usable:
    amount = min([installed, *limits.values()])
    deciding = tuple(name for name, limit in limits.items() if limit == amount < installed)
    return Usable(amount, installed, deciding)


def _cpu_quotas() -> Iterator[float]:
    """Yield the CPU quotas of this process's groups and their parents, in processors."""
    for folder in _groups("cpu"):
        version_1 = *_numbers(folder / "cpu.cfs_quota_us"), *_numbers(folder / "cpu.cfs_period_us")
        for limit in (_numbers(folder / "cpu.max"), version_1):
            if len(limit) == 2 and min(limit) > 0:  # version 1 writes no quota as -1
                yield limit[0] / limit[1]


def _memory_limits() -> Iterator[int]:
    """Yield the memory limits of this process's groups and their parents, in bytes."""
    for folder in _groups("memory"):
        for name in ("memory.max", "memory.limit_in_bytes"):
            for limit in _numbers(folder / name):
                if 0 < limit < _UNLIMITED_BYTES:
                    yield limit


def _numbers(path: Path) -> tuple[int, ...]:
    """Return the whole numbers in a group's file; none if it does not exist or holds anything else ("max")."""
    try:
        return tuple(map(int, path.read_text().split()))
    except (OSError, ValueError):
        return ()


def _groups(controller: str) -> Iterator[Path]:
    """Yield the folders of this process's control groups and their parents for a controller, of both versions."""
    memberships = [line.split(":", 2) for line in _lines("proc/self/cgroup")]
    for mount in _mounts():
        if mount.version == 1 and controller not in mount.controllers:
            continue
        for membership in memberships:
            if len(membership) != 3:
                continue
            _, named, group = membership
            if (controller in named.split(",")) if mount.version == 1 else not named:
                folder = _ROOT / mount.point.lstrip("/")
                yield folder
                for name in _below(mount.root, group):
                    folder /= name
                    yield folder


def _below(mount_root: str, group: str) -> tuple[str, ...]:
    """Return the names of the folders from a mount down to a group.

    A container may see its group as the mount's root, although the group is named relative to the host's root.
    """
    path = PurePosixPath(group)
    if ".." in path.parts or not path.is_relative_to(mount_root):
        return ()
    return path.relative_to(mount_root).parts


def _mounts() -> Iterator[_Mount]:
    """Yield the mounted hierarchies of control groups."""
    for line in _lines("proc/self/mountinfo"):
        location, _, system = line.partition(" - ")
        fields, kind = location.split(), system.split()
        if len(fields) >= 5 and len(kind) >= 3 and kind[0] in ("cgroup", "cgroup2"):
            yield _Mount(fields[3], fields[4], 1 if kind[0] == "cgroup" else 2, frozenset(kind[2].split(",")))


def _lines(name: str) -> list[str]:
    try:
        return (_ROOT / name).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:  # not on Linux, or not readable
        return []
