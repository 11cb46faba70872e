"""Ctrl-C and SIGTERM, as a terminal, a shell or a cluster sends them."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from fedtempo.record import load_run
from tests.crash import lives


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run undisturbed, in a folder beside the configuration."""
    folder = tmp_path_factory.mktemp("signals")
    config = lives.config("fedavg", {"run.checkpoint_every": 1e6, "training.epochs": 40})
    (folder / "run.toml").write_text(config.dump())
    lives.lived_to_its_end(config, folder / "whole")
    return folder / "whole"


def begun(undisturbed: Path, folder: Path, output: Path, workers: int = 0, **how: bool) -> lives.BaseProcess:
    """Start the same run; return it in progress."""
    sets = ["--set", "executor.kind=processes", "--set", f"executor.workers={workers}"] if workers else []
    arguments = ["run", str(undisturbed.parent / "run.toml"), "--out", str(folder), *sets]
    life = lives.live(lives.command, arguments, output, **how)
    while not (folder / "run.sqlite").exists():
        time.sleep(0.01)
        assert life.is_alive()
    time.sleep(0.4)
    return life


def resumed(folder: Path, output: Path) -> int | None:
    """Return the exit code of `fedtempo resume`."""
    life = lives.live(lives.command, ["resume", str(folder)], output)
    life.join()
    return life.exitcode


@pytest.mark.parametrize(
    ("number", "ctrl_c", "workers", "code"),
    [
        pytest.param(signal.SIGINT, True, 0, 130, marks=pytest.mark.crash),
        pytest.param(signal.SIGINT, True, 2, 130, marks=pytest.mark.crash),
        (signal.SIGTERM, True, 2, 143),
        pytest.param(signal.SIGTERM, False, 0, 143, marks=pytest.mark.crash),  # as in the background of a script
    ],
)
def test_a_signal_ends_the_run_immediately_and_nothing_is_lost(
    undisturbed: Path, tmp_path: Path, number: int, ctrl_c: bool, workers: int, code: int
) -> None:
    """Send a signal to the whole process group, including workers."""
    folder, output = tmp_path / "run", tmp_path / "output"
    life = begun(undisturbed, folder, output, workers, ctrl_c=ctrl_c)
    assert life.pid is not None
    os.killpg(life.pid, number)
    began = time.perf_counter()
    life.join()
    assert time.perf_counter() - began < 10.0  # two seconds on an idle machine
    assert life.exitcode == code
    assert f"fedtempo resume {folder} continues it" in " ".join(output.read_text().split()).replace("`", "")
    run = load_run(folder)
    assert run.summary is not None
    assert run.summary["ended"] == "interrupted"
    assert '"seal": "checkpoint"' in (folder / "journal.jsonl").read_text()
    assert resumed(folder, output) == 0
    lives.assert_the_same(folder, undisturbed)
    assert load_run(folder).facts["resumed"] == 1
    assert load_run(folder).facts["wall_s"] > run.facts["wall_s"]


def test_a_second_ctrl_c_ends_the_run_immediately_and_it_can_be_resumed(undisturbed: Path, tmp_path: Path) -> None:
    folder, output = tmp_path / "run", tmp_path / "output"
    life = begun(undisturbed, folder, output)
    assert life.pid is not None
    for _ in range(2):
        os.kill(life.pid, signal.SIGINT)
        time.sleep(0.002)
    began = time.perf_counter()
    life.join()
    assert time.perf_counter() - began < 10.0
    assert life.exitcode == 130
    assert resumed(folder, output) == 0
    lives.assert_the_same(folder, undisturbed)
