"""Logs points to a run of MLflow, as its own settings say (MLFLOW_TRACKING_URI, MLFLOW_EXPERIMENT_NAME)."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from fedtempo.report.trackers.points import About, Point, flat, numbers

_LONGEST_VALUE = 500
_METRICS_AT_ONCE = 1_000
"""Limits that MLflow sets."""


class OnMlflow:
    """Logs to MLflow: the step is the number of visits, the time is the run's beginning plus the run's clock.

    The experiment is "fedtempo" unless MLflow's settings name one. MLflow's own telemetry is off unless the environment
    says otherwise.
    """

    def __init__(self) -> None:
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
        from mlflow import MlflowClient
        from mlflow.entities import Metric

        self._make, self._metric = MlflowClient, Metric
        self._client: Any = None
        self._run, self._began_s = "", 0.0
        self._last = Point(0.0, 0, {})

    def begin(self, about: About) -> None:
        self._client, self._began_s = self._make(), about.began_s
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME", "fedtempo")
        existing = self._client.get_experiment_by_name(name)
        experiment = self._client.create_experiment(name) if existing is None else existing.experiment_id
        run = self._client.create_run(
            experiment, run_name=about.name, start_time=_ms(about.began_s), tags={"fedtempo.folder": str(about.folder)}
        )
        self._run = run.info.run_id
        for key, value in flat(about.tables).items():
            self._client.log_param(self._run, key, str(value)[:_LONGEST_VALUE])

    def log(self, points: Sequence[Point]) -> None:
        self._log(points)
        if points:
            self._last = points[-1]

    def end(self, summary: Mapping[str, Any], artefacts: Sequence[Path]) -> None:
        values = {f"summary/{name}": value for name, value in numbers(summary).items()}
        self._log([replace(self._last, values=values)])
        for path in artefacts:
            self._client.log_artifact(self._run, str(path))
        status = {"": "FAILED", "interrupted": "KILLED"}.get(summary.get("ended", ""), "FINISHED")
        self._client.set_terminated(self._run, status, end_time=_ms(self._began_s + self._last.time_s))

    def _log(self, points: Sequence[Point]) -> None:
        metrics = [
            self._metric(name, float(value), _ms(self._began_s + point.time_s), point.visits)
            for point in points
            for name, value in point.values.items()
        ]
        for begin in range(0, len(metrics), _METRICS_AT_ONCE):
            self._client.log_batch(self._run, metrics=metrics[begin : begin + _METRICS_AT_ONCE])


def _ms(seconds: float) -> int:
    return round(1000 * seconds)
