"""How much memory the content of a file may take, so that no small file fills the memory of whoever reads it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path

from fedtempo.errors import ConfigError
from fedtempo.parts.machine import memory, unmapped_bytes

LARGEST_BYTES = 2**31
"""The most bytes that the arrays of one data set may take."""

_SHARE = 4
"""Content may take this part of the memory: what is made of it afterwards takes as much again, and more."""

_ALWAYS_BYTES = 2**20

_LISTED = 16
"""What the list of tensors takes, bytes for each of its bytes: a name, a shape and an array for 60 bytes."""


def most_bytes() -> int:
    """Return the most bytes that the content of a file may take in memory: a quarter of what this process may use."""
    unmapped = unmapped_bytes()
    return (_usable() if unmapped is None else min(_usable(), unmapped)) // _SHARE


def must_fit(what: object, size: int, remedy: str = "", most: int | None = None) -> None:
    """Raise ConfigError if content of a file takes more bytes than memory allows, or than `most`.

    what: the file, or the content in words; size: in memory, bytes; remedy: what to do, the end of the error.
    """
    if (allowed := _allowed(size, most)) is not None:
        raise ConfigError(f"{what}: takes {size:,} bytes of memory, more than {allowed:,}{remedy and f'; {remedy}'}")


def text_array_must_fit(what: str, texts: Sequence[str]) -> None:
    """Do as `must_fit` for an array of NumPy, in which each text takes as much as the longest one."""
    size = 4 * max(map(len, texts), default=0) * len(texts)
    must_fit(what, size, "the longest text decides; shorten it")


def must_hold(what: str, size: int, most: int | None = None) -> None:
    """Do as `must_fit` for readers whose callers name the file. what: ends in "takes". Raises ValueError."""
    if (allowed := _allowed(size, most)) is not None:
        raise ValueError(f"{what} {size:,} bytes of memory, more than {allowed:,}")


def tensors_must_hold(path: Path) -> None:
    """Raise ValueError if the tensors of a safetensors file, or the list of them, take too much; OSError.

    Tensors fill their file and do not overlap (the library checks it), so they take no more than the file.
    """
    with path.open("rb") as file:
        header = int.from_bytes(file.read(8), "little")
    size = path.stat().st_size
    must_hold("its tensors take", size)
    must_hold("the list of its tensors takes", _LISTED * min(header, size))


def _allowed(size: int, most: int | None) -> int | None:
    """Return the number of bytes that a size exceeds; None if it is allowed."""
    if size <= _ALWAYS_BYTES and (most is None or size <= most):
        return None
    allowed = most_bytes() if most is None else min(most, most_bytes())
    return allowed if size > allowed else None


@cache
def _usable() -> int:
    usable = memory()
    return 2**62 if usable is None else usable.amount
