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

# Tables that a run has only if it has rows for them. `metrics`: a row per evaluation and measure of `run.metrics`, or
# of the clients' own test sets; `class` is NULL for measures with one value. `confusion`: a row per evaluation and pair
# of classes that occurs. `client_evaluations`: a row per client and evaluation on its own test set, by `model`:
# "clients", the global one, or "own", the client's own.
FURTHER_TABLES: Mapping[str, str] = MappingProxyType(
    {
        "metrics": 'metrics(time REAL, version INTEGER, name TEXT, "class" INTEGER, value REAL)',
        "confusion": 'confusion(time REAL, version INTEGER, "class" INTEGER, predicted INTEGER, examples INTEGER)',
        "client_evaluations": "client_evaluations(time REAL, version INTEGER, model TEXT, client INTEGER, "
        "examples INTEGER, accuracy REAL, loss REAL, mae REAL)",
    }
)

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
        "metrics": {"time": "f8", "version": "i8", "name": "O", "class": "i8", "value": "f8"},
        "confusion": {"time": "f8", "version": "i8", "class": "i8", "predicted": "i8", "examples": "i8"},
        "client_evaluations": {
            "time": "f8",
            "version": "i8",
            "model": "U7",
            "client": "i8",
            "examples": "i8",
            "accuracy": "f8",
            "loss": "f8",
            "mae": "f8",
        },
    }
)
