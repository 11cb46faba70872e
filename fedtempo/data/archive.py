"""Read arrays from .npz archives. Nothing is trusted or unpickled, and no memory is allocated for absent data."""

from __future__ import annotations

import io
import math
import zipfile
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from fedtempo.errors import ConfigError
from fedtempo.parts.sizes import LARGEST_BYTES, must_hold

_LARGEST_LENGTH = 2**48
_LARGEST_HEADER = 10_000 + 12  # what NumPy allows, and where it begins


def read_npz(path: Path) -> dict[str, npt.NDArray[Any]]:
    """Return the arrays of an archive by name.

    Sizes are summed and headers checked before anything is unpacked. Raises ConfigError for a file that is missing or
    damaged, holds Python objects, or unpacks to more than memory allows.
    """
    try:
        with path.open("rb") as raw:
            with zipfile.ZipFile(raw) as archive:
                _check(archive, path.stat().st_size)
            raw.seek(0)
            with np.load(raw, allow_pickle=False) as arrays:
                return {name: arrays[name] for name in arrays.files}
    except Exception as error:  # a damaged archive raises errors of zipfile, zlib, struct, ast, ...
        raise ConfigError(f"{path}: not an .npz file of plain arrays ({error})") from error


def _check(archive: zipfile.ZipFile, size: int) -> None:
    """Raise ValueError unless an archive of this size, bytes, holds plain arrays that may be unpacked."""
    members = archive.infolist()
    if len({member.filename for member in members}) < len(members):
        raise ValueError("two of its arrays have the same name")
    if sum(member.compress_size for member in members) > size:
        raise ValueError("its arrays overlap each other")
    must_hold("its arrays take", sum(member.file_size for member in members))
    packed = sum(member.file_size for member in members if member.compress_type != zipfile.ZIP_STORED)
    must_hold("use numpy.savez: its compressed arrays take", packed, LARGEST_BYTES)
    for member in members:
        if member.compress_type == zipfile.ZIP_STORED and member.file_size > member.compress_size:
            raise ValueError(f"{member.filename} announces {member.file_size:,} bytes, more than the file can hold")
        with archive.open(member) as content:
            announced = _announced_bytes(io.BytesIO(content.read(_LARGEST_HEADER)))
        if announced > member.file_size:
            raise ValueError(f"{member.filename} announces {announced:,} bytes but holds {member.file_size:,}")


def _announced_bytes(content: IO[bytes]) -> int:
    """Return the size of an .npy file's array, bytes, according to its header."""
    readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    version = np.lib.format.read_magic(content)
    if version not in readers:
        raise ValueError(f"it has .npy format {version}, not 1.0 or 2.0")
    shape, _, dtype = readers[version](content)
    if dtype.hasobject:
        raise ValueError("it holds Python objects, but allow_pickle=False")
    if not all(0 <= length < _LARGEST_LENGTH for length in shape) or (not dtype.itemsize and 0 not in shape):
        raise ValueError(f"it announces the shape {shape} of {dtype}")
    return dtype.itemsize * math.prod(shape)
