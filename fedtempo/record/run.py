"""Read a run: its tables as arrays, its facts, and the other files of its folder."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fedtempo.errors import ConfigError, RunError
from fedtempo.parts.sizes import must_hold
from fedtempo.parts.text_files import parse_json, parse_toml
from fedtempo.record.checks import check_clusters, check_facts, check_further, check_tables
from fedtempo.record.reading import LARGEST_VALUE_BYTES, inside, opened, read_table
from fedtempo.record.schema import COLUMNS, DATABASE, FURTHER_TABLES

Table = Mapping[str, npt.NDArray[Any]]

_ROWS_AT_ONCE = 50_000
_SMALLEST_ROW_BYTES = 8
"""A row of three columns: its position, size, number, and a byte for each column's type."""
_LONGEST_ROW_BYTES = 2000


@dataclass(frozen=True, eq=False)
class Records:
    """What a run recorded.

    visits, commits, evaluations: columns of `schema.COLUMNS`, of equal length within a table; visits sorted by number,
    commits by version, evaluations in the order in which they were made. NULL is NaN in float columns and -1 in integer
    columns. notes: (name, value) in order. facts: name to value; `recorder.Recorder` lists the names in use.
    For a run with run.record = "totals", visits and commits are empty. further: the tables of
    `schema.FURTHER_TABLES`, by name; empty ones if the run has none.
    """

    visits: Table
    commits: Table
    evaluations: Table
    notes: tuple[tuple[str, Any], ...]
    facts: Mapping[str, Any]
    further: Mapping[str, Table] = field(
        default_factory=lambda: {name: as_columns(name, ()) for name in FURTHER_TABLES}, kw_only=True
    )

    @property
    def label(self) -> str:
        """The name of the run in tables and pictures: the fact "label", or else its strategy."""
        return str(self.facts.get("label") or self.facts.get("strategy") or "unnamed")

    @property
    def has_rows(self) -> bool:
        """Whether visits and commits were recorded; if not, `totals` has their sums."""
        return self.facts.get("record") != "totals"

    @property
    def totals(self) -> Mapping[str, Any]:
        """The fact "totals" of a run without rows. Raises RunError if the run has not reached its end."""
        totals: Mapping[str, Any] | None = self.facts.get("totals")
        if totals is None:
            raise RunError(f"{self.label}: recorded without rows, and totals are written at its end; resume it first")
        return totals

    def note(self, name: str) -> Any:
        """Return the last value noted under `name`, or None."""
        return next((value for noted, value in reversed(self.notes) if noted == name), None)


@dataclass(frozen=True, eq=False)
class Run(Records):
    """The content of a run folder. config, environment: empty if the file is missing; summary: None until the run ends.

    folder: None for a run that was never in one.
    """

    folder: Path | None
    config: Mapping[str, Any]
    summary: Mapping[str, Any] | None
    environment: Mapping[str, Any]


def load_run(folder: Path | str) -> Run:
    """Read a run folder, which may come from anybody: finished, interrupted, or being written by another process.

    Nothing in it is executed or imported. Raises ConfigError if `folder` is not a run folder, if one of its files
    cannot be read or leads elsewhere, or if its records hold impossible values.
    """
    folder = Path(folder)
    with opened_records(folder) as connection:
        records = read_records(connection)
        check(records)
    return Run(
        visits=records.visits,
        commits=records.commits,
        evaluations=records.evaluations,
        notes=records.notes,
        facts=records.facts,
        further=records.further,
        folder=folder,
        config=read_table(folder, "config.toml", parse_toml) or {},
        summary=read_table(folder, "summary.json", parse_json),
        environment=read_table(folder, "environment.json", parse_json) or {},
    )


@contextlib.contextmanager
def opened_records(folder: Path) -> Iterator[sqlite3.Connection]:
    """Open the database of a run folder read-only for the duration of the block.

    Raises ConfigError if it does not exist, and in place of errors in the block that its content causes.
    """
    database = inside(folder, DATABASE)
    if database is None:
        raise ConfigError(f"{folder} is not a run folder (no {DATABASE})")
    # SQLite needs a lock file beside a database in WAL mode, unless told that no process writes it.
    frozen = not os.access(folder, os.W_OK) and not database.with_name(f"{DATABASE}-wal").exists()
    try:
        with opened(database, immutable=frozen) as connection:
            yield connection
    except (sqlite3.Error, ValueError, TypeError, OverflowError, RecursionError) as error:
        raise ConfigError(f"{database} holds no readable run: {error}") from error


def check(records: Records) -> None:
    """Raise ValueError if records hold what no run could have recorded."""
    check_facts(records.facts)
    tables = {"visits": records.visits, "commits": records.commits, "evaluations": records.evaluations}
    check_tables(tables, records.facts.get("n_clients"))
    check_further(records.further, records.facts.get("n_clients"))
    if (clusters := records.note("clusters")) is not None:
        check_clusters(clusters)


