"""Logs points to Weights & Biases: offline files in the run's folder `wandb`, unless WANDB_MODE says otherwise."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fedtempo.report.trackers.points import About, Point, numbers


class OnWandb:
    """Logs to Weights & Biases: charts are over the run's clock, `time_s`, or over `visits`; WANDB_PROJECT applies."""

    def __init__(self) -> None:
        os.environ.setdefault("WANDB_ERROR_REPORTING", "false")
        import wandb

        self._wandb: Any = wandb
        self._run: Any = None

    def begin(self, about: About) -> None:
        quiet = self._wandb.Settings(console="off", silent=True, disable_git=True, x_disable_stats=True)
        self._run = self._wandb.init(
            project=os.environ.get("WANDB_PROJECT", "fedtempo"),
            name=about.name,
            dir=str(about.folder),
            config=dict(about.tables),
            mode=os.environ.get("WANDB_MODE", "offline"),
            settings=quiet,
        )
        self._run.define_metric("time_s")
        self._run.define_metric("visits")
        self._run.define_metric("*", step_metric="time_s")

    def log(self, points: Sequence[Point]) -> None:
        for point in points:
            self._run.log({**point.values, "time_s": point.time_s, "visits": point.visits})

    def end(self, summary: Mapping[str, Any], artefacts: Sequence[Path]) -> None:
        self._run.summary.update({f"summary/{name}": value for name, value in numbers(summary).items()})
        for path in artefacts:
            shutil.copy(path, self._run.dir)  # the folder of the run's files
        self._run.finish(exit_code=0 if summary else 1)
