"""Processors and memory are counted as far as this process may use them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fedtempo.api import installation
from fedtempo.parts import machine
from fedtempo.parts.machine import Usable

GIB = 2**30


@pytest.fixture(autouse=True)
def large(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Fake a machine with 64 processors and 256 GiB without limits; return the root of its files."""
    monkeypatch.setattr(machine, "_ROOT", tmp_path)
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(64)), raising=False)
    monkeypatch.setattr(os, "sysconf", lambda name: {"SC_PHYS_PAGES": 2**26, "SC_PAGE_SIZE": 4096}[name])
    monkeypatch.delenv("SLURM_CPUS_PER_TASK", raising=False)
    return tmp_path


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")


def in_version_2(root: Path, group: str, mounted: str = "/") -> None:
    """Place this process into a group of cgroup version 2. mounted: the part of the hierarchy that is visible."""
    mount = f"34 25 0:29 {mounted} /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate"
    write(
        root, {"proc/self/cgroup": f"0::{group}", "proc/self/mountinfo": f"21 1 8:1 / / rw - ext4 /dev/sda rw\n{mount}"}
    )


def in_version_1(root: Path, group: str, mounted: str = "/") -> None:
    """Place this process into a group of cgroup version 1, whose hierarchies of processors and memory are separate."""
    mounts = [
        f"33 31 0:30 {mounted} /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct",
        f"36 31 0:32 {mounted} /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory",
        "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw",
    ]
    memberships = [f"4:memory:{group}", f"2:cpu,cpuacct:{group}", "1:name=systemd:/user.slice", "0::/user.slice"]
    write(root, {"proc/self/cgroup": "\n".join(memberships), "proc/self/mountinfo": "\n".join(mounts)})


def test_without_limits_the_whole_machine_counts() -> None:
    assert machine.processors() == Usable(64, 64)
    assert machine.memory() == Usable(256 * GIB, 256 * GIB)


def test_cpu_affinity_limits_the_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {3, 5, 8}, raising=False)
    assert machine.processors() == Usable(3, 64, ("affinity",))


def test_a_system_without_affinity_uses_its_processor_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sched_getaffinity")
    assert machine.usable_cpus() == 64
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert machine.usable_cpus() == 1


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("2", 2),
        (" 8 ", 8),
        ("64", 64),
        ("100", 64),
        ("0", 64),
        ("-2", 64),
        ("2.5", 64),
        ("2(x3)", 64),
        ("", 64),
        ("²", 64),
    ],
)
def test_a_whole_number_of_processors_from_slurm_counts(monkeypatch: pytest.MonkeyPatch, text: str, count: int) -> None:
    monkeypatch.setenv("SLURM_CPUS_PER_TASK", text)
    assert machine.usable_cpus() == count
    assert machine.processors().limits == (("SLURM_CPUS_PER_TASK",) if count < 64 else ())


@pytest.mark.parametrize(
    ("quota", "count"),
    [("200000 100000", 2), ("250000 100000", 2), ("50000 100000", 1), ("max 100000", 64), ("", 64), ("20 0", 64)],
)
def test_a_quota_of_cgroup_version_2_is_rounded_down_to_at_least_one(large: Path, quota: str, count: int) -> None:
    in_version_2(large, "/app.slice")
    write(large, {"sys/fs/cgroup/app.slice/cpu.max": quota})
    assert machine.processors() == Usable(count, 64, ("cgroup quota",) if count < 64 else ())


def test_the_tightest_limit_of_a_group_and_its_parents_applies(large: Path) -> None:
    in_version_2(large, "/outer/middle/inner")
    write(
        large,
        {
            "sys/fs/cgroup/outer/cpu.max": "300000 100000",
            "sys/fs/cgroup/outer/middle/cpu.max": "max 100000",
            "sys/fs/cgroup/outer/middle/inner/cpu.max": "1600000 100000",
            "sys/fs/cgroup/other/cpu.max": "100000 100000",
            "sys/fs/cgroup/outer/memory.max": "max",
            "sys/fs/cgroup/outer/middle/memory.max": str(8 * GIB),
            "sys/fs/cgroup/outer/middle/inner/memory.max": str(12 * GIB),
        },
    )
    assert machine.processors() == Usable(3, 64, ("cgroup quota",))
    assert machine.memory() == Usable(8 * GIB, 256 * GIB, ("cgroup limit",))


