"""Write JSON that every reader accepts: no NaN or Infinity, NumPy values as plain ones, files replaced atomically."""

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
    """Return `value` in JSON's types: arrays, tuples and sets become lists; numbers that are not finite become None.

    Raises TypeError for a value that JSON cannot represent.
    """
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return float(value) if math.isfinite(value) else None
        case np.ndarray() if value.dtype.kind in "biu" or (value.dtype.kind == "f" and np.isfinite(value).all()):
            return value.tolist()  # no loop over items: arrays may be large
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
    raise TypeError(f"{value!r}: JSON cannot represent {type(value).__name__}")


def to_json(value: Any, indent: int | None = None) -> str:
    """Return `plain(value)` as JSON text."""
    try:  # most values need no change, and may have many items
        return json.dumps(value, indent=indent, allow_nan=False, ensure_ascii=False, default=plain)
    except (TypeError, ValueError):
        pass
    return json.dumps(plain(value), indent=indent, allow_nan=False, ensure_ascii=False)


def write_text(path: Path, text: str, *, sync: bool = False, private: bool = False) -> None:
    """Write `text` to `path` atomically, so that readers never see half a file. Raises RunError naming the file.

    sync: wait until the content is on disk; its name is with the next `sync_folder`. private: only the owner
    may read it.
    """
    try:
        descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(text)
                if sync:
                    file.flush()
                    os.fsync(file.fileno())
            os.chmod(temporary, 0o600 if private else 0o644)
            os.replace(temporary, path)
        except BaseException:
            os.unlink(temporary)
            raise
    except OSError as error:
        raise RunError(f"{path} could not be written: {error.strerror or error}") from error


def sync_folder(path: Path) -> None:
    """Wait until the names of a folder's files are on disk. Raises RunError naming the folder."""
    if os.name != "posix":  # other systems cannot open a folder
        return
    try:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise RunError(f"{path} could not be written: {error.strerror or error}") from error


def write_json(path: Path, value: Any, *, sync: bool = False, private: bool = False) -> None:
    """Write `value` as strict JSON with `write_text`."""
    write_text(path, to_json(value, indent=2) + "\n", sync=sync, private=private)
