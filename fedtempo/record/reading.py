"""Read files of a run folder, which may come from anybody: plain files inside it, of bounded size, data only."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

from fedtempo.errors import ConfigError
from fedtempo.record.schema import COLUMNS, FURTHER_TABLES

LARGEST_TEXT_BYTES = 32 * 2**20
LARGEST_VALUE_BYTES = 256 * 2**20


def inside(folder: Path, name: str) -> Path | None:
    """Return the path of the file `name` in a folder; None if it does not exist.

    Raises ConfigError if it is not a plain file or lies outside: a link out of the folder would put a file of the
    reader into a report that is passed on.
    """
    path = folder / name
    try:
        if not path.exists() and not path.is_symlink():
            return None
        leads_out = not path.resolve().is_relative_to(folder.resolve())
        plain = path.is_file()
    except (OSError, RuntimeError) as error:  # a link to itself, a name that is too long
        raise ConfigError(f"{path} cannot be read: {error}") from error
    if leads_out:
        raise ConfigError(f"{path} leads out of its folder, to {path.resolve()}; it was not read")
    if not plain:
        raise ConfigError(f"{path} is not a plain file")
    return path


def read_text(folder: Path, name: str) -> str | None:
    """Return the content of a text file in a folder; None if it does not exist.

    Raises ConfigError if it is not inside the folder, not text, or larger than `LARGEST_TEXT_BYTES`.
    """
    path = inside(folder, name)
    if path is None:
        return None
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST_TEXT_BYTES + 1)
        if len(content) > LARGEST_TEXT_BYTES:
            raise ConfigError(f"{path} is larger than {LARGEST_TEXT_BYTES:,} bytes; it was not read")
        return content.decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from error


def read_table(folder: Path, name: str, parse: Callable[[str], Any]) -> dict[str, Any] | None:
    """Return a text file parsed by `parse` into a mapping; None if it does not exist.

    Raises ConfigError if it cannot be parsed or holds anything else.
    """
    text = read_text(folder, name)
    if text is None:
        return None
    try:
        value = parse(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{folder / name} cannot be read: {error}") from error
    if not isinstance(value, dict):
        raise ConfigError(
            f"{folder / name} cannot be read: it holds {type(value).__name__}; must be a table of names and values"
        )
    return value


@contextlib.contextmanager
def opened(database: Path, *, immutable: bool) -> Iterator[sqlite3.Connection]:
    """Open a database read-only, with plain tables and stored columns only, so that reading computes nothing.

    immutable: no process writes it. Raises ValueError for another schema, sqlite3.Error if it cannot be read.
    """
    address = f"file:{quote(str(database.resolve()))}?{'immutable=1' if immutable else 'mode=ro'}"
    with contextlib.closing(sqlite3.connect(address, uri=True, timeout=60)) as connection:
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LARGEST_VALUE_BYTES)
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("PRAGMA cell_size_check = ON")
        for table in (*COLUMNS, "notes", "facts"):
            kinds = connection.execute(
                "SELECT type = 'table' AND rootpage > 0 FROM sqlite_schema WHERE name = ? COLLATE NOCASE", [table]
            ).fetchall()
            hidden = connection.execute("SELECT 1 FROM pragma_table_xinfo(?) WHERE hidden != 0", [table]).fetchall()
            missing = not kinds and table in FURTHER_TABLES
            if (kinds != [(1,)] and not missing) or hidden:
                raise ValueError(f"{table} is not a plain table")
        yield connection
