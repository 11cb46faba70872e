"""What can be said of a run without training: its schedule on the virtual clock, in seconds of real time."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from fedtempo.config import Config
from fedtempo.launch import Watch, run
from fedtempo.record import Records
from fedtempo.world import World, build_world


@dataclass(frozen=True, eq=False)
class Prediction:
    """A run without training. config: as it was run; summary: see `fedtempo.record.summarise`."""

    config: Config
    world: World
    summary: dict[str, Any]
    records: Records


def schedule_only(config: Config) -> Config:
    """The same run without training, to its horizon; what a strategy would learn of models it takes from labels."""
    changes: dict[str, Any] = {
        "executor.kind": "none",
        "data.tell_labels": True,
        "run.stop_at_target": False,
        "run.record": "all",
    }
    if any(field.name == "clusters" for field in dataclasses.fields(config.strategy)):  # type: ignore[arg-type]
        changes["strategy.clusters"] = "labels"
    return config.with_changes(changes, label=config.label)


def predict(config: Config, watch: Watch | None = None) -> Prediction:
    """Run the schedule of a configuration.

    Raises ConfigError or RunError where it has none, KeyboardInterrupt for Ctrl-C.
    """
    planned = schedule_only(config)
    world = build_world(planned)
    summary, records, _ = run(planned, world=world, watch=watch)
    if summary["ended"] == "interrupted":
        raise KeyboardInterrupt
    return Prediction(planned, world, summary, records)
