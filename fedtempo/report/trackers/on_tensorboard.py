"""Writes points to TensorBoard event files, in the folder `tensorboard` of the run."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tomli_w

from fedtempo.report.trackers.points import About, Point, numbers


class OnTensorBoard:
    """Logs to TensorBoard: the step is the number of visits, and the "relative" axis is the run's clock."""

    def __init__(self) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._make = SummaryWriter
        self._writer: Any = None
        self._began_s = 0.0
        self._last = Point(0.0, 0, {})

    def begin(self, about: About) -> None:
        folder = about.folder / "tensorboard"
        shutil.rmtree(folder, ignore_errors=True)  # a resumed run logs from the beginning again
        self._writer, self._began_s = self._make(str(folder)), about.began_s
        self._writer.add_text("configuration", _code(tomli_w.dumps(dict(about.tables))), 0, about.began_s)

    def log(self, points: Sequence[Point]) -> None:
        for point in points:
            self._last = point
            for name, value in point.values.items():
                self._writer.add_scalar(name, value, point.visits, self._began_s + point.time_s)

    def end(self, summary: Mapping[str, Any], artefacts: Sequence[Path]) -> None:
        visits, at_s = self._last.visits, self._began_s + self._last.time_s
        for name, value in numbers(summary).items():
            self._writer.add_scalar(f"summary/{name}", value, visits, at_s)
        if artefacts:
            self._writer.add_text("files", _code("\n".join(map(str, artefacts))), visits, at_s)
        self._writer.close()


def _code(text: str) -> str:
    """Return text as a Markdown code block."""
    return "".join(f"    {line}\n" for line in text.splitlines())
