"""Read arrays from .npz archives. Nothing is trusted or unpickled, and no memory is allocated for absent data."""

from __future__ import annotations

import math
import zipfile
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from fedtempo.errors import ConfigError

LARGEST_UNPACKED_BYTES = 2**31
"""Largest total size of compressed arrays; arrays that are not compressed are no larger than their file."""

_LARGEST_LENGTH = 2**48


def read_npz(path: Path) -> dict[str, npt.NDArray[Any]]:
    """Return the arrays of an archive by name.

    Headers are checked, also against the size of the file, before memory is allocated for announced sizes. Raises
    ConfigError for a file that is missing or damaged, holds Python objects, or unpacks to more than
    `LARGEST_UNPACKED_BYTES`.
    """
    try:
        with path.open("rb") as raw:
            with zipfile.ZipFile(raw) as archive:
                _check(archive)
            raw.seek(0)
            with np.load(raw, allow_pickle=False) as arrays:
                return {name: arrays[name] for name in arrays.files}
    except Exception as error:  # a damaged archive raises errors of zipfile, zlib, struct, ast, ...
        raise ConfigError(f"{path}: not an .npz file of plain arrays ({error})") from error


def _check(archive: zipfile.ZipFile) -> None:
    packed_bytes = 0
    for member in archive.infolist():
        if member.compress_type != zipfile.ZIP_STORED:
            packed_bytes += member.file_size
        elif member.file_size > member.compress_size:
            raise ValueError(f"{member.filename} announces {member.file_size:,} bytes, more than the file can hold")
        with archive.open(member) as content:
            if (announced := _announced_bytes(content)) > member.file_size:
                raise ValueError(f"{member.filename} announces {announced:,} bytes but holds {member.file_size:,}")
    if packed_bytes > LARGEST_UNPACKED_BYTES:
        raise ValueError(f"it unpacks to {packed_bytes:,} bytes, more than {LARGEST_UNPACKED_BYTES:,}; use numpy.savez")


def _announced_bytes(content: IO[bytes]) -> int:
    """Return the size of an .npy file's array, bytes, according to its header."""
    readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    version = np.lib.format.read_magic(content)
    if version not in readers:
        raise ValueError(f"it has .npy format {version}, not 1.0 or 2.0")
    shape, _, dtype = readers[version](content)
    if dtype.hasobject:
        raise ValueError("it holds Python objects, but allow_pickle=False")
    if not all(0 <= length < _LARGEST_LENGTH for length in shape):
        raise ValueError(f"it announces the shape {shape}")
    return dtype.itemsize * math.prod(shape)
