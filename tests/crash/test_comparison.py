"""A killed comparison resumes with the run in progress."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from fedtempo.record import load_run
from tests.crash import lives


def compared(folder: Path) -> dict[str, Any]:
    """Return a comparison's results without wall time."""
    result: dict[str, Any] = json.loads((folder / "comparison.json").read_text())

    def without_wall_time(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: without_wall_time(item) for name, item in value.items() if name != "wall_s"}
        return [without_wall_time(item) for item in value] if isinstance(value, list) else value

    return dict(without_wall_time(result))


@pytest.mark.long
def test_a_killed_comparison_resumes_with_the_run_in_progress(tmp_path: Path) -> None:
    config, output = tmp_path / "compare.toml", tmp_path / "output"
    tables = {**lives.config("fedavg").tables, "compare": {"slow": {"strategy.name": "fedavg", "training.epochs": 20}}}
    tables["fleet"]["compute"]["ignore_work"] = (
        True  # "slow" takes longer to train in real time, but not on the run's clock
    )
    config.write_text(tomli_w.dumps(tables))
    arguments = ["compare", str(config), "--strategies", "fedcs,slow,csgd", "--seeds", "3,4", "--out"]
    whole = lives.live(lives.command, [*arguments, str(tmp_path / "whole")], output)

    folder = tmp_path / "run"
    life = lives.live(lives.command, [*arguments, str(folder)], tmp_path / "other")
    while not (folder / "slow-seed3" / "run.sqlite").exists():
        time.sleep(0.01)
        assert life.is_alive()
    time.sleep(0.2)
    life.kill()
    life.join()
    finished = (folder / "fedcs-seed3" / "summary.json").read_bytes()
    assert not (folder / "slow-seed3" / "summary.json").exists()

    life = lives.live(lives.command, ["resume", str(folder), "--set", "run.checkpoint_every=1.0"], tmp_path / "other")
    life.join()
    assert life.exitcode == 0, (tmp_path / "other").read_text()
    whole.join()
    assert whole.exitcode == 0, output.read_text()
    assert compared(folder) == compared(tmp_path / "whole")
    assert (folder / "fedcs-seed3" / "summary.json").read_bytes() == finished
    assert load_run(folder / "slow-seed3").facts["resumed"] == 1
    lives.assert_the_same(folder / "slow-seed3", tmp_path / "whole" / "slow-seed3")

    life = lives.live(lives.command, ["resume", str(folder)], tmp_path / "other")  # it is drawn again
    life.join()
    assert life.exitcode == 0
