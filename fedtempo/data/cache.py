"""What takes a while to work out, kept in the user's cache folder: a convenience that may be missing or deleted."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fedtempo.data.cache_dir import cache_folder

Arrays = dict[str, npt.NDArray[Any]]


def remembered(name: str, make: Callable[[], Any]) -> Any:
    """`make()` (JSON values), or what it gave the last time under this name; name whatever the result depends on.

    Lies in the user's cache folder (`places.cache_folder`). A file that is damaged is made again; where nothing can be
    written, nothing is remembered. Files appear whole or not at all.
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
    """As `remembered`, for arrays by name: read-only, mapped into memory, so that several runs hold them once."""
    folder = _path(name)
    if folder is None:
        return make()
    with contextlib.suppress(OSError, ValueError, EOFError):
        files = sorted(folder.glob("*.npy"))
        if files:
            return {file.stem: np.load(file, mmap_mode="r", allow_pickle=False) for file in files}
    value = make()
    with contextlib.suppress(OSError):
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{name}.") as partial:
            for key, array in value.items():
                np.save(Path(partial, key), array, allow_pickle=False)
            shutil.rmtree(folder, ignore_errors=True)
            os.replace(partial, folder)
    return value


def _path(name: str) -> Path | None:
    """Where a file of this name is kept; None where there is no home."""
    folder = cache_folder()
    return None if folder is None else folder / name


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
