"""The journal of a run: what its operations returned, so that a run that was killed goes on where it was.

A file of lines, each a JSON object. A *row* is one operation that is done, or something that came to a run on real
clients from outside. A *seal* ends what belongs together: the first line (what the run is), each checkpoint, what came,
each resumption. It carries the hash of all that lies before it in the
file. What follows the last seal was being written when the run was killed, and is cut off; whatever else does not have
its hash is damage, and is named.
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
from fedtempo.record.strict_json import plain, sync_folder, write_text

Row = Mapping[str, Any]
"""An operation that is done. "n": its number, from 1; everything else is the writer's."""

_FORMAT = 1
_SEAL = re.compile(rb'(\{"seal": .*), "sha256": "([0-9a-f]{64})"\}\n')


class Journal:
    """The journal of one run, open for more, to be added to from any thread. Make one with `create` or `resume`.

    identity: what the run is, as `create` was told. rows: by number, as `resume` found them. submitted: operations that
    had been asked for at the last checkpoint. unanswered: which of them were wanted and not done then. came: rows that
    `add` was given, in order. wall_s: seconds that the run has taken, up to the last checkpoint. resumed: how often it
    was.
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
        """Bytes up to the last seal."""

    @classmethod
    def create(cls, path: Path, identity: Mapping[str, Any]) -> Journal:
        """A new journal at `path`. identity: JSON values."""
        journal = cls(path)
        journal.identity = plain(identity)
        block = journal._sealed([], {"seal": "begun", "format": _FORMAT, "identity": journal.identity})
        write_text(path, block.decode(), sync=True)
        sync_folder(path.parent)
        return journal

    @classmethod
    def resume(cls, path: Path) -> Journal:
        """The journal at `path`, cut back to its last seal; says that the run was resumed.

        Raises RunError naming file and line where it is damaged, or could not be written.
        """
        journal = cls(path)
        try:
            content = path.read_bytes()
        except OSError as error:
            raise RunError(f"{path} could not be read: {error.strerror or error}") from error
        journal._read(content)
        journal.resumed += 1
        journal._append([], {"seal": "resumed", "wall_s": journal.wall_s})
        return journal

    def checkpoint(self, rows: Iterable[Row], submitted: int, unanswered: Iterable[int], wall_s: float) -> None:
        """Add rows, all or none of them, on the disk when this returns. Raises RunError where it does not take them."""
        seal = {"seal": "checkpoint", "submitted": submitted, "unanswered": sorted(unanswered), "wall_s": wall_s}
        self._append(_lines(rows), seal)
        self.checkpoints += 1

    def add(self, rows: Iterable[Row]) -> None:
        """Add what came from outside, as `checkpoint` does."""
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
        """Lines and their seal as bytes, which count as part of the journal from now on."""
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
            found = _SEAL.fullmatch(line)
            if found is None:
                raise self._damaged(f"line {number} is none of a journal's")
            self._digest.update(b"".join(pending) + found[1])
            if self._digest.hexdigest() != found[2].decode():
                first = number - len(pending)
                raise self._damaged(f"lines {first} to {number} do not have the hash that line {number} gives them")
            self._digest.update(line[len(found[1]) :])
            self._whole += sum(map(len, pending)) + len(line)
            self._take(pending, json.loads(line))
            pending, seals = [], seals + 1
        if not seals:
            raise self._damaged("its first line is not whole")
        # What is left was being written, and is the beginning of what was to be written.
        if _SEAL.fullmatch(torn[:-1] + b"\n") or not all(map(_is_json, pending)):
            raise self._damaged(f"what follows line {len(lines) - len(pending)} is no beginning of a checkpoint")

    def _take(self, lines: Iterable[bytes], seal: Mapping[str, Any]) -> None:
        """What a seal's hash vouches for."""
        match seal:
            case {"seal": "begun", "format": int(written)} if written != _FORMAT:
                raise RunError(f"{self.path} is written in format {written}; this version of fedtempo reads {_FORMAT}")
            case {"seal": "begun"}:
                self.identity = seal["identity"]
            case {"seal": "resumed"}:
                self.resumed += 1
            case {"seal": "came"}:
                self.came.extend(map(json.loads, lines))
            case {"seal": "checkpoint"}:
                self.rows.update((row["n"], row) for row in map(json.loads, lines))
                self.submitted, self.unanswered = seal["submitted"], frozenset(seal["unanswered"])
                self.wall_s = seal["wall_s"]
                self.checkpoints += 1

    def _damaged(self, what: str) -> RunError:
        return RunError(
            f"{self.path} is damaged: {what}; without this file the run can be resumed, and begins from its start"
        )


def _lines(rows: Iterable[Row]) -> list[str]:
    return [json.dumps(row, allow_nan=False) + "\n" for row in rows]


def _is_json(line: bytes) -> bool:
    try:
        json.loads(line)
    except ValueError:
        return False
    return True


def read_identity(path: Path) -> Mapping[str, Any]:
    """What the run of the journal at `path` is; empty where there is no journal, or its first line is not whole."""
    try:
        with path.open("rb") as file:
            found = _SEAL.fullmatch(file.readline())
    except OSError:
        return {}
    identity: Mapping[str, Any] = json.loads(found[1] + b"}").get("identity", {}) if found else {}
    return identity
