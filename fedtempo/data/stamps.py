"""Whether the files of a data set have changed since a process read them."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from fedtempo.data.sources import PREFIXES

_OPTIONS = ("images", "test", "tokenizer", "validation")
"""Options of sources that name files, relative to the folder of the source."""


def stamp(source: str, options: Mapping[str, Any]) -> str:
    """Return a hash of the paths, sizes and times of change of the files that a source reads.

    source, options: as for `sources.load`. Files that do not exist or cannot be read do not count, so the hash of
    `digits`, or of a user's function, is always the same.
    """
    digest = hashlib.sha256()
    kind, _, name = source.partition(":")
    for path in _paths(kind, name, options) if kind in PREFIXES and name else ():
        with contextlib.suppress(OSError, ValueError):
            for file in [path] if path.is_file() else sorted(path.rglob("*")):
                status = file.stat()
                line = f"{file}\0{status.st_size} {status.st_mtime_ns} {status.st_ino}\0"
                digest.update(line.encode("utf-8", "surrogateescape"))
    return digest.hexdigest()


def _paths(kind: str, name: str, options: Mapping[str, Any]) -> Iterator[Path]:
    root = Path(name)
    with contextlib.suppress(RuntimeError):  # a home folder that does not exist
        root = root.expanduser()
    yield root
    folder = root if root.is_dir() else root.parent
    yield from (folder / options[option] for option in _OPTIONS if isinstance(options.get(option), str))
    if kind == "tff" and root.name:
        yield root.with_name(root.name.replace("_train.", "_test."))
