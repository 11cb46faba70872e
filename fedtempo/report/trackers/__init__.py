"""Trackers, which receive a run's numbers: TensorBoard, MLflow, Weights & Biases, or a user's class."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from fedtempo.errors import ConfigError, nearest
from fedtempo.parts.plugins import installed, outside
from fedtempo.report.trackers.on_mlflow import OnMlflow
from fedtempo.report.trackers.on_tensorboard import OnTensorBoard
from fedtempo.report.trackers.on_wandb import OnWandb
from fedtempo.report.trackers.points import Tracker

TRACKERS: Mapping[str, type] = MappingProxyType({"tensorboard": OnTensorBoard, "mlflow": OnMlflow, "wandb": OnWandb})


def make_trackers(names: Iterable[str]) -> dict[str, Tracker]:
    """Return a tracker for each name of `run.track`, by name.

    Raises ConfigError for a tracker that is unknown, not installed, or cannot be created.
    """
    trackers: dict[str, Tracker] = {}
    for name in names:
        cls = TRACKERS.get(name) or outside(name, "trackers", "run.track")
        if cls is None:
            known = [*TRACKERS, *installed("trackers")]
            raise ConfigError(f"run.track = {name!r}: no such tracker{nearest(name, known)}")
        try:
            trackers[name] = cls()
        except Exception as error:
            hint = ": pip install 'fedtempo[trackers]'" if isinstance(error, ImportError) else ""
            raise ConfigError(f"run.track = {name!r}: cannot be used here ({error}){hint}") from error
    return trackers


__all__ = ["TRACKERS", "Tracker", "make_trackers"]
