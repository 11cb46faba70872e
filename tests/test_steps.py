"""`tools/steps.sh`, with which make's targets report their outcome."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "tools" / "steps.sh"

SHELL = shutil.which("sh") or ""

pytestmark = pytest.mark.skipif(not SHELL, reason="needs a POSIX shell")


def run_steps(*steps: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([SHELL, str(SCRIPT), "make it", *steps], capture_output=True, text=True, check=False)


def test_every_step_is_announced_and_the_last_line_reports_success() -> None:
    done = run_steps("first things", "echo one", "the rest", "echo 'two words'; echo warning >&2")
    assert done.returncode == 0
    *lines, last = done.stdout.splitlines()
    assert lines == ["== make it, step 1 of 2: first things", "one", "== make it, step 2 of 2: the rest", "two words"]
    assert re.fullmatch(r"make it: all went well, \d+ s \(2 of 2 steps\)", last)
    assert done.stderr == "warning\n"


def test_a_failing_step_ends_the_rest_and_is_named_in_the_last_line(tmp_path: Path) -> None:
    done = run_steps("good", "true", "bad", "echo out; exit 7", "never", f"touch {tmp_path}/made")
    assert done.returncode == 7
    last = done.stdout.splitlines()[-1]
    assert re.fullmatch(r"make it: FAILED after \d+ s, at step 2 of 3: bad \(exit code 7\)", last)
    assert not (tmp_path / "made").exists()


def test_a_missing_command_is_a_failure() -> None:
    done = run_steps("gone", "/no/such/program")
    assert done.returncode == 127
    assert "at step 1 of 1: gone (exit code 127)" in done.stdout


def test_an_interrupted_step_is_named() -> None:
    done = run_steps("long", "kill -s INT $PPID; sleep 0.2")
    assert done.returncode == 130
    assert "make it: interrupted after" in done.stdout.splitlines()[-1]
    assert "at step 1 of 1: long" in done.stdout
