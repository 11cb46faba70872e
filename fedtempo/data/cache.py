"""What takes a while to work out, kept in the user's cache folder: a convenience that may be missing or deleted."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Arrays = dict[str, npt.NDArray[Any]]


def remembered(name: str, make: Callable[[], Any]) -> Any:
    """`make()` (JSON values), or what it gave the last time under this name; name whatever the result depends on.

    Lies in $XDG_CACHE_HOME/fedtempo, ~/.cache/fedtempo without it. A file that is damaged is made again; where nothing
    can be written, nothing is remembered. Files appear whole or not at all.
    """
    path = _path(f"{name}.json")
    if path is None:
        return make()
    with contextlib.suppress(OSError, ValueError, RecursionError):
        digest, _, text = path.read_text(encoding="utf-8").partition("\n")
        if digest == hashlib.sha256(text.encode()).hexdigest():
            return json.loads(text)
    value = make()
    with contextlib.suppress(OSError):
        text = json.dumps(value, ensure_ascii=False)
        _write(path, f"{hashlib.sha256(text.encode()).hexdigest()}\n{text}".encode())
    return value


def remembered_arrays(name: str, make: Callable[[], Arrays]) -> Arrays:
    """As `remembered`, for arrays by name."""
    path = _path(f"{name}.npz")
    if path is None:
        return make()
    damaged = (ValueError, KeyError, EOFError, zipfile.BadZipFile)
    with contextlib.suppress(OSError, *damaged), path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
        return {key: arrays[key] for key in arrays.files}
    value = make()
    with contextlib.suppress(OSError):
        content = io.BytesIO()
        np.savez(content, **value)  # type: ignore[arg-type]
        _write(path, content.getvalue())
    return value


def _path(name: str) -> Path | None:
    """Where a file of this name is kept; None where there is no home."""
    try:
        root = os.environ.get("XDG_CACHE_HOME")
        return (Path(root) if root else Path.home() / ".cache") / "fedtempo" / name
    except RuntimeError:
        return None


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, partial = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.replace(partial, path)
    except BaseException:
        os.unlink(partial)
        raise
