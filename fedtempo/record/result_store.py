"""Results by key in a folder of bounded size, shared by processes: an index in SQLite, and contents in files.

A result is a short text, and the hashes of the contents that it names (models, what clients keep). A content's file is
named by its hash, which is checked when it is read, and each result has a checksum. What does not match is deleted and
counts as missing. So does a content whose process was killed before its file was written: the index comes first.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import shutil
import sqlite3
import stat
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from fedtempo.errors import ConfigError
from fedtempo.record.folder import must_keep_to_itself
from fedtempo.record.sqlite_files import SUFFIXES, delete_database, must_name_no_files

log = logging.getLogger("fedtempo")

_INDEX, _CONTENTS, _NEW, _LOCK = "index.sqlite", "contents", "new", ".lock"
_INDEX_FILES = tuple(_INDEX + suffix for suffix in SUFFIXES)
_OWN = {*_INDEX_FILES, _CONTENTS, _NEW, _LOCK}
_APPLICATION, _FORMAT = 0x46544D50, 1
"""`application_id` and `user_version` of the index."""

_INDEX_ERRORS = sqlite3.Error, UnicodeDecodeError
"""Errors of queries; the second if SQLite's message quotes damaged names."""
_PASSING = {
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_NOMEM,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_CANTOPEN,
}
"""SQLite's codes of errors that say nothing about the index's content."""

_HASH_BYTES, _CHECK_BYTES = 32, 16
_INDEX_SHARE = 0.1
"""Share of the bound that results may take; contents may take the rest."""
_TRIMMED = 0.9
"""Share of its bound that is left when the least recently used is deleted."""
_PATIENCE_S = 30.0
"""How long to wait for another process that writes."""
_ABANDONED_S = 3600.0
"""Age after which a file that is not completely written belongs to a killed process."""
_FLUSH_S, _FLUSH_BYTES = 1.0, 64 * 2**20
"""Results are written together, after these seconds or bytes of contents."""
_RECENT_S = 60
"""A use is noted if the last one noted was longer ago than this."""

_SCHEMA = """
CREATE TABLE results (key BLOB PRIMARY KEY, answer BLOB NOT NULL, contents BLOB NOT NULL, checksum BLOB NOT NULL,
                      used INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE contents (sha256 BLOB PRIMARY KEY, bytes INTEGER NOT NULL, used INTEGER NOT NULL) WITHOUT ROWID;
CREATE INDEX results_by_use ON results (used);
CREATE INDEX contents_by_use ON contents (used);
CREATE TABLE sizes (results INTEGER NOT NULL, contents INTEGER NOT NULL);
INSERT INTO sizes VALUES (0, 0);
CREATE TRIGGER result_added AFTER INSERT ON results BEGIN
    UPDATE sizes SET results = results + 200 + length(new.answer) + length(new.contents); END;
CREATE TRIGGER result_deleted AFTER DELETE ON results BEGIN
    UPDATE sizes SET results = results - 200 - length(old.answer) - length(old.contents); END;
CREATE TRIGGER content_added AFTER INSERT ON contents BEGIN
    UPDATE sizes SET contents = contents + new.bytes; END;
CREATE TRIGGER content_deleted AFTER DELETE ON contents BEGIN
    UPDATE sizes SET contents = contents - old.bytes; END;
"""
"""The triggers keep the sizes of both tables; a result counts 200 bytes besides its text and hashes."""

Content = bytes | memoryview
"""Bytes that never change."""


class Stored(NamedTuple):
    """A result. contents: SHA-256 of each content that `answer` names, which may have been deleted."""

    answer: bytes
    contents: tuple[bytes, ...]


def is_store(folder: Path) -> bool:
    """Return whether a folder holds the index of a store, by its name; opening it tells more."""
    return (folder / _INDEX).is_file()


