"""Witnesses run again with the settings that they had."""

from __future__ import annotations

import json
import math
from pathlib import Path

from fedtempo.runs.config import parse
from fedtempo.studies.papers.witnesses import changed_witnesses, read_witnesses, write_witnesses
from fedtempo.studies.tuning.trials import NotedRun, bits_of, run_all

UNIFORM_DEAL = {"kind": "classes", "mean": 4.0, "std": math.inf}
TABLES = {
    "run": {"horizon": 2.0},
    "data": {"source": "digits", "clients": 5, "examples_per_client": 10, "partition": UNIFORM_DEAL},
    "model": {"network": "logistic"},
    "training": {"lr": 0.1},
    "fleet": {"compute": {"unit": "s/visit", "speed": 1.0}, "link": "none", "estimates": "exact"},
    "strategy": {"name": "fedavg", "clients_per_round": 2},
}


def test_a_setting_without_bound_stays_one(tmp_path: Path) -> None:
    config = parse(TABLES, label="fedavg")
    (run,) = run_all([config], workers=1)
    write_witnesses(tmp_path, [NotedRun("fedavg", config, bits_of(run.summary))])
    assert "inf" in json.loads((tmp_path / "witnesses.json").read_text())[0]["configuration"]
    assert changed_witnesses(read_witnesses(tmp_path)) == []
