"""The tables of `run.sqlite`. Times are seconds of the run's clock."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

DATABASE = "run.sqlite"
LARGEST_TIME_S = 1e30

# One row per visit that has ended, with any outcome. For a visit that was not "done", `finished` is when its client
# became free, and phases that it did not reach are NULL. `loss` is NULL in a run without training. `accuracy` is the
# metric of `record.metric`; `mae`, the mean absolute error, is NULL unless the task is to predict numbers.
TABLES = """
CREATE TABLE IF NOT EXISTS visits(
    number INTEGER PRIMARY KEY, client INTEGER, "group" INTEGER, base_version INTEGER,
    queued REAL, started REAL, received REAL, computed REAL, finished REAL,
    outcome TEXT, examples INTEGER, loss REAL);
CREATE TABLE IF NOT EXISTS commits(version INTEGER PRIMARY KEY, time REAL, staleness INTEGER);
CREATE TABLE IF NOT EXISTS evaluations(time REAL, version INTEGER, accuracy REAL, loss REAL, mae REAL);
CREATE TABLE IF NOT EXISTS notes(name TEXT, value TEXT);
CREATE TABLE IF NOT EXISTS facts(name TEXT PRIMARY KEY, value TEXT);
"""

# "cut": the run ended first. "unavailable": the client left or failed. "cancelled": the strategy cancelled the visit.
# "late": the server cancelled it at its deadline. "refused": the server rejected its update.
OUTCOMES: Mapping[str, int] = MappingProxyType(
    {"done": 0, "cut": 1, "unavailable": 2, "cancelled": 3, "late": 4, "refused": 5}
)

# NumPy's type of each column. NULL reads as NaN in a float column and as -1 in an integer one.
COLUMNS: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "visits": {
            "number": "i8",
            "client": "i8",
            "group": "i8",
            "base_version": "i8",
            "queued": "f8",
            "started": "f8",
            "received": "f8",
            "computed": "f8",
            "finished": "f8",
            "outcome": "U11",
            "examples": "i8",
            "loss": "f8",
        },
        "commits": {"version": "i8", "time": "f8", "staleness": "i8"},
        "evaluations": {"time": "f8", "version": "i8", "accuracy": "f8", "loss": "f8", "mae": "f8"},
    }
)
