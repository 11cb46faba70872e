"""What programs that serve for long say, on stderr: lines for people, or JSON objects for a collector of logs."""

from __future__ import annotations

import json
import logging
import math
import time
from collections.abc import Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from fedtempo.parts.foreign_text import one_line

if TYPE_CHECKING:
    from fedtempo.record.recorder import VisitRow


class Format(StrEnum):
    """Lines for people, or for a collector of logs."""

    text = "text"
    json = "json"


_OWN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
"""Attributes that every record has; what else one has was given as `extra`."""


class JsonLines(logging.Formatter):
    """A record as one JSON object: time (UTC), level, logger, message, what was given as `extra`, an exception."""

    converter = staticmethod(time.gmtime)

    def format(self, record: logging.LogRecord) -> str:
        told = {
            "time": f"{self.formatTime(record, '%Y-%m-%dT%H:%M:%S')}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **{name: value for name, value in vars(record).items() if name not in _OWN},
        }
        if record.exc_info:
            told["exception"] = self.formatException(record.exc_info)
        return json.dumps({name: _plain(value) for name, value in told.items()}, default=str, allow_nan=False)


def _plain(value: Any) -> Any:
    """None for a number that is not finite: JSON has none."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


class PlainLines(logging.Formatter):
    """A record as one line, and the lines of an exception indented, so that text of others cannot pass for a record."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:
        return one_line(super().formatMessage(record))

    def formatException(self, info: Any) -> str:
        return "\n".join(f"  {one_line(line)}" for line in super().formatException(info).split("\n"))


class RunLog:
    """A line of the log for each visit, commit and evaluation (a `record.recorder.Observer`)."""

    _log = logging.getLogger("fedtempo.run")

    def __init__(self) -> None:
        from fedtempo.record.metric import CLASSES

        self._measure = CLASSES

    def visit(self, row: VisitRow) -> None:
        fields = {
            "visit": row.number,
            "client": row.client,
            "outcome": row.outcome,
            "started_s": row.started,
            "ended_s": row.finished,
        }
        self._log.info("visit %d of client %d: %s", row.number, row.client, row.outcome, extra=fields)

    def commit(self, version: int, time: float, staleness: int) -> None:
        self._log.info("version %d", version, extra={"version": version, "run_s": time, "staleness": staleness})

    def evaluation(self, time: float, version: int, accuracy: float, loss: float, mae: float | None) -> None:
        measure = self._measure
        told = {"version": version, "run_s": time, measure.key: accuracy, "loss": loss, **measure.beside(loss, mae)}
        if math.isfinite(loss):
            self._log.info("version %d: %s %.3f", version, measure.name, accuracy, extra=told)
        else:
            self._log.info("version %d: the loss is not finite", version, extra=told)

    def measured(self, time: float, version: int, values: Mapping[str, float]) -> None:
        shown = ", ".join(f"{name} {value:.3f}" for name, value in values.items())
        if shown:
            self._log.info("version %d: %s", version, shown, extra={"version": version, "run_s": time, **values})

    def traffic(self, down: int, up: int, relay: int) -> None:
        """Said of each visit already."""

    def fact(self, name: str, value: Any) -> None:
        from fedtempo.record.metric import measure_of

        if name == "data":
            self._measure = measure_of(value)


def configure(form: Format) -> None:
    """Log to stderr from now on."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines() if form is Format.json else PlainLines())
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    for chatty in ("httpx", "httpcore", "flwr"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
