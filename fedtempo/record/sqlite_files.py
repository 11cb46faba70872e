"""The files of an SQLite database, which may come from anybody.

Opening a database for writing makes SQLite undo the transaction of a rollback journal beside it. If the journal names
a super-journal (of a transaction over several databases, which fedtempo never makes), SQLite deletes the file of that
name, wherever it lies (https://www.sqlite.org/fileformat.html#the_rollback_journal).
"""

from __future__ import annotations

import os
from pathlib import Path

from fedtempo.errors import ConfigError

SUFFIXES = ("", "-wal", "-shm", "-journal")
"""What the names of a database's files add to its own."""

_SUPER_JOURNAL = bytes.fromhex("d9d505f920a163d7")
"""The last bytes of a journal that names a super-journal."""


def delete_database(database: Path) -> None:
    """Delete the files of a database, as far as they exist. Raises OSError."""
    for suffix in SUFFIXES:
        database.with_name(database.name + suffix).unlink(missing_ok=True)


def must_name_no_files(database: Path) -> None:
    """Raise ConfigError if opening a database for writing would make SQLite delete a file that its journal names.

    Call it before a database that somebody else may have made is opened for writing. Raises OSError if the journal
    cannot be read.
    """
    journal = database.with_name(f"{database.name}-journal")
    if not journal.is_file():  # SQLite does not open anything else
        return
    with journal.open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - len(_SUPER_JOURNAL)))
        end = file.read()
    if end == _SUPER_JOURNAL:
        raise ConfigError(
            f"{journal} names another file, which SQLite would delete; delete the journal (nothing was changed)"
        )
