"""Reads a run's records piece by piece while another process may write them."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from fedtempo.parts.text_files import parse_json
from fedtempo.record.checks import check_facts, check_further, check_tables
from fedtempo.record.run import Table, as_columns, column_names, opened_records, short_rows
from fedtempo.record.schema import FURTHER_TABLES

ROWS_AT_ONCE = 50_000
_MOST_MISSING = 100_000
_NAMES_AT_ONCE = 500
_FACTS = (
    "strategy",
    "label",
    "seed",
    "n_clients",
    "horizon_s",
    "target_accuracy",
    "target",
    "metrics",
    "client_measures",
    "elapsed_s",
    "ended",
    "end_reason",
    "health",
    "data",
    "bytes",
    "record",
    "totals",
    "deployment",
    "resumed",
    "client_names",
)


@dataclass(frozen=True, eq=False)
class Piece:
    """What is new in a run's records, and all facts that the page shows.

    again: whether the run was restarted, which voids all that was read before. metrics: further measures of
    evaluations, those with one value. more: whether records are left that did not fit into this piece.
    """

    again: bool
    facts: Mapping[str, Any]
    visits: Table
    commits: Table
    evaluations: Table
    metrics: Table
    notes: tuple[tuple[str, str], ...]
    more: bool


class Reader:
    """Reads one run folder. Each piece is read in a short transaction, which never blocks a writer."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._begin()

    def _begin(self) -> None:
        self._resumed: Any = None
        self._visits = _Numbers()
        self._after = {"commits": 0, "evaluations": 0, "metrics": 0, "notes": 0}

    def read(self) -> Piece:
        """Return the next piece. Raises ConfigError if this is no run, or holds what no run could have recorded."""
        with opened_records(self._folder) as connection:
            connection.execute("BEGIN")
            facts = _facts(connection)
            check_facts(facts)
            again = self._resumed is not None and facts.get("resumed") != self._resumed
            if again:
                self._begin()
            self._resumed = facts.get("resumed")
            with short_rows(connection):
                visits = self._visits.read(connection)
                commits, evaluations = (self._new(connection, table) for table in ("commits", "evaluations"))
            tables = {
                "visits": as_columns("visits", visits),
                "commits": as_columns("commits", commits),
                "evaluations": as_columns("evaluations", evaluations),
            }
            check_tables(tables, facts.get("n_clients"))
            exists = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'metrics'").fetchone()
            with short_rows(connection):
                measured = self._new(connection, "metrics", 'AND "class" IS NULL') if exists else []
            metrics = as_columns("metrics", measured)
            check_further({name: as_columns(name, ()) for name in FURTHER_TABLES} | {"metrics": metrics}, None)
            notes = self._notes(connection)
        more = max(len(visits), len(commits), len(evaluations), len(measured)) >= ROWS_AT_ONCE
        return Piece(again, facts, tables["visits"], tables["commits"], tables["evaluations"], metrics, notes, more)

    def _new(self, connection: sqlite3.Connection, table: str, also: str = "") -> list[tuple[Any, ...]]:
        columns = column_names(connection, table)
        query = f"SELECT rowid, {columns} FROM {table} WHERE rowid > ? {also} ORDER BY rowid LIMIT ?"  # noqa: S608
        rows = connection.execute(query, [self._after[table], ROWS_AT_ONCE]).fetchall()
        if rows:
            self._after[table] = rows[-1][0]
        return [row[1:] for row in rows]

    def _notes(self, connection: sqlite3.Connection) -> tuple[tuple[str, str], ...]:
        query = "SELECT rowid, name, substr(value, 1, 200) FROM notes WHERE rowid > ? ORDER BY rowid LIMIT ?"
        rows = connection.execute(query, [self._after["notes"], _NAMES_AT_ONCE]).fetchall()
        if rows:
            self._after["notes"] = rows[-1][0]
        return tuple((str(name), str(value)) for _, name, value in rows)


class _Numbers:
    """Reads each visit once. Visits are numbered by start but written as they end, so some numbers appear late.

    Missing numbers are looked up again, the latest hundred thousand of them.
    """

    def __init__(self) -> None:
        self._last = 0
        self._missing: dict[int, None] = {}

    def read(self, connection: sqlite3.Connection) -> list[tuple[Any, ...]]:
        """Return new rows: late ones first, then by number."""
        columns = column_names(connection, "visits")
        late: list[tuple[Any, ...]] = []
        waiting = iter(tuple(self._missing))
        while names := tuple(islice(waiting, _NAMES_AT_ONCE)):
            marks = ",".join("?" * len(names))
            query = f"SELECT {columns} FROM visits WHERE number IN ({marks}) ORDER BY number"  # noqa: S608
            late += connection.execute(query, names)
        for row in late:
            del self._missing[row[0]]
        query = f"SELECT {columns} FROM visits WHERE number > ? ORDER BY number LIMIT ?"  # noqa: S608
        tail = connection.execute(query, [self._last, ROWS_AT_ONCE]).fetchall()
        self._note_gaps([row[0] for row in tail])
        return late + tail

    def _note_gaps(self, numbers: Sequence[int]) -> None:
        for number in numbers:
            gap = range(max(self._last + 1, number - _MOST_MISSING), number)
            self._missing |= dict.fromkeys(gap)
            self._last = number
        for number in tuple(islice(self._missing, max(0, len(self._missing) - _MOST_MISSING))):
            del self._missing[number]


def _facts(connection: sqlite3.Connection) -> dict[str, Any]:
    marks = ",".join("?" * len(_FACTS))
    rows = connection.execute(f"SELECT name, value FROM facts WHERE name IN ({marks})", _FACTS)  # noqa: S608
    return {name: parse_json(value) for name, value in rows}
