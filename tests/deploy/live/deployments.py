"""Small deployments on a grid in this process or a real one: a configuration, and functions as strategies."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any

from fedtempo.federation import Federation
from fedtempo.runs.config import Config, parse

TABLES: dict[str, Any] = {
    "run": {"seed": 1, "max_commits": 3, "evaluate": "commit"},
    "data": {"source": "digits", "clients": 3, "examples_per_client": 20},
    "model": {"network": "mlp", "hidden": [8]},
    "training": {"lr": 0.1, "batch_size": 5},
    "fleet": {
        "compute": {"unit": "s/visit", "speed": 1.0},
        "link": "none",
        "estimates": {"kind": "observed", "prior_s": 0.01},
    },
    "strategy": {"name": "fedavg"},
    "executor": {"kind": "inline"},
    "deploy": {"wait_s": 60.0, "deadline_factor": 1.0, "deadline_floor_s": 120.0, "patience_s": 0.2, "refresh_s": 0.05},
}
REAL = {"deploy.wait_s": 240.0, "deploy.deadline_floor_s": 120.0, "deploy.patience_s": 5.0, "deploy.refresh_s": 5.0}
"""What differs where messages and processes take their time."""


@dataclass(frozen=True)
class Script:
    function: Callable[[Federation], Awaitable[None]]

    async def run(self, fed: Federation) -> None:
        await self.function(fed)


def config(script: Callable[[Federation], Awaitable[None]] | None = None, **changes: Any) -> Config:
    """Return the small configuration. changes: section__key = value. script: the strategy, if not configured."""
    parsed = parse(TABLES).with_changes({name.replace("__", "."): value for name, value in changes.items()})
    return parsed if script is None else replace(parsed, strategy=Script(script))


def real(script: Callable[[Federation], Awaitable[None]] | None = None, **changes: Any) -> Config:
    """Return the same configuration for real processes."""
    return config(script, **{name.replace(".", "__"): value for name, value in REAL.items()} | changes)
