"""Ctrl-C and SIGTERM for strategies that do not await, and twice."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

CONFIG = """
[run]
horizon = 1e9
[data]
source = "digits"
clients = 4
[model]
network = "mlp"
[executor]
kind = "none"
[strategy]
name = "strategies:{name}"
[fleet]
compute = {{ unit = "s/visit", speed = 2.0 }}
link = "none"
estimates = "exact"
"""

STRATEGIES = """
import time
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Endless:
    async def run(self, fed):
        Path("begun").touch()
        while True:
            time.sleep(0.01)


@dataclass(frozen=True)
class Steady:
    async def run(self, fed):
        while True:
            Path("begun").touch()
            fed.commit(await fed.average(await fed.train_all(fed.clients, fed.model)))
"""


def started(
    folder: Path, name: str, *, ignoring: bool = False, more: str = "", waits: bool = True
) -> subprocess.Popen[str]:
    (folder / "strategies.py").write_text(STRATEGIES + more)
    (folder / "run.toml").write_text(CONFIG.format(name=name))
    life = subprocess.Popen(
        [sys.executable, "-m", "fedtempo", "run", "run.toml", "--out", "run"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=(lambda: signal.signal(signal.SIGINT, signal.SIG_IGN)) if ignoring else None,
    )
    while waits and not (folder / "begun").exists():
        assert life.poll() is None, life.communicate()[1]
        time.sleep(0.02)
    return life


@pytest.mark.parametrize(("number", "name", "code"), [(signal.SIGTERM, "SIGTERM", 143), (signal.SIGINT, "Ctrl-C", 130)])
def test_code_that_does_not_await_is_named_and_ended_by_the_second_signal(
    tmp_path: Path, number: int, name: str, code: int
) -> None:
    life = started(tmp_path, "Endless")
    assert life.stderr is not None
    life.send_signal(number)
    said = ""
    while "takes effect" not in said:
        said += life.stderr.readline()
    assert f"{name} takes effect when this code awaits (strategies.py:12 in run)" in said
    assert f"a second {name} ends it there" in said
    life.send_signal(number)
    more = life.communicate(timeout=100)[1]
    assert life.returncode == code
    assert "Traceback" not in more


@pytest.mark.parametrize("pause_s", [0.0, 0.01, 0.1])
def test_a_signal_that_comes_twice_shows_no_traceback(tmp_path: Path, pause_s: float) -> None:
    life = started(tmp_path, "Steady")
    for _ in range(3):
        life.send_signal(signal.SIGINT)
        time.sleep(pause_s)
    said = life.communicate(timeout=100)[1]
    assert life.returncode == 130
    assert "Traceback" not in said


def test_a_signal_that_meets_a_finaliser_still_ends_the_run(tmp_path: Path) -> None:
    meeting = """
import signal, time

class Met:
    def __del__(self):
        signal.raise_signal(signal.SIGTERM)

Met()
time.sleep(60)
"""
    life = started(tmp_path, "Steady", more=meeting, waits=False)
    said = life.communicate(timeout=50)[1]
    assert life.returncode == 143, said
    assert "Traceback" not in said
    assert "Exception ignored" not in said


def test_sigterm_interrupts_a_run_in_the_background_of_a_script(tmp_path: Path) -> None:
    life = started(tmp_path, "Steady", ignoring=True)
    life.send_signal(signal.SIGINT)
    time.sleep(0.2)
    assert life.poll() is None
    life.send_signal(signal.SIGTERM)
    said = life.communicate(timeout=100)[1]
    assert life.returncode == 143
    assert "Traceback" not in said
