"""What takes a while to work out, kept in the user's cache folder: a convenience that may be missing or deleted."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any


def remembered(name: str, make: Callable[[], Any]) -> Any:
    """`make()` (JSON values), or what it gave the last time under this name; name whatever the result depends on.

    Lies in $XDG_CACHE_HOME/fedtempo, ~/.cache/fedtempo without it. A file that is damaged is made again; where nothing
    can be written, nothing is remembered. Files appear whole or not at all.
    """
    try:
        root = os.environ.get("XDG_CACHE_HOME")
        path = (Path(root) if root else Path.home() / ".cache") / "fedtempo" / f"{name}.json"
    except RuntimeError:  # there is no home
        return make()
    with contextlib.suppress(OSError, ValueError, RecursionError):
        digest, _, text = path.read_text(encoding="utf-8").partition("\n")
        if digest == hashlib.sha256(text.encode()).hexdigest():
            return json.loads(text)
    value = make()
    with contextlib.suppress(OSError):
        _write(path, json.dumps(value, ensure_ascii=False))
    return value


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, partial = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
            file.write(f"{hashlib.sha256(text.encode()).hexdigest()}\n{text}")
        os.replace(partial, path)
    except BaseException:
        os.unlink(partial)
        raise
