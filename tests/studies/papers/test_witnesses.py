"""Witnesses run again with the settings that they had."""

from __future__ import annotations

import json
import math
from pathlib import Path

from fedtempo.errors import ConfigError
from fedtempo.record.folder import processor
from fedtempo.runs.config import parse
from fedtempo.studies.papers.witnesses import (
    Witness,
    add_bits,
    changed,
    failed,
    known_here,
    read_witnesses,
    rerun,
    write_witnesses,
)
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
    witnesses = read_witnesses(tmp_path)
    assert changed(witnesses, rerun(witnesses)) == []


def test_bits_are_compared_with_those_of_this_processor_and_on_a_new_one_with_all() -> None:
    here = processor() or "unknown"
    known, new = Witness("a", "", {here: "1", "other": "2"}), Witness("b", "", {"one": "1", "other": "2"})
    assert changed([known, known], ["1", "2"]) == ["a"]
    assert changed([new, new, new], ["1", "2", "3"]) == ["b"]
    assert known_here([known])
    assert not known_here([known, new])


def test_bits_of_another_processor_stay(tmp_path: Path) -> None:
    here = processor() or "unknown"
    witnesses = [Witness("a", "", {"other": "2"}), Witness("b", "", {"other": "3"})]
    add_bits(tmp_path, witnesses, ["1", ConfigError("gone")])
    first, second = read_witnesses(tmp_path)
    assert first.bits == {"other": "2", here: "1"}
    assert second == witnesses[1]
    assert failed(witnesses, ["1", ConfigError("gone")]) == ["b: gone"]
