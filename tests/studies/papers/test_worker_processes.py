"""Worker processes of studies end with what asked for them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fedtempo.studies.tuning.trials import in_processes, shared_workers

PROGRAM = """
from pathlib import Path
from tests.studies.papers.test_worker_processes import busy
from fedtempo.studies.tuning.trials import in_processes

if __name__ == "__main__":
    in_processes(busy, [{folder!r}] * 2)
"""


def busy(folder: str) -> None:
    """Tell who works, and work for a long time."""
    (Path(folder) / str(os.getpid())).touch()
    time.sleep(600)


def broken(number: int) -> int:
    raise ValueError(f"number {number}")


def own(number: int) -> int:
    return os.getpid()


def lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks for processes below /proc")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_worker_processes_end_with_their_parent(tmp_path: Path, number: int) -> None:
    pids = tmp_path / "pids"
    pids.mkdir()
    (tmp_path / "program.py").write_text(PROGRAM.format(folder=str(pids)))
    paths = {**os.environ, "PYTHONPATH": os.pathsep.join([os.getcwd(), os.environ.get("PYTHONPATH", "")])}
    with subprocess.Popen([sys.executable, tmp_path / "program.py"], env=paths, stderr=subprocess.DEVNULL) as process:
        deadline = time.monotonic() + 300  # three processes import PyTorch
        while len(list(pids.iterdir())) < 2:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        process.send_signal(number)
        process.wait(60)
    workers = [int(path.name) for path in pids.iterdir()]
    deadline = time.monotonic() + 60
    while any(map(lives, workers)):
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_an_error_in_a_worker_is_raised_and_the_pool_stays_usable() -> None:
    with pytest.raises(ValueError, match="number 1"):
        in_processes(broken, [1, 2])
    with shared_workers():
        assert os.getpid() not in in_processes(own, [1, 2, 3])
