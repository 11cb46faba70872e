"""All settings of local training together give the same bits in this process, in worker processes and on Ray."""

from __future__ import annotations

from typing import Any

import pytest

from fedtempo.runs.config import Config, parse
from fedtempo.runs.run import run
from tests.runtime.everything import DROPOUT, TOGETHER

WORKERS: list[dict[str, Any]] = [
    {"executor.kind": "processes", "executor.workers": 1},
    {"executor.kind": "processes", "executor.workers": 2},
    {"executor.kind": "processes", "executor.workers": 2, "executor.start_method": "spawn"},
]


def settings(strategy: str, left_out: str = "") -> Config:
    tables = {
        "run": {"seed": 1, "max_commits": 3, "horizon": 100.0, "evaluate": "commit", "evaluate_clients": 3},
        "data": {"source": "digits", "clients": 3, "examples_per_client": 20, "test_examples": 50},
        "model": DROPOUT,
        "training": {"lr": 0.1, "batch_size": 5},
        "fleet": {"compute": {"unit": "s/visit", "speed": [0.5, 1.0, 1.7]}, "link": "none", "estimates": "exact"},
        "strategy": {"name": strategy},
        "executor": {"kind": "inline"},
    }
    return parse(tables).with_changes({name: value for name, value in TOGETHER.items() if name != left_out})


def outcome(config: Config) -> list[Any]:
    summary = run(config)[0]
    return [summary[name] for name in ("model_sha256", "events_sha256", "final_accuracy", "final_loss", "bytes")]


@pytest.mark.parametrize("strategy", ["fedavg", "scaffold", "fedbuff", "csgd"])
def test_worker_processes_give_the_same_bits(strategy: str) -> None:
    config = settings(strategy)
    expected = outcome(config)
    for executor in WORKERS[: 3 if strategy == "scaffold" else 2]:
        assert outcome(config.with_changes(executor)) == expected


def test_each_setting_has_an_effect() -> None:
    models = {outcome(settings("fedavg"))[0]}
    for left_out in TOGETHER:
        models.add(outcome(settings("fedavg", left_out))[0])
    assert len(models) == 1 + len(TOGETHER)


@pytest.mark.ray
@pytest.mark.parametrize("strategy", ["fedavg", "scaffold"])
def test_ray_gives_the_same_bits(strategy: str) -> None:
    config = settings(strategy)
    assert outcome(config.with_changes({"executor.kind": "ray", "executor.workers": 2})) == outcome(config)
