"""Models on the disk, each in a file whose name is the hash of its parameters."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fedtempo.errors import RunError
from fedtempo.record.strict_json import sync_folder

Vector = npt.NDArray[np.float32]

_SUFFIX = ".safetensors"
_NEW = ".new"


def model_sha256(model: Vector) -> str:
    """Hash of flat parameters: SHA-256 over their little-endian float32 values."""
    return hashlib.sha256(np.ascontiguousarray(model, dtype="<f4").data).hexdigest()


class ModelFiles:
    """A folder of models; it is made when the first one comes. Every method raises RunError naming the file.

    A model is written when it is added, and has its name when `sync` returns: names are for what is surely on the disk,
    and waiting for that takes longer than writing.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._added: set[str] = set()

    def path(self, sha256: str) -> Path:
        """Where the model of this hash lies, if it is there."""
        return self._folder / f"{sha256}{_SUFFIX}"

    def add(self, model: Vector) -> str:
        """Write a flat model, unless it is there; returns its hash. With `sync` it is there, whole or not at all."""
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
        """Make sure that all models added so far stay there, whatever happens to the machine."""
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
        """The flat model of this hash. Raises RunError where it is missing or is not what its name says."""
        from safetensors import SafetensorError
        from safetensors.numpy import load

        path = self.path(sha256)
        try:
            model: Any = load(path.read_bytes())["state"]
        except OSError as error:
            raise RunError(f"{path} could not be read: {error.strerror or error}") from error
        except (SafetensorError, ValueError, KeyError, TypeError) as error:
            raise RunError(f"{path} is damaged: {error}") from error
        if model_sha256(model) != sha256:
            raise RunError(f"{path} is damaged: its parameters do not have the hash that is its name")
        vector: Vector = model
        return vector

    def names(self) -> set[str]:
        """Hashes of the models that are there."""
        return {path.stem for path in self._folder.glob(f"*{_SUFFIX}")}

    def keep(self, hashes: Collection[str]) -> None:
        """Delete all models but these, and what a killed process left half-written."""
        if not self._folder.exists():
            return
        for path in self._folder.iterdir():
            if path.suffix == _NEW or (path.suffix == _SUFFIX and path.stem not in hashes):
                with contextlib.suppress(OSError):  # it costs room, nothing else
                    path.unlink()


def _new(path: Path) -> Path:
    """What a model's file is called before it is surely on the disk."""
    return path.with_suffix(_NEW)
