"""A network's random draws in training depend only on the visit, not on the process or on earlier training."""

from __future__ import annotations

from typing import Any

from fedtempo.runs.config import parse
from fedtempo.runs.run import run


def test_dropout_gives_the_same_bits_on_every_executor() -> None:
    tables: dict[str, Any] = {
        "run": {"horizon": 4.0},
        "data": {"clients": 4, "examples_per_client": 20, "test_examples": 50},
        "model": {"network": "cnn", "channels": [4], "pool_after": [1], "hidden": [8], "dropout": 0.5},
        "training": {"lr": 0.1},
        "fleet": {"compute": {"unit": "s/visit", "speed": [0.4, 0.7, 1.0, 1.3]}, "link": "none", "estimates": "exact"},
        "strategy": {"name": "fedavg", "clients_per_round": 2},
    }
    executors = [{"kind": "inline"}, {"kind": "processes", "workers": 1}, {"kind": "processes", "workers": 2}]
    hashes = {run(parse({**tables, "executor": executor}))[0]["model_sha256"] for executor in executors}
    assert len(hashes) == 1
    without = parse({**tables, "model": {**tables["model"], "dropout": 0.0}, "executor": executors[0]})
    assert run(without)[0]["model_sha256"] not in hashes