class ResultStore:
    """The store in a folder, which is made if necessary. Used from one thread; any number of processes may share it.

    The folder may come from anybody. Raises ConfigError if it holds something else, if using it could change files
    elsewhere, or if it cannot be used. Later problems (a full disk, a damaged
    index) never raise: they are logged in one line, and cost only results.
    """

    def __init__(self, folder: Path, max_bytes: int, *, clock: Callable[[], float] = time.time) -> None:
        """max_bytes: the bound on results and contents. clock: seconds, for what was used last."""
        self.folder = folder
        self._max_results = int(max_bytes * _INDEX_SHARE)
        self._max_contents = max_bytes - self._max_results
        self._clock = clock
        self._connection: sqlite3.Connection | None = None
        self._results: dict[bytes, Stored] = {}
        self._contents: dict[bytes, Content] = {}
        self._pending_bytes = 0
        self._used: list[tuple[bytes, tuple[bytes, ...]]] = []
        self._flushed = time.monotonic()
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            if strangers := {path.name for path in folder.iterdir()} - _OWN:
                raise ConfigError(f"{folder} holds other files ({sorted(strangers)[0]}); choose a new or empty folder")
            must_keep_to_itself(folder, depth=2)  # contents, at the third level, are never written in place
            self._open()
        except OSError as error:
            raise ConfigError(f"{folder} cannot hold results: {error.strerror or error}") from error

    def result(self, key: bytes) -> Stored | None:
        """Return the result with a key (32 bytes); None if there is none."""
        if (pending := self._results.get(key)) is not None:
            return pending
        row = self._asked("SELECT answer, contents, checksum, used FROM results WHERE key = ?", key)
        if row is None:
            return None
        answer, hashes, checksum, used = row
        if checksum != _checksum(key, answer, hashes):
            log.warning("%s: a damaged result was deleted and is computed again", self.folder)
            self._do(lambda connection: connection.execute("DELETE FROM results WHERE key = ?", (key,)))
            return None
        contents = tuple(hashes[i : i + _HASH_BYTES] for i in range(0, len(hashes), _HASH_BYTES))
        if used < self._clock() - _RECENT_S:
            self._used.append((key, contents))
        return Stored(answer, contents)

    def content(self, sha256: bytes) -> Content | None:
        """Return the content with a hash; None if it is missing or damaged."""
        if (pending := self._contents.get(sha256)) is not None:
            return pending
        row = self._asked("SELECT bytes FROM contents WHERE sha256 = ?", sha256)
        if row is None:
            return None
        content, path = _read(self._path(sha256), row[0]), self._path(sha256)
        if content is not None and hashlib.sha256(content).digest() == sha256:
            return content
        if content is not None:
            log.warning("%s: damaged (its content does not have this hash); it was deleted and is computed again", path)
        with contextlib.suppress(OSError):
            path.unlink()
        self._do(lambda connection: connection.execute("DELETE FROM contents WHERE sha256 = ?", (sha256,)))
        return None

    def add(self, key: bytes, answer: bytes, contents: Sequence[tuple[bytes, Content]]) -> None:
        """Add a result and its contents with their hashes. All are on disk after a second, or after `flush`."""
        if self._connection is None:
            return
        self._results[key] = Stored(answer, tuple(sha256 for sha256, _ in contents))
        for sha256, content in contents:
            if sha256 not in self._contents and memoryview(content).nbytes <= self._max_contents // 2:
                self._contents[sha256] = content
                self._pending_bytes += memoryview(content).nbytes
        if self._pending_bytes >= _FLUSH_BYTES or time.monotonic() - self._flushed >= _FLUSH_S:
            self.flush()

    def flush(self) -> None:
        """Write what was added and used."""
        results, contents, used = self._results, self._contents, self._used
        self._results, self._contents, self._used, self._pending_bytes = {}, {}, [], 0
        if results or used:
            now = int(self._clock())
            self._do(lambda connection: _insert(connection, now, results, contents, used))
            self._write(contents)
            self._do(self._trim)
        self._flushed = time.monotonic()

    def close(self) -> None:
        """Flush and close. Closing again does nothing."""
        self.flush()
        self._end()

    def _path(self, sha256: bytes) -> Path:
        name = sha256.hex()
        return self.folder / _CONTENTS / name[:2] / name

    # The index

    def _open(self) -> None:
        """Open the index; begin anew if there is none, it is damaged, or its format is another one."""
        from filelock import FileLock, Timeout

        try:
            with FileLock(self.folder / _LOCK, timeout=_PATIENCE_S):
                try:
                    self._connection = self._connected()
                except _INDEX_ERRORS as error:
                    if not _is_damage(error):
                        raise ConfigError(f"{self.folder / _INDEX} cannot be opened: {error}") from error
                    log.warning("%s is damaged (%s); the store begins anew", self.folder / _INDEX, error)
                    self._delete_index()
                    self._connection = self._connected()
                self._tidy()
        except Timeout:
            raise ConfigError(f"{self.folder} is in use: another process has held its lock for too long") from None

    def _connected(self) -> sqlite3.Connection:
        path = self.folder / _INDEX
        must_name_no_files(path)
        connection = sqlite3.connect(path, timeout=_PATIENCE_S, isolation_level=None)
        try:
            ((application,),) = connection.execute("PRAGMA application_id")
            ((version,),) = connection.execute("PRAGMA user_version")
            ((tables,),) = connection.execute("SELECT count(*) FROM sqlite_schema")
            if tables and application != _APPLICATION:
                raise ConfigError(f"{path} is no index of results; choose another folder")
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")
            if tables and version != _FORMAT:
                raise sqlite3.DatabaseError(f"format {version}, not {_FORMAT}")
            if not tables:
                shutil.rmtree(self.folder / _CONTENTS, ignore_errors=True)  # those of an index that is gone
                marks = f"PRAGMA application_id = {_APPLICATION}; PRAGMA user_version = {_FORMAT};"
                connection.executescript(f"BEGIN IMMEDIATE; {_SCHEMA} {marks} COMMIT;")
        except BaseException:
            connection.close()
            raise
        return connection

    def _asked(self, query: str, key: bytes) -> Any:
        """Return the row that a query finds; None if there is none."""
        if self._connection is None:
            return None
        try:
            return self._connection.execute(query, (key,)).fetchone()
        except _INDEX_ERRORS as error:
            self._failed(error)
            return None

    def _do(self, change: Callable[[sqlite3.Connection], Any]) -> None:
        """Change the index in one transaction."""
        if (connection := self._connection) is None:
            return
        try:
            with _transaction(connection):
                change(connection)
        except (*_INDEX_ERRORS, OSError) as error:
            self._failed(error)

    def _failed(self, error: Exception) -> None:
        """Use the store no more; delete a damaged index."""
        log.warning("%s: %s; from now on no results are reused or kept", self.folder, error)
        self._end()
        if _is_damage(error):
            with contextlib.suppress(OSError):
                self._delete_index()

    def _end(self) -> None:
        if self._connection is not None:
            with contextlib.suppress(*_INDEX_ERRORS):
                self._connection.close()
            self._connection = None

    def _delete_index(self) -> None:
        delete_database(self.folder / _INDEX)

    # Files

    def _write(self, contents: Mapping[bytes, Content]) -> None:
        """Write contents that are not there yet. Each appears complete."""
        if self._connection is None:
            return
        try:
            for sha256, content in contents.items():
                path = self._path(sha256)
                if path.exists():
                    continue
                new = self.folder / _NEW / f"{path.name}-{os.getpid()}"
                for folder in (new.parent, path.parent):
                    folder.mkdir(parents=True, exist_ok=True)
                new.write_bytes(content)
                os.replace(new, path)
        except OSError as error:
            self._failed(error)

    def _trim(self, connection: sqlite3.Connection) -> None:
        """Delete the least recently used beyond the bounds: files first, so that none is left without an entry."""
        ((results, contents),) = connection.execute("SELECT results, contents FROM sizes")
        if results > self._max_results:
            ((count,),) = connection.execute("SELECT count(*) FROM results")
            surplus = count - int(count * self._max_results * _TRIMMED / results)
            connection.execute(
                "DELETE FROM results WHERE key IN (SELECT key FROM results ORDER BY used LIMIT ?)", (surplus,)
            )
        if contents > self._max_contents:
            surplus, deleted = contents - int(self._max_contents * _TRIMMED), []
            for sha256, size in connection.execute("SELECT sha256, bytes FROM contents ORDER BY used"):
                self._path(sha256).unlink(missing_ok=True)
                deleted.append((sha256,))
                surplus -= size
                if surplus <= 0:
                    break
            connection.executemany("DELETE FROM contents WHERE sha256 = ?", deleted)

    def _tidy(self) -> None:
        """Delete half-written files of killed processes."""
        oldest = time.time() - _ABANDONED_S
        for path in (self.folder / _NEW).glob("*"):
            with contextlib.suppress(OSError):
                if path.stat().st_mtime < oldest:
                    path.unlink()


