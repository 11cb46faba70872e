"""A deployment in the background of a script, where the shell makes programs ignore Ctrl-C."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("flwr")

pytestmark = pytest.mark.deploy

ROOT = Path(__file__).parents[2]


def test_sigterm_interrupts_a_deployment_whose_program_ignores_ctrl_c(tmp_path: Path) -> None:
    with (tmp_path / "log").open("wb") as log:
        life = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "fedtempo",
                "deploy",
                str(ROOT / "configs" / "fedhusky-local.toml"),
                "--local",
                "2",
                "--out",
                str(tmp_path / "run"),
            ],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=log,
            stderr=log,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
        )
        until = time.monotonic() + 200
        while not (tmp_path / "run" / "now.json").exists():
            assert life.poll() is None, (tmp_path / "log").read_text()
            assert time.monotonic() < until, (tmp_path / "log").read_text()
            time.sleep(0.1)
        life.send_signal(signal.SIGTERM)
        assert life.wait(100) == 143
    said = (tmp_path / "log").read_text()
    assert "fedtempo resume" in said
    assert "Traceback" not in said
