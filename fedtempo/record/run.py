"""A run as it can be read: its tables as arrays, its facts, and what lies beside them in its folder."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import tomllib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fedtempo.errors import ConfigError, RunError
from fedtempo.record.checks import check_clusters, check_facts, check_tables
from fedtempo.record.reading import inside, opened, read_table
from fedtempo.record.schema import COLUMNS, DATABASE

Table = Mapping[str, npt.NDArray[Any]]

_ROWS_AT_ONCE = 50_000


@dataclass(frozen=True, eq=False)
class Records:
    """What a run recorded.

    visits, commits, evaluations: columns of `schema.COLUMNS`, all of one length a table; visits by number, commits by
    version, evaluations in the order in which they were made. NULL is NaN in a column of floats, -1 in one of
    integers. notes: (name, value) in order. facts: name to value; `recorder.Recorder` lists the names in use.
    A run with run.record = "totals" has no visits and commits here.
    """

    visits: Table
    commits: Table
    evaluations: Table
    notes: tuple[tuple[str, Any], ...]
    facts: Mapping[str, Any]

    @property
    def label(self) -> str:
        """What tables and pictures call the run: the fact "label", or else its strategy."""
        return str(self.facts.get("label") or self.facts.get("strategy") or "unnamed")

    @property
    def has_rows(self) -> bool:
        """Whether visits and commits hold what happened; where not, `totals` tells what came of it."""
        return self.facts.get("record") != "totals"

    @property
    def totals(self) -> Mapping[str, Any]:
        """The fact "totals" of a run without rows. Raises RunError where the run did not come to its end."""
        totals: Mapping[str, Any] | None = self.facts.get("totals")
        if totals is None:
            raise RunError(f"{self.label}: its rows were left out, and its totals come when it ends: resume it first")
        return totals

    def note(self, name: str) -> Any:
        """The last value noted under `name`; None where there is none."""
        return next((value for noted, value in reversed(self.notes) if noted == name), None)


@dataclass(frozen=True, eq=False)
class Run(Records):
    """A run folder, read. config, environment: empty where the file is not there; summary: None until the run ends.

    folder: None for a run that was never in one.
    """

    folder: Path | None
    config: Mapping[str, Any]
    summary: Mapping[str, Any] | None
    environment: Mapping[str, Any]


def load_run(folder: Path | str) -> Run:
    """Read a run folder, which may come from anybody: finished, interrupted, or being written by another process.

    Nothing that it holds is run or imported. Raises ConfigError where `folder` is no run folder, one of its files
    cannot be read or leads elsewhere, or its records hold what cannot be.
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
        folder=folder,
        config=read_table(folder, "config.toml", tomllib.loads) or {},
        summary=read_table(folder, "summary.json", json.loads),
        environment=read_table(folder, "environment.json", json.loads) or {},
    )


@contextlib.contextmanager
def opened_records(folder: Path) -> Iterator[sqlite3.Connection]:
    """The database of a run folder, which is only read, while the block lasts.

    Raises ConfigError where there is none, and in place of what the block raises because of what it holds.
    """
    database = inside(folder, DATABASE)
    if database is None:
        raise ConfigError(f"{folder} is no run folder: it has no {DATABASE}")
    # SQLite reads a database in WAL mode only where it may put its lock file beside it, unless told that nobody writes.
    frozen = not os.access(folder, os.W_OK) and not database.with_name(f"{DATABASE}-wal").exists()
    try:
        with opened(database, immutable=frozen) as connection:
            yield connection
    except (sqlite3.Error, ValueError, TypeError, OverflowError, RecursionError) as error:
        raise ConfigError(f"{database} holds no run that can be read: {error}") from error


def check(records: Records) -> None:
    """Raises ValueError where records hold what no run could have recorded."""
    check_facts(records.facts)
    tables = {"visits": records.visits, "commits": records.commits, "evaluations": records.evaluations}
    check_tables(tables, records.facts.get("n_clients"))
    if (clusters := records.note("clusters")) is not None:
        check_clusters(clusters)


def read_records(connection: sqlite3.Connection) -> Records:
    """All tables as they are at one moment. Raises sqlite3.Error."""
    connection.execute("BEGIN")
    try:
        visits = read_rows(connection, "visits", "number")
        commits = read_rows(connection, "commits", "version")
        evaluations = read_rows(connection, "evaluations", "rowid")
        notes = tuple((n, json.loads(v)) for n, v in connection.execute("SELECT name, value FROM notes ORDER BY rowid"))
        facts = read_facts(connection)
    finally:
        connection.rollback()
    return Records(visits, commits, evaluations, notes, facts)


def read_facts(connection: sqlite3.Connection, names: Collection[str] | None = None) -> dict[str, Any]:
    """The facts, as values; those of these names where given. Raises sqlite3.Error."""
    rows = connection.execute("SELECT name, value FROM facts ORDER BY rowid")
    return {name: json.loads(value) for name, value in rows if names is None or name in names}


def read_rows(connection: sqlite3.Connection, table: str, order: str) -> Table:
    """A table's columns, in the order of one of them. Raises sqlite3.Error."""
    columns = COLUMNS[table]
    names = column_names(connection, table)
    (size,) = connection.execute(f"SELECT COUNT(*) FROM {table}").fetchone()  # noqa: S608  names of ours
    arrays = {name: np.empty(size, dtype=kind) for name, kind in columns.items()}
    cursor, end = connection.execute(f"SELECT {names} FROM {table} ORDER BY {order}"), 0  # noqa: S608
    while rows := cursor.fetchmany(_ROWS_AT_ONCE):
        begin, end = end, end + len(rows)
        for name, values in as_columns(table, rows).items():
            arrays[name][begin:end] = values
    return arrays


def as_columns(table: str, rows: Sequence[tuple[Any, ...]]) -> Table:
    """Rows of a table, with its columns in their order, as arrays."""
    columns = COLUMNS[table]
    if not rows:
        return {name: np.empty(0, dtype=kind) for name, kind in columns.items()}
    return {name: _column(values, kind) for values, (name, kind) in zip(zip(*rows), columns.items())}


def column_names(connection: sqlite3.Connection, table: str) -> str:
    """A table's columns in their order, as SQL. A column that the run's version did not have yet is NULL."""
    there = {row[1] for row in connection.execute(f"PRAGMA table_info({table})")}
    return ", ".join(f'NULL AS "{name}"' if there and name not in there else f'"{name}"' for name in COLUMNS[table])


def _column(values: tuple[Any, ...], kind: str) -> npt.NDArray[Any]:
    if kind == "i8":
        return np.array([-1 if value is None else value for value in values], dtype=kind)
    return np.array(values, dtype=kind)
