"""The journal of a run: the results of its operations, so that a killed run can be resumed.

A file of lines, each a JSON object. A *row* is one completed operation, or an external event of a run on real clients.
A *seal* ends a block: the first line (the identity of the run), a checkpoint, external events, a resumption, a new
identity of a finished run that goes on. It holds the hash of everything before it in the file. What follows the last
seal was being written when the run was killed, and is cut off; anything else that does not match its hash is damage,
which an error names.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from fedtempo.errors import RunError
from fedtempo.parts.text_files import parse_json, read_plain
from fedtempo.record.strict_json import plain, sync_folder, write_text

Row = Mapping[str, Any]
"""A completed operation. "n": its number, from 1; the other fields are up to the writer."""

_FORMAT = 1
_SEAL = re.compile(rb'(\{"seal": .*), "sha256": "([0-9a-f]{64})"\}\n')


class Journal:
    """The journal of one run, made with `create` or `resume`. Any thread may add to it.

    identity: the argument of `create`. rows: by number, as read by `resume`. submitted: number of operations requested
    by the last checkpoint. unanswered: those of them that were needed but not complete then. came: rows passed to
    `add`, in order. wall_s: duration of the run up to the last checkpoint, seconds. resumed: how often it was resumed.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.identity: Mapping[str, Any] = {}
        self.rows: dict[int, Row] = {}
        self.submitted = 0
        self.unanswered: frozenset[int] = frozenset()
        self.came: list[Row] = []
        self.wall_s = 0.0
        self.resumed = 0
        self.checkpoints = 0
        self._lock = threading.Lock()
        self._digest = hashlib.sha256()
        self._whole = 0
        """Number of bytes up to the last seal."""

    @classmethod
    def create(cls, path: Path, identity: Mapping[str, Any]) -> Journal:
        """Create a journal at `path`. identity: everything that determines the run, as JSON values."""
        journal = cls(path)
        journal.identity = plain(identity)
        block = journal._sealed([], {"seal": "begun", "format": _FORMAT, "identity": journal.identity})
        write_text(path, block.decode(), sync=True)
        sync_folder(path.parent)
        return journal

    @classmethod
    def resume(cls, path: Path) -> Journal:
        """Open the journal at `path`, cut it back to its last seal, and record that the run was resumed.

        Raises RunError naming file and line if it is damaged, or if it cannot be written.
        """
        journal = cls(path)
        try:
            content = read_plain(path)
        except (OSError, ValueError) as error:
            raise RunError(f"{path} could not be read: {getattr(error, 'strerror', None) or error}") from error
        try:
            journal._read(content)
        except (ValueError, KeyError, TypeError) as error:  # lines of another origin, with the right hashes
            raise journal._damaged(f"its lines cannot be read ({error!r})") from error
        journal.resumed += 1
        journal._append([], {"seal": "resumed", "wall_s": journal.wall_s})
        return journal

    def checkpoint(self, rows: Iterable[Row], submitted: int, unanswered: Iterable[int], wall_s: float) -> None:
        """Add rows, all or none of them, and wait until they are on disk. Raises RunError if they cannot be written."""
        seal = {"seal": "checkpoint", "submitted": submitted, "unanswered": sorted(unanswered), "wall_s": wall_s}
        self._append(_lines(rows), seal)
        self.checkpoints += 1

    def extend(self, identity: Mapping[str, Any]) -> None:
        """Record that the run goes on with another identity."""
        self.identity = plain(identity)
        self._append([], {"seal": "extended", "identity": self.identity})

    def add(self, rows: Iterable[Row]) -> None:
        """Add external events, as `checkpoint` does."""
        self._append(_lines(rows), {"seal": "came"})

    def _append(self, lines: list[str], seal: Mapping[str, Any]) -> None:
        with self._lock:
            digest, start = self._digest.copy(), self._whole
            block = self._sealed(lines, seal)
            try:
                with self.path.open("r+b") as file:
                    file.seek(start)
                    file.truncate()
                    file.write(block)
                    file.flush()
                    os.fsync(file.fileno())
            except OSError as error:
                self._digest, self._whole = digest, start
                raise RunError(f"{self.path} could not be written: {error.strerror or error}") from error

    def _sealed(self, lines: list[str], seal: Mapping[str, Any]) -> bytes:
        """Return lines and their seal as bytes, and include them in the journal's hash and length."""
        body = ("".join(lines) + json.dumps(seal, allow_nan=False).removesuffix("}")).encode()
        self._digest.update(body)
        tail = f', "sha256": "{self._digest.hexdigest()}"}}\n'.encode()
        self._digest.update(tail)
        self._whole += len(body) + len(tail)
        return body + tail

    def _read(self, content: bytes) -> None:
        pending: list[bytes] = []
        seals = 0
        *lines, torn = content.split(b"\n")
        for number, line in enumerate((line + b"\n" for line in lines), start=1):
            if line.startswith(b'{"n": '):
                pending.append(line)
                continue
            match = _SEAL.fullmatch(line)
            if match is None:
                raise self._damaged(f"line {number} is not a line of a journal")
            self._digest.update(b"".join(pending) + match[1])
            if self._digest.hexdigest() != match[2].decode():
                first = number - len(pending)
                raise self._damaged(f"lines {first} to {number} do not match the hash in line {number}")
            self._digest.update(line[len(match[1]) :])
            self._whole += sum(map(len, pending)) + len(line)
            self._take(pending, parse_json(line))
            pending, seals = [], seals + 1
        if not seals:
            raise self._damaged("its first line is incomplete")
        # The rest was being written when the run was killed: it must be the beginning of a block.
        if _SEAL.fullmatch(torn[:-1] + b"\n") or not all(map(_is_json, pending)):
            raise self._damaged(
                f"the lines after line {len(lines) - len(pending)} are not the beginning of a checkpoint"
            )

    def _take(self, lines: Iterable[bytes], seal: Mapping[str, Any]) -> None:
        """Take in a seal and its lines, whose hash was checked."""
        match seal:
            case {"seal": "begun", "format": int(written)} if written != _FORMAT:
                raise RunError(f"{self.path} is written in format {written}; this version of fedtempo reads {_FORMAT}")
            case {"seal": "begun"}:
                self.identity = seal["identity"]
            case {"seal": "extended"}:
                self.identity = seal["identity"]
            case {"seal": "resumed"}:
                self.resumed += 1
            case {"seal": "came"}:
                self.came.extend(map(parse_json, lines))
            case {"seal": "checkpoint"}:
                self.rows.update((row["n"], row) for row in map(parse_json, lines))
                self.submitted, self.unanswered = seal["submitted"], frozenset(seal["unanswered"])
                self.wall_s = seal["wall_s"]
                self.checkpoints += 1

    def _damaged(self, what: str) -> RunError:
        return RunError(f"{self.path} is damaged: {what}; delete it to resume the run from its start")


def _lines(rows: Iterable[Row]) -> list[str]:
    return [json.dumps(row, allow_nan=False) + "\n" for row in rows]


def _is_json(line: bytes) -> bool:
    try:
        parse_json(line)
    except ValueError:
        return False
    return True


def read_identity(path: Path) -> Mapping[str, Any]:
    """Return the latest identity in the journal at `path`; empty if there is none, or its first line is incomplete."""
    identity: Mapping[str, Any] = {}
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file):
                if (not number or line.startswith(b'{"seal": "extended"')) and (match := _SEAL.fullmatch(line)):
                    identity = parse_json(match[1] + b"}").get("identity", {})
    except (OSError, ValueError):
        return {}
    return identity


def keep_identity(path: Path) -> None:
    """Cut the journal of a finished run back to its identity: what its result depends on. Raises RunError."""
    identity = read_identity(path)
    if identity:
        Journal.create(path, identity)
    else:
        path.unlink(missing_ok=True)
