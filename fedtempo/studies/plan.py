"""Predict a run's schedule on the virtual clock without training, in seconds of real time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fedtempo.record import Records
from fedtempo.runs.config import Config
from fedtempo.runs.foresight import schedule_only
from fedtempo.runs.launch import Watch
from fedtempo.runs.run import run
from fedtempo.runs.world import World, build_world


@dataclass(frozen=True, eq=False)
class Prediction:
    """A schedule without training. config: as it was run; summary: see `fedtempo.record.summarise`."""

    config: Config
    world: World
    summary: dict[str, Any]
    records: Records


def predict(config: Config, watch: Watch | None = None, *, quiet: bool = False) -> Prediction:
    """Run the schedule of a configuration. quiet: see `Run`.

    Raises ConfigError or RunError if it has none, KeyboardInterrupt for Ctrl-C.
    """
    planned = schedule_only(config)
    world = build_world(planned)
    summary, records, _ = run(planned, world=world, watch=watch, quiet=quiet)
    if summary["ended"] == "interrupted":
        raise KeyboardInterrupt
    return Prediction(planned, world, summary, records)
