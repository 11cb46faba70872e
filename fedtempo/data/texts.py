"""Text as its UTF-8 bytes, 0 to 255, so that no language needs a vocabulary."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from fedtempo.data.dataset import Dataset, IntArray, from_arrays
from fedtempo.data.splitting import TEST_SHARE, check_share
from fedtempo.errors import ConfigError
from fedtempo.parts.natural_order import listed, natural
from fedtempo.parts.sizes import must_fit
from fedtempo.parts.text_files import read_plain

SYMBOLS = 256
_LARGEST_BYTES = 2**28
_SYMBOL_BYTES = 8


def text(path: str, length: int = 80, stride: int | None = None, test_share: float = TEST_SHARE) -> Dataset:
    """The text of a file, or of all .txt files in a folder, each a client; the task is to predict each next byte.

    An example is `length` bytes; its labels are the bytes that follow each of them. Examples begin `stride` bytes apart
    (default: `length`). The last test_share of each file is for testing, and no example spans training and test bytes.

    Raises ConfigError naming a file that cannot be read or is too short.
    """
    check_share(test_share)
    for name, value in (("length", length), ("stride", stride)):
        if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
            raise ConfigError(f"{name} = {value!r}: must be a whole number, 1 or more")
    root = Path(path).expanduser()
    files = sorted(root.rglob("*.txt"), key=lambda file: natural(file.as_posix())) if root.is_dir() else [root]
    if not files:
        raise ConfigError(f"{root}: no .txt file in this folder")
    size = sum(file.stat().st_size for file in files if file.is_file())
    must_fit(root, _SYMBOL_BYTES * max(1, math.ceil(length / (stride or length))) * size, "set a larger stride")
    train: list[IntArray] = []
    test: list[IntArray] = []
    owners: list[IntArray] = []
    test_owners: list[IntArray] = []
    for owner, file in enumerate(files):
        content = _read(file)
        cut = round((1 - test_share) * len(content))
        for part, rows in ((content[:cut], train), (content[cut:], test)):
            if len(part) <= length and (rows is train or test_share):
                raise ConfigError(f"{file}: {len(part)} bytes for one side are too few for an example of {length}")
            rows.append(blocks(part, length, stride or length))
        owners.append(np.full(len(train[-1]), owner))
        test_owners.append(np.full(len(test[-1]), owner))
    learn, check = np.concatenate(train), np.concatenate(test)
    names = tuple(file.relative_to(root).as_posix() for file in files) if root.is_dir() else ()
    return from_arrays(
        f"text:{path}",
        learn[:, :-1],
        learn[:, 1:],
        check[:, :-1],
        check[:, 1:],
        SYMBOLS,
        np.concatenate(owners) if names else None,
        np.concatenate(test_owners) if names else None,
        task="tokens",
        owner_names=names,
        about=f"each next byte of {length}"
        + (f", a file for each of {len(names)} clients: {listed(names)}" if names else ""),
    )


def blocks(content: IntArray, length: int, stride: int) -> IntArray:
    """Return windows of `length` + 1 bytes that begin `stride` bytes apart, shape (windows, length + 1)."""
    if len(content) <= length:
        return np.empty((0, length + 1), dtype=content.dtype)
    return np.lib.stride_tricks.sliding_window_view(content, length + 1)[::stride]


def encoded(rows: Iterable[str]) -> IntArray:
    """Return the bytes of all texts, joined by newlines."""
    return np.frombuffer("\n".join(rows).encode(), dtype=np.uint8).astype(np.int64)


def padded(rows: Iterable[str], length: int) -> IntArray:
    """Return the first `length` bytes of each text, padded with zeros, shape (rows, length)."""
    cut = [row.encode()[:length].ljust(length, b"\0") for row in rows]
    return np.frombuffer(b"".join(cut), dtype=np.uint8).reshape(-1, length).astype(np.int64)


def _read(file: Path) -> IntArray:
    try:
        return np.frombuffer(read_plain(file, _LARGEST_BYTES), dtype=np.uint8).astype(np.int64)
    except (OSError, ValueError) as error:
        raise ConfigError(f"{file}: cannot be read: {getattr(error, 'strerror', None) or error}") from error
