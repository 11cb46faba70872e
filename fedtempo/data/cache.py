"""Cache results that take a while to compute in the user's cache folder, which may be missing or deleted."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fedtempo.data.cache_dir import cache_folder
from fedtempo.parts.text_files import parse_json, read_text

Arrays = dict[str, npt.NDArray[Any]]

_DIGESTS = "sha256.json"
"""File beside cached arrays: the hash of each one's file."""


def remembered(name: str, make: Callable[[], Any]) -> Any:
    """Return `make()` (JSON values), or its cached result; `name` must include everything that the result depends on.

    Files lie in `cache_dir.cache_folder`. A damaged file is made again; if nothing can be written, nothing is cached.
    Files appear whole or not at all.
    """
    path = _path(f"{name}.json")
    if path is None:
        return make()
    with contextlib.suppress(OSError, ValueError):
        digest, _, text = read_text(path).partition("\n")
        if digest == hashlib.sha256(text.encode()).hexdigest():
            return parse_json(text)
    value = make()
    with contextlib.suppress(OSError):
        text = json.dumps(value, ensure_ascii=False)
        _write(path, f"{hashlib.sha256(text.encode()).hexdigest()}\n{text}".encode())
    return value


def remembered_arrays(name: str, make: Callable[[], Arrays]) -> Arrays:
    """Do as `remembered` for arrays by name. Cached arrays are read-only memory maps that several runs share."""
    folder = _path(name)
    if folder is None:
        return make()
    with contextlib.suppress(OSError, ValueError, EOFError):
        digests = parse_json(read_text(folder / _DIGESTS))
        files = {file.stem: file for file in sorted(folder.glob("*.npy"))}
        if {stem: _digest(file).hexdigest() for stem, file in files.items()} == digests:
            return {stem: np.load(file, mmap_mode="r", allow_pickle=False) for stem, file in files.items()}
    value = make()
    with contextlib.suppress(OSError):
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{name}.") as partial:
            for key, array in value.items():
                np.save(Path(partial, key), array, allow_pickle=False)
            digests = {key: _digest(Path(partial, f"{key}.npy")).hexdigest() for key in value}
            Path(partial, _DIGESTS).write_text(json.dumps(digests), encoding="utf-8")
            shutil.rmtree(folder, ignore_errors=True)
            os.replace(partial, folder)
    return value


def content_key(kind: str, files: Iterable[Path], *options: object) -> str:
    """Return the name for caching what is computed from files: it depends on their content, not on their paths.

    kind: of the result, with a version; options: what else it depends on. Raises OSError if a file cannot be read.
    """
    digest = hashlib.sha256(repr(options).encode())
    for file in files:
        digest.update(_digest(file).digest())
    return f"{kind}-{digest.hexdigest()[:32]}"


def _digest(file: Path) -> hashlib._Hash:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256")


def _path(name: str) -> Path | None:
    """Return the path of a cached file; None if the user has no home."""
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
