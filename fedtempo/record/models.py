"""Models on disk: while a run lasts, in files named by the hash of their parameters; after it, as named tensors."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fedtempo.errors import RunError
from fedtempo.parts.sizes import tensors_must_hold
from fedtempo.parts.text_files import parse_json
from fedtempo.record.reading import inside
from fedtempo.record.strict_json import sync_folder

Vector = npt.NDArray[np.float32]
Array = npt.NDArray[Any]

_SUFFIX = ".safetensors"
_NEW = ".new"
_HASH = re.compile("[0-9a-f]{64}")


def model_sha256(model: Vector) -> str:
    """Return the SHA-256 of flat parameters as little-endian float32 values."""
    return hashlib.sha256(np.ascontiguousarray(model, dtype="<f4").data).hexdigest()


class ModelFiles:
    """A folder of models, created with the first model. Every method raises RunError naming the file.

    `add` writes a model, and `sync` gives it its final name, which only models that are surely on disk have: waiting
    for the disk takes longer than writing.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._added: set[str] = set()

    def path(self, sha256: str) -> Path:
        """Return the path of the model with this hash, whether or not it exists."""
        return self._folder / f"{sha256}{_SUFFIX}"

    def add(self, model: Vector) -> str:
        """Write a flat model unless it exists and return its hash. It appears, complete, with the next `sync`."""
        from safetensors.numpy import save

        sha256 = model_sha256(model)
        path = self.path(sha256)
        if sha256 in self._added or path.exists():
            return sha256
        try:
            if not self._folder.exists():
                self._folder.mkdir()
                sync_folder(self._folder.parent)
            try:
                _new(path).write_bytes(save({"state": np.ascontiguousarray(model, dtype="<f4")}))
            except BaseException:
                _new(path).unlink(missing_ok=True)
                raise
        except OSError as error:
            raise RunError(f"{path} could not be written: {error.strerror or error}") from error
        self._added.add(sha256)
        return sha256

    def sync(self) -> None:
        """Make sure that all models added so far are on disk and survive a crash of the machine."""
        for sha256 in sorted(self._added):
            path = self.path(sha256)
            try:
                with _new(path).open("r+b") as file:
                    os.fsync(file.fileno())
                os.replace(_new(path), path)
            except OSError as error:
                raise RunError(f"{path} could not be written: {error.strerror or error}") from error
        self._added.clear()
        if self._folder.exists():
            sync_folder(self._folder)

    def read(self, sha256: str) -> Vector:
        """Return the flat model with this hash. Raises RunError if it is missing or does not match its name."""
        from safetensors import SafetensorError
        from safetensors.numpy import load

        path = self.path(sha256)
        try:
            tensors_must_hold(path)
            model: Any = load(path.read_bytes())["state"]
        except OSError as error:
            raise RunError(f"{path} could not be read: {error.strerror or error}") from error
        except (SafetensorError, ValueError, KeyError, TypeError) as error:
            raise RunError(f"{path} is damaged: {error}") from error
        if model_sha256(model) != sha256:
            raise RunError(f"{path} is damaged: its parameters do not have the hash in its name")
        vector: Vector = model
        return vector

    def names(self) -> set[str]:
        """Return the hashes of all models in the folder."""
        return {path.stem for path in self._folder.glob(f"*{_SUFFIX}") if _HASH.fullmatch(path.stem)}

    def keep(self, hashes: Collection[str]) -> None:
        """Delete all models except these, and half-written files of killed processes; leave named models alone."""
        if not self._folder.exists():
            return
        for path in self._folder.iterdir():
            named = not _HASH.fullmatch(path.stem)
            if path.suffix == _NEW or (path.suffix == _SUFFIX and not named and path.stem not in hashes):
                with contextlib.suppress(OSError):  # a leftover only takes space
                    path.unlink()


def write_arrays(path: Path, arrays: Mapping[str, Array], metadata: Mapping[str, str]) -> None:
    """Write arrays by name as a safetensors file, which appears complete and on disk. Raises RunError naming it.

    The same arrays and metadata give the same bytes.
    """
    from safetensors.numpy import save

    content = _with_sorted_metadata(save(dict(arrays), dict(metadata)))
    write_file(path, lambda new: new.write_bytes(content))
    sync_folder(path.parent)


def _with_sorted_metadata(content: bytes) -> bytes:
    """Return a safetensors file with its metadata in the order of their names; the library's order is random."""
    start = 8 + int.from_bytes(content[:8], "little")
    table = parse_json(content[8:start])
    table["__metadata__"] = dict(sorted(table.get("__metadata__", {}).items()))
    header = json.dumps(table, separators=(",", ":"), ensure_ascii=False).encode()
    header += b" " * (-len(header) % 8)  # as the library aligns the tensors
    return len(header).to_bytes(8, "little") + header + content[start:]


def write_file(path: Path, write: Callable[[Path], Any]) -> None:
    """Write a file of any size under a temporary name, wait until it is on disk, and rename it to `path`.

    Its folder is made if necessary; a link at `path` is replaced, not followed. Raises RunError naming the file.
    """
    new = path.with_name(f".{path.name}{_NEW}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            new.unlink(missing_ok=True)
            write(new)
            with new.open("r+b") as file:
                os.fsync(file.fileno())
            os.replace(new, path)
        except BaseException:
            new.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise RunError(f"{path} could not be written: {error.strerror or error}") from error


def read_arrays(folder: Path, name: str) -> tuple[dict[str, Array], dict[str, str]] | None:
    """Return the arrays of a safetensors file in a folder, by name, and its metadata; None if it does not exist.

    The folder may come from anybody. Raises ConfigError if the file lies outside it or is no plain file, RunError if it
    cannot be read.
    """
    from safetensors import SafetensorError, safe_open

    path = inside(folder, name)
    if path is None:
        return None
    try:
        tensors_must_hold(path)
        with safe_open(path, framework="numpy") as file:
            return {key: file.get_tensor(key) for key in file.keys()}, file.metadata() or {}  # noqa: SIM118  no mapping
    except (OSError, MemoryError) as error:
        raise RunError(f"{path} could not be read: {getattr(error, 'strerror', None) or error}") from error
    except (SafetensorError, ValueError, TypeError, AttributeError) as error:
        raise RunError(f"{path} is damaged: {error}") from error


def _new(path: Path) -> Path:
    """Return the name of a model's file before it is surely on disk."""
    return path.with_suffix(_NEW)
