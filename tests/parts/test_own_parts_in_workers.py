"""A user's parts of every kind give the same bits on every executor."""

from __future__ import annotations

from pathlib import Path

import pytest

from fedtempo.runs.config import Config, load
from fedtempo.runs.run import run
from tests.parts.test_own_parts import OWN, configured, folder

__all__ = ["folder"]


@pytest.fixture
def users_config(folder: Path) -> Config:
    return load(configured(folder, OWN))


def hashes(config: Config, **executor: object) -> tuple[str, str, float]:
    changed = config.with_changes({f"executor.{name}": value for name, value in executor.items()})
    summary, _, _ = run(changed)
    return summary["model_sha256"], summary["events_sha256"], summary["final_loss"]


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_worker_processes_give_the_same_bits(method: str, users_config: Config) -> None:
    assert hashes(users_config, kind="processes", workers=2, start_method=method) == hashes(users_config, kind="inline")


@pytest.mark.ray
def test_ray_actors_give_the_same_bits(users_config: Config) -> None:
    pytest.importorskip("ray")
    assert hashes(users_config, kind="ray", workers=2) == hashes(users_config, kind="inline")