def read_records(connection: sqlite3.Connection) -> Records:
    """Return all tables as of one moment. Raises sqlite3.Error if they cannot be read."""
    connection.execute("BEGIN")
    try:
        visits = read_rows(connection, "visits", "number")
        commits = read_rows(connection, "commits", "version")
        evaluations = read_rows(connection, "evaluations", "rowid")
        notes = tuple((name, parse_json(value)) for name, value in _texts(connection, "notes"))
        facts = read_facts(connection)
        further = read_further(connection)
    finally:
        connection.rollback()
    return Records(visits, commits, evaluations, notes, facts, further=further)


def read_further(connection: sqlite3.Connection) -> dict[str, Table]:
    """Return the tables of `schema.FURTHER_TABLES`, empty ones if the run has none."""
    existing = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    return {
        name: read_rows(connection, name, "rowid") if name in existing else as_columns(name, ())
        for name in FURTHER_TABLES
    }


def read_facts(connection: sqlite3.Connection, names: Collection[str] | None = None) -> dict[str, Any]:
    """Return the facts by name, only those in `names` if given. Raises sqlite3.Error if they cannot be read."""
    rows = _texts(connection, "facts")
    return {name: parse_json(value) for name, value in rows if names is None or name in names}


def _texts(connection: sqlite3.Connection, table: str) -> Iterator[tuple[str, str]]:
    """Yield the names and values of facts or notes. Raises ValueError if there are more than the database can hold."""
    left = _size(connection)
    for name, value in connection.execute(f"SELECT name, value FROM {table} ORDER BY rowid"):  # noqa: S608
        left -= len(name) + len(value)
        if left < 0:
            raise ValueError(f"{table} holds more text than the file: pages of it are used several times")
        yield name, value


def _size(connection: sqlite3.Connection) -> int:
    """Return the size of a database, bytes."""
    ((pages,),), ((size,),) = connection.execute("PRAGMA page_count"), connection.execute("PRAGMA page_size")
    return int(pages * size)


def read_rows(connection: sqlite3.Connection, table: str, order: str) -> Table:
    """Return a table's columns, sorted by the column `order`. Raises sqlite3.Error if they cannot be read."""
    columns = COLUMNS[table]
    names = column_names(connection, table)
    most = _size(connection) // _SMALLEST_ROW_BYTES
    query = f"SELECT COUNT(*) FROM (SELECT 1 FROM {table} LIMIT ?)"  # noqa: S608  names of ours
    (size,) = connection.execute(query, [most + 1]).fetchone()
    if size > most:
        raise ValueError(f"{table} holds more rows than the file: pages of it are used several times")
    must_hold(f"{table} takes", size * sum(np.dtype(kind).itemsize for kind in columns.values()))
    arrays = {name: np.empty(size, dtype=kind) for name, kind in columns.items()}
    with short_rows(connection):
        cursor, end = connection.execute(f"SELECT {names} FROM {table} ORDER BY {order}"), 0  # noqa: S608
        while rows := cursor.fetchmany(_ROWS_AT_ONCE):
            begin, end = end, end + len(rows)
            for name, values in as_columns(table, rows).items():
                arrays[name][begin:end] = values
    return arrays


@contextlib.contextmanager
def short_rows(connection: sqlite3.Connection) -> Iterator[None]:
    """Reject long rows for the duration of the block, in which many of the rows of `schema.COLUMNS` are read."""
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST_ROW_BYTES)
    try:
        yield
    finally:
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LARGEST_VALUE_BYTES)


def as_columns(table: str, rows: Sequence[tuple[Any, ...]]) -> Table:
    """Return rows of a table, whose values are in the order of its columns, as one array per column."""
    columns = COLUMNS[table]
    if not rows:
        return {name: np.empty(0, dtype=kind) for name, kind in columns.items()}
    return {name: _column(values, kind) for values, (name, kind) in zip(zip(*rows), columns.items())}


def column_names(connection: sqlite3.Connection, table: str) -> str:
    """Return a table's columns in order, as SQL; NULL for columns that the run's version did not have yet."""
    existing = {row[1] for row in connection.execute(f"PRAGMA table_info({table})")}
    return ", ".join(
        f'NULL AS "{name}"' if existing and name not in existing else f'"{name}"' for name in COLUMNS[table]
    )


def _column(values: tuple[Any, ...], kind: str) -> npt.NDArray[Any]:
    if kind == "O":  # names, each of which occurs often
        return np.array([sys.intern(str(value)) for value in values], dtype=kind)
    if kind == "i8":
        return np.array([-1 if value is None else value for value in values], dtype=kind)
    return np.array(values, dtype=kind)
