"""Read files in the IDX format of MNIST, plain or compressed with gzip. No file is trusted."""

from __future__ import annotations

import contextlib
import gzip
import math
import re
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, cast

import numpy as np
import numpy.typing as npt

from fedtempo.data.cache import Arrays, content_key, remembered_arrays
from fedtempo.data.dataset import Dataset, from_arrays
from fedtempo.errors import ConfigError
from fedtempo.parts.sizes import LARGEST_BYTES, must_fit

ByteArray = npt.NDArray[np.uint8]

_UNSIGNED_BYTE = 0x08
_GZIP_MAGIC = b"\x1f\x8b"
_GZIP_LARGEST_RATIO = 1032  # deflate: 258 bytes from 2 bits
_WORTH_KEEPING_BYTES = 2**20
_CONTENTS = (("images", 3), ("labels", 1))
"""Content and number of dimensions of the two files of a split."""


def read_idx(path: Path, dimensions: int) -> ByteArray:
    """Return the unsigned bytes of an IDX file with this number of dimensions.

    The header is checked, also against the size of the file, before memory is allocated for the announced size; a
    compressed file is unpacked no further than that. Raises ConfigError for a file that is missing, damaged, not IDX,
    of another type or number of dimensions, or larger than memory allows.
    """
    with _opened(path, dimensions) as (file, shape):
        size = math.prod(shape)
        must_fit(path, size, most=LARGEST_BYTES)
        content = file.read(size + 1)
    if len(content) != size:
        actual = "more" if len(content) > size else f"{len(content):,}"
        raise ConfigError(f"{path}: announces {size:,} bytes, shape {shape}, but holds {actual}")
    return np.frombuffer(content, dtype=np.uint8).reshape(shape)


@contextlib.contextmanager
def _opened(path: Path, dimensions: int) -> Iterator[tuple[IO[bytes], tuple[int, ...]]]:
    """Open an IDX file for the duration of the block: its bytes after the header, and its shape."""
    try:
        with path.open("rb") as raw:
            packed = raw.read(2) == _GZIP_MAGIC
        ratio = _GZIP_LARGEST_RATIO if packed else 1
        with gzip.open(path, "rb") if packed else path.open("rb") as file:
            shape = _shape(path, file.read(4 + 4 * dimensions), dimensions)
            if (size := math.prod(shape)) > ratio * path.stat().st_size:
                raise ConfigError(f"{path}: announces {size:,} bytes, shape {shape}, more than it can hold")
            yield cast(IO[bytes], file), shape
    except (OSError, EOFError, zlib.error) as error:
        raise ConfigError(f"{path}: not a readable IDX file ({error})") from error


def _size(path: Path, dimensions: int) -> int:
    """Return the size that an IDX file announces, bytes."""
    with _opened(path, dimensions) as (_, shape):
        return math.prod(shape)


def _shape(path: Path, header: bytes, dimensions: int) -> tuple[int, ...]:
    if len(header) < 4 + 4 * dimensions:
        raise ConfigError(f"{path}: too short for an IDX header of {dimensions} dimensions")
    magic, *shape = struct.unpack(f">{1 + dimensions}I", header)
    expected = _UNSIGNED_BYTE << 8 | dimensions
    if magic != expected:
        raise ConfigError(
            f"{path}: begins with {magic:#010x}; must be {expected:#010x} (bytes, {dimensions} dimensions)"
        )
    return tuple(shape)


def read_idx_folder(folder: Path, name: str) -> Dataset:
    """Return the data set of four IDX files in `folder`, named as those of MNIST, Fashion-MNIST or EMNIST.

    Names are {train,t10k,test}-{images-idx3,labels-idx1}-ubyte, after any prefix, with a hyphen or a dot before idx,
    with or without .gz. Large compressed files are decoded once and kept in the user's cache folder. Raises ConfigError
    for missing or bad files.
    """
    files = [
        _find(folder, split, what, dimensions) for split in ("train", "t10k|test") for what, dimensions in _CONTENTS
    ]

    def decoded() -> Arrays:
        must_fit(
            folder,
            sum(_size(file, dimensions) for file, (_, dimensions) in zip(files, 2 * _CONTENTS)),
            most=LARGEST_BYTES,
        )
        train, test = _pair(folder, "train", *files[:2]), _pair(folder, "test", *files[2:])
        data = from_arrays(name, *train, *test, task="classes")
        return {"train_x": data.train_x, "train_y": data.train_y, "test_x": data.test_x, "test_y": data.test_y}

    packed = sum(file.stat().st_size for file in files if file.suffix == ".gz")
    arrays = decoded() if packed < _WORTH_KEEPING_BYTES else remembered_arrays(content_key("idx", files), decoded)
    return from_arrays(name, arrays["train_x"], arrays["train_y"], arrays["test_x"], arrays["test_y"], task="classes")


def _pair(folder: Path, split: str, images_file: Path, labels_file: Path) -> tuple[ByteArray, ByteArray]:
    images, labels = read_idx(images_file, 3), read_idx(labels_file, 1)
    if len(images) != len(labels):
        raise ConfigError(f"{folder}: {len(images)} {split} images but {len(labels)} {split} labels")
    return images, labels


def _find(folder: Path, split: str, what: str, dimensions: int) -> Path:
    """Return the only file of this split and content; a plain file takes precedence over its compressed copy."""
    wanted = re.compile(rf"(.*-)?({split})-{what}[-.]idx{dimensions}-ubyte(\.gz)?")
    try:
        matching = {path.name: path for path in sorted(folder.iterdir()) if wanted.fullmatch(path.name)}
    except OSError as error:
        raise ConfigError(f"{folder}: not a readable folder ({error})") from error
    chosen = [path for name, path in matching.items() if not name.endswith(".gz") or name[:-3] not in matching]
    if len(chosen) != 1:
        example = f"{split.split('|')[0]}-{what}-idx{dimensions}-ubyte"
        actual = f"{len(chosen)} match: {', '.join(path.name for path in chosen)}" if chosen else "none matches"
        raise ConfigError(f"{folder}: needs one file named like {example} (or .gz); {actual}")
    return chosen[0]
