"""What killed processes leave behind is found by its name, and removed by the next run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from fedtempo import resume
from fedtempo.parts import leftovers
from fedtempo.parts.text_files import parse_toml
from fedtempo.runs.config import parse
from fedtempo.runs.run import Run

ROOT = Path(__file__).parents[2]
LINUX = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc")

CONFIG = """
[run]
horizon = 20000.0
[data]
source = "digits"
clients = 4
[executor]
kind = "processes"
workers = 2
[strategy]
name = "fedavg"
clients_per_round = 4
[fleet]
compute = { unit = "s/visit", speed = 2.0 }
link = "none"
estimates = "exact"
"""


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """Folders in place of those of shared memory and of temporary files."""
    memory, temporary = tmp_path / "shm", tmp_path / "tmp"
    memory.mkdir()
    temporary.mkdir()
    monkeypatch.setattr(leftovers, "SHARED_MEMORY", memory)
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    return memory, temporary


def prefix_of(code: str) -> tuple[str, subprocess.Popen[str]]:
    """Return the prefix of a process that then runs some code."""
    program = f"import sys, time; from fedtempo.parts.leftovers import prefix; print(prefix(), flush=True); {code}"
    process = subprocess.Popen([sys.executable, "-c", program], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process.stdout.readline().strip(), process


def prefix_of_the_dead() -> str:
    """Return the prefix of a process that was killed."""
    dead, killed = prefix_of("time.sleep(1000)")
    killed.kill()
    killed.communicate()
    return dead


@LINUX
def test_only_what_a_dead_process_left_is_removed(folders: tuple[Path, Path]) -> None:
    memory, temporary = folders
    dead = prefix_of_the_dead()
    living, process = prefix_of("sys.stdin.read()")
    number, started, boot, space = dead.split("-")[1:5]
    kept = [
        memory / f"{living}data",
        memory / f"{leftovers.prefix()}data",
        memory / f"fedtempo-{number}-{started}-{boot}-{'0' * 8}-data",  # of a container that may still run
        memory / "fedtempo-1-2-data",
        temporary / f"other-{dead}x",
    ]
    removed = [
        memory / f"{dead}data",
        memory / f"fedtempo-{os.getpid()}-1-{boot}-{space}-reused",  # the number of a living process, but not its start
        temporary / f"fedtempo-{os.getpid()}-{started}-{'0' * 8}-{space}-boot",
    ]
    for path in [*kept, *removed]:
        path.write_bytes(b"1234")
    (temporary / f"{dead}folder").mkdir()
    (temporary / f"{dead}folder" / "superlink.log").write_bytes(b"12345")
    (temporary / f"{dead}link").symlink_to(temporary)
    assert leftovers.remove_leftovers() == (4, 17)
    assert all(path.exists() for path in kept)
    assert not any(path.exists() for path in removed)
    assert (temporary / f"{dead}link").is_symlink()
    assert leftovers.remove_leftovers() == (0, 0)
    process.kill()
    process.communicate()


@pytest.fixture
def left(folders: tuple[Path, Path]) -> list[Path]:
    """What a killed process left in both folders."""
    dead = prefix_of_the_dead()
    paths = [folder / f"{dead}data" for folder in folders]
    for path in paths:
        path.write_bytes(b"1234")
    return paths


@LINUX
def test_the_next_run_in_shared_memory_and_every_resumption_remove_it(left: list[Path], tmp_path: Path) -> None:
    config = parse(parse_toml(CONFIG.replace("20000.0", "2.0")))
    Run(config.with_changes({"executor.kind": "inline"})).complete(tmp_path / "inline")
    assert all(path.exists() for path in left)
    resume(tmp_path / "inline", sets=["run.horizon=4.0"])
    assert not any(path.exists() for path in left)

    for path in left:
        path.write_bytes(b"1234")
    Run(config).complete(tmp_path / "processes")
    assert not any(path.exists() for path in left)


@LINUX
def test_a_process_may_have_a_name_that_is_no_text(folders: tuple[Path, Path]) -> None:
    own, process = prefix_of(
        "open('/proc/self/comm', 'wb').write(b'\\xff) \\xfe'); print(flush=True); sys.stdin.read()"
    )
    assert process.stdout is not None
    process.stdout.readline()
    kept = folders[0] / f"{own}data"
    kept.write_bytes(b"1234")
    assert leftovers.remove_leftovers() == (0, 0)
    assert kept.exists()
    process.kill()
    process.communicate()


def command(folder: Path, *arguments: str, files: int | None = None) -> subprocess.Popen[str]:
    import resource

    (folder / "run.toml").write_text(CONFIG)
    return subprocess.Popen(
        [sys.executable, "-m", "fedtempo", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=None if files is None else (lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))),
    )


def of_process(number: int) -> set[Path]:
    everything = [*leftovers.SHARED_MEMORY.iterdir(), *Path(tempfile.gettempdir()).iterdir()]
    return {path for path in everything if path.name.startswith(f"fedtempo-{number}-")}


@LINUX
@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_the_next_command_removes_what_a_killed_process_group_left(tmp_path: Path, method: str) -> None:
    life = command(tmp_path, "run", "run.toml", "--out", "run", "--set", f"executor.start_method={method}")
    while not (tmp_path / "run" / "now.json").exists():
        assert life.poll() is None, life.communicate()[1]
        time.sleep(0.05)
    os.killpg(life.pid, signal.SIGKILL)
    life.communicate()
    left = {path.parent for path in of_process(life.pid)}
    assert left == {leftovers.SHARED_MEMORY} | ({Path(tempfile.gettempdir())} if method == "forkserver" else set())
    doctor = command(tmp_path, "doctor")
    doctor.communicate(timeout=100)
    assert doctor.returncode == 0
    assert not of_process(life.pid)


@LINUX
@pytest.mark.parametrize("files", [24, 40, 64])
def test_too_few_open_files_are_one_line(tmp_path: Path, files: int) -> None:
    life = command(tmp_path, "run", "run.toml", "--out", "run", "--set", "executor.workers=40", files=files)
    said = life.communicate(timeout=200)[1]
    assert life.returncode == 3, said
    assert "Traceback" not in said
    assert f"too many open files (ulimit -n {files}): allow more" in " ".join(said.split())
