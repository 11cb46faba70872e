"""JSON that every reader accepts: no NaN, no Infinity, NumPy values as plain ones, files replaced whole."""

from __future__ import annotations

import json
import math
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fedtempo.errors import RunError


def plain(value: Any) -> Any:
    """`value` in JSON's types: arrays, tuples and sets become lists, a number that is not finite becomes None.

    Raises TypeError for a value that JSON has no form for.
    """
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return float(value) if math.isfinite(value) else None
        case np.ndarray() if value.dtype.kind in "biu" or (value.dtype.kind == "f" and np.isfinite(value).all()):
            return value.tolist()  # item by item only where one may need a change: there are large ones
        case np.ndarray() | np.generic():
            return plain(value.tolist())
        case Mapping():
            return {str(name): plain(item) for name, item in value.items()}
        case set() | frozenset():
            return [plain(item) for item in sorted(value)]
        case list() | tuple():
            return [plain(item) for item in value]
        case Path():
            return str(value)
    raise TypeError(f"{value!r} of type {type(value).__name__} has no form in JSON")


def to_json(value: Any, indent: int | None = None) -> str:
    """`plain(value)` as text."""
    try:  # most values need nothing done to their items, of which there may be many
        return json.dumps(value, indent=indent, allow_nan=False, ensure_ascii=False, default=plain)
    except (TypeError, ValueError):
        pass
    return json.dumps(plain(value), indent=indent, allow_nan=False, ensure_ascii=False)


def write_text(path: Path, text: str, *, sync: bool = False) -> None:
    """Put `text` at `path` whole or not at all: a reader never sees half a file. Raises RunError naming the file.

    sync: it is on the disk when this returns, and its name with the next `sync_folder`.
    """
    try:
        descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(text)
                if sync:
                    file.flush()
                    os.fsync(file.fileno())
            os.chmod(temporary, 0o644)
            os.replace(temporary, path)
        except BaseException:
            os.unlink(temporary)
            raise
    except OSError as error:
        raise RunError(f"{path} could not be written: {error.strerror or error}") from error


def sync_folder(path: Path) -> None:
    """Make sure that the names of a folder's files are on the disk. Raises RunError naming the folder."""
    if os.name != "posix":  # elsewhere a folder cannot be opened
        return
    try:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise RunError(f"{path} could not be written: {error.strerror or error}") from error


def write_json(path: Path, value: Any, *, sync: bool = False) -> None:
    """`write_text`, of `value` as strict JSON."""
    write_text(path, to_json(value, indent=2) + "\n", sync=sync)