@contextlib.contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        with contextlib.suppress(*_INDEX_ERRORS):
            connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def _insert(
    connection: sqlite3.Connection,
    now: int,
    results: Mapping[bytes, Stored],
    contents: Mapping[bytes, Content],
    used: Sequence[tuple[bytes, tuple[bytes, ...]]],
) -> None:
    sizes = [(sha256, memoryview(content).nbytes, now) for sha256, content in contents.items()]
    connection.executemany("INSERT OR IGNORE INTO contents VALUES (?, ?, ?)", sizes)
    rows = []
    for key, (answer, names) in results.items():
        hashes = b"".join(names)
        rows.append((key, answer, hashes, _checksum(key, answer, hashes), now))
    connection.executemany("INSERT OR IGNORE INTO results VALUES (?, ?, ?, ?, ?)", rows)
    connection.executemany("UPDATE results SET used = ? WHERE key = ?", [(now, key) for key, _ in used])
    connection.executemany(
        "UPDATE contents SET used = ? WHERE sha256 = ?", [(now, sha256) for _, names in used for sha256 in names]
    )


def _checksum(key: bytes, answer: bytes, hashes: bytes) -> bytes:
    return hashlib.sha256(b"%d %d " % (len(answer), len(hashes)) + key + answer + hashes).digest()[:_CHECK_BYTES]


def _read(path: Path, size: int) -> bytes | None:
    """Return the content of a plain file, at most a byte more than its size should be; None if there is none."""
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    except FileNotFoundError:
        return None
    except OSError:  # a link
        return b""
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        return b""
    with os.fdopen(descriptor, "rb") as file:
        return file.read(size + 1)


def _is_damage(error: Exception) -> bool:
    """Return whether an error means that the index is damaged, not that it cannot be used now."""
    if isinstance(error, OSError):
        return False
    return getattr(error, "sqlite_errorcode", 0) & 0xFF not in _PASSING