def test_a_container_sees_its_group_as_the_root(large: Path) -> None:
    in_version_2(large, "/")
    write(large, {"sys/fs/cgroup/cpu.max": "400000 100000", "sys/fs/cgroup/memory.max": str(2 * GIB)})
    assert machine.usable_cpus() == 4
    assert machine.memory() == Usable(2 * GIB, 256 * GIB, ("cgroup limit",))


@pytest.mark.parametrize("mounted", ["/docker/4f", "/../../docker/4f"])
def test_a_container_of_cgroup_version_1_reads_limits_under_its_host_path(large: Path, mounted: str) -> None:
    in_version_1(large, "/docker/4f", mounted)
    write(
        large,
        {
            "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "150000",
            "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "50000",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": str(3 * GIB),
        },
    )
    assert machine.processors() == Usable(3, 64, ("cgroup quota",))
    assert machine.memory() == Usable(3 * GIB, 256 * GIB, ("cgroup limit",))


def test_nested_groups_of_cgroup_version_1_apply(large: Path) -> None:
    in_version_1(large, "/batch/job_7")
    write(
        large,
        {
            "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "-1",
            "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000",
            "sys/fs/cgroup/cpu,cpuacct/batch/cpu.cfs_quota_us": "600000",
            "sys/fs/cgroup/cpu,cpuacct/batch/cpu.cfs_period_us": "100000",
            "sys/fs/cgroup/cpu,cpuacct/batch/job_7/cpu.cfs_quota_us": "-1",
            "sys/fs/cgroup/cpu,cpuacct/batch/job_7/cpu.cfs_period_us": "100000",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712",
            "sys/fs/cgroup/memory/batch/job_7/memory.limit_in_bytes": str(16 * GIB),
        },
    )
    assert machine.usable_cpus() == 6
    assert machine.memory() == Usable(16 * GIB, 256 * GIB, ("cgroup limit",))


def test_a_period_without_a_quota_sets_no_limit(large: Path) -> None:
    in_version_1(large, "/")
    write(large, {"sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000"})
    assert machine.processors() == Usable(64, 64)


@pytest.mark.parametrize("text", ["", "nonsense", "a:b", "0::/../..", "::::"])
def test_unreadable_limits_are_ignored(large: Path, text: str) -> None:
    in_version_2(large, "/app")
    write(large, {"proc/self/cgroup": text, "sys/fs/cgroup/app/cpu.max": "100000 100000"})
    assert machine.processors() == Usable(64, 64)


def test_doctor_names_the_limit_that_applies(monkeypatch: pytest.MonkeyPatch, large: Path) -> None:
    limits = {limit.name: limit for limit in installation._machine()}
    assert limits["processors"].found == "64 for this process"
    assert limits["memory"].found == "256.0 GiB for this process"
    in_version_2(large, "/")
    write(large, {"sys/fs/cgroup/cpu.max": "400000 100000", "sys/fs/cgroup/memory.max": str(GIB)})
    monkeypatch.setenv("SLURM_CPUS_PER_TASK", "2")
    limits = {limit.name: limit for limit in installation._machine()}
    assert limits["processors"].found == "2 for this process (of 64: SLURM_CPUS_PER_TASK)"
    assert limits["memory"].found == "1.0 GiB for this process (of 256.0 GiB: cgroup limit)"
    assert limits["memory"].state == "warning"
    monkeypatch.setenv("SLURM_CPUS_PER_TASK", "4")
    limits = {limit.name: limit for limit in installation._machine()}
    assert limits["processors"].found == "4 for this process (of 64: cgroup quota, SLURM_CPUS_PER_TASK)"
