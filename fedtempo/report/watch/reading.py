"""A run's records read piece by piece, while another process may write them: only what came since the last piece."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from fedtempo.record.checks import check_facts, check_tables
from fedtempo.record.run import Table, as_columns, column_names, opened_records

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
    "elapsed_s",
    "ended",
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
    """What is new in a run's records; facts are all that are shown.

    again: the run was begun again, and all that was read before is void. more: there is more than fits into a piece.
    """

    again: bool
    facts: Mapping[str, Any]
    visits: Table
    commits: Table
    evaluations: Table
    notes: tuple[tuple[str, str], ...]
    more: bool


class Reader:
    """Reads one run folder. Each piece is one short transaction, which no writer waits for."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._begin()

    def _begin(self) -> None:
        self._resumed: Any = None
        self._visits = _Numbers()
        self._after = {"commits": 0, "evaluations": 0, "notes": 0}

    def read(self) -> Piece:
        """The next piece. Raises ConfigError for what is no run, or holds what no run could have recorded."""
        with opened_records(self._folder) as connection:
            connection.execute("BEGIN")
            facts = _facts(connection)
            check_facts(facts)
            again = self._resumed is not None and facts.get("resumed") != self._resumed
            if again:
                self._begin()
            self._resumed = facts.get("resumed")
            visits = self._visits.read(connection)
            commits, evaluations = (self._new(connection, table) for table in ("commits", "evaluations"))
            tables = {
                "visits": as_columns("visits", visits),
                "commits": as_columns("commits", commits),
                "evaluations": as_columns("evaluations", evaluations),
            }
            check_tables(tables, facts.get("n_clients"))
            notes = self._notes(connection)
        more = max(len(visits), len(commits), len(evaluations)) >= ROWS_AT_ONCE
        return Piece(again, facts, tables["visits"], tables["commits"], tables["evaluations"], notes, more)

    def _new(self, connection: sqlite3.Connection, table: str) -> list[tuple[Any, ...]]:
        columns = column_names(connection, table)
        query = f"SELECT rowid, {columns} FROM {table} WHERE rowid > ? ORDER BY rowid LIMIT ?"  # noqa: S608
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
    """Visits are rows by number, and written in the order in which they end: each is read once, the late ones too.

    Numbers that were passed over are looked for again, the latest hundred thousand of them.
    """

    def __init__(self) -> None:
        self._last = 0
        self._missing: dict[int, None] = {}

    def read(self, connection: sqlite3.Connection) -> list[tuple[Any, ...]]:
        """New rows, by number."""
        columns = column_names(connection, "visits")
        found: list[tuple[Any, ...]] = []
        waiting = iter(tuple(self._missing))
        while names := tuple(islice(waiting, _NAMES_AT_ONCE)):
            marks = ",".join("?" * len(names))
            query = f"SELECT {columns} FROM visits WHERE number IN ({marks}) ORDER BY number"  # noqa: S608
            found += connection.execute(query, names)
        for row in found:
            del self._missing[row[0]]
        query = f"SELECT {columns} FROM visits WHERE number > ? ORDER BY number LIMIT ?"  # noqa: S608
        tail = connection.execute(query, [self._last, ROWS_AT_ONCE]).fetchall()
        self._pass_over([row[0] for row in tail])
        return found + tail

    def _pass_over(self, numbers: Sequence[int]) -> None:
        for number in numbers:
            gap = range(max(self._last + 1, number - _MOST_MISSING), number)
            self._missing |= dict.fromkeys(gap)
            self._last = number
        for number in tuple(islice(self._missing, max(0, len(self._missing) - _MOST_MISSING))):
            del self._missing[number]


def _facts(connection: sqlite3.Connection) -> dict[str, Any]:
    marks = ",".join("?" * len(_FACTS))
    rows = connection.execute(f"SELECT name, value FROM facts WHERE name IN ({marks})", _FACTS)  # noqa: S608
    return {name: json.loads(value) for name, value in rows}
