"""A killed sweep goes on where it was, with the same command, to the same bits."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import tomli_w

from tests.crash import lives
from tests.crash.test_comparison import compared


@pytest.mark.long
def test_a_killed_sweep_goes_on_with_the_same_command(tmp_path: Path) -> None:
    config = tmp_path / "sweep.toml"
    config.write_text(tomli_w.dumps(lives.config("fedavg", {"training.epochs": 20}).tables))
    arguments = ["sweep", str(config), "--grid", "training.lr=0.1,0.2", "--seeds", "3,4", "--jobs", "2", "--out"]
    whole = lives.live(lives.command, [*arguments, str(tmp_path / "whole")], tmp_path / "output")

    folder = tmp_path / "run"
    life = lives.live(lives.command, [*arguments, str(folder)], tmp_path / "other")
    while not list(folder.glob("*/journal.jsonl")):
        time.sleep(0.01)
        assert life.is_alive(), (tmp_path / "other").read_text()
    time.sleep(0.2)
    life.kill()
    life.join()
    assert len(list(folder.glob("*/summary.json"))) < 4

    life = lives.live(lives.command, [*arguments, str(folder)], tmp_path / "other")
    life.join()
    assert life.exitcode == 0, (tmp_path / "other").read_text()
    whole.join()
    assert whole.exitcode == 0, (tmp_path / "output").read_text()
    assert compared(folder) == compared(tmp_path / "whole")
    for run in folder.glob("*-seed*"):
        lives.assert_the_same(run, tmp_path / "whole" / run.name)
