"""Shared memory between an executor and its workers: data placed once, and a pool of slots for models."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from multiprocessing.shared_memory import SharedMemory
from typing import Any

import numpy as np

from fedtempo.errors import RunError
from fedtempo.runtime.executors import Vector

Array = np.ndarray[Any, np.dtype[Any]]

_ALIGNMENT = 64
_CHUNK_BYTES = 16 * 2**20


class Segment(SharedMemory):
    """A block of shared memory that may be closed while arrays still show it: it is unmapped with the last of them."""

    def close(self) -> None:
        with contextlib.suppress(BufferError):
            super().close()


def create_segment(name: str, size: int) -> Segment:
    """A new block. Its pages are claimed at once, so that running out of memory is an error here and no crash later."""
    segment = Segment(name, create=True, size=max(size, 1))
    path = f"/dev/shm/{name}"
    try:
        if os.path.exists(path):
            descriptor = os.open(path, os.O_RDWR)
            try:
                os.posix_fallocate(descriptor, 0, max(size, 1))
            finally:
                os.close(descriptor)
    except OSError as error:
        segment.close()
        segment.unlink()
        raise RunError(
            f"no {size / 2**20:.1f} MiB of shared memory left in /dev/shm ({error.strerror}): enlarge it "
            "(docker run --shm-size), or use executor.kind = 'inline'"
        ) from error
    return segment


def segment_prefix() -> str:
    """A new name for an executor's shared memory."""
    return f"fedtempo-{os.getpid()}-{secrets.token_hex(4)}"


@dataclass(frozen=True)
class Placement:
    """Where arrays lie in one segment: for each name dtype, shape and offset. Small, and can be pickled."""

    segment: str
    arrays: Mapping[str, tuple[str, tuple[int, ...], int]]

    def views(self, segment: Segment) -> dict[str, Array]:
        """The arrays, in the segment's memory."""
        return {
            name: np.ndarray(shape, dtype, buffer=segment.buf, offset=offset)
            for name, (dtype, shape, offset) in self.arrays.items()
        }


def place(name: str, arrays: Mapping[str, Array]) -> tuple[Placement, Segment]:
    """Copy arrays into a new segment of this name."""
    found, end = {}, 0
    for key, array in arrays.items():
        found[key] = (array.dtype.str, array.shape, end)
        end += _aligned(array.nbytes)
    placement, segment = Placement(name, found), create_segment(name, end)
    for key, view in placement.views(segment).items():
        view[...] = arrays[key]
    return placement, segment


class Slots:
    """Slots of `size` float32 each in chunks of shared memory, by number. Chunks are made or attached as needed.

    Any process that knows `prefix` and `size` finds a slot by its number. Only the owner takes and frees slots.
    """

    def __init__(self, prefix: str, size: int) -> None:
        self._prefix, self._size = prefix, size
        self._stride = _aligned(4 * size)
        self._per_chunk = max(1, _CHUNK_BYTES // max(self._stride, 1))
        self._chunks: dict[int, tuple[Segment, Array]] = {}

    def view(self, slot: int) -> Vector:
        """The vector (size,) in a slot."""
        chunk, place = divmod(slot, self._per_chunk)
        if chunk not in self._chunks:
            self._add(chunk, Segment(self._name(chunk)))
        rows: Vector = self._chunks[chunk][1][place, : self._size]
        return rows

    def _name(self, chunk: int) -> str:
        return f"{self._prefix}-{chunk}"

    def _add(self, chunk: int, segment: Segment) -> None:
        shape = (self._per_chunk, self._stride // 4)
        self._chunks[chunk] = segment, np.ndarray(shape, np.float32, buffer=segment.buf)

    def close(self) -> None:
        """Detach from all chunks."""
        segments = [segment for segment, _ in self._chunks.values()]
        self._chunks.clear()
        for segment in segments:
            segment.close()


class SlotPool(Slots):
    """The owner's side: takes slots, frees them, and removes the memory in the end."""

    def __init__(self, prefix: str, size: int) -> None:
        super().__init__(prefix, size)
        self._free: list[int] = []
        self.slots_allocated = 0

    @property
    def slots_in_use(self) -> int:
        return self.slots_allocated - len(self._free)

    def take(self) -> Slot:
        """A free slot; a new chunk is made where there is none."""
        if not self._free:
            chunk = self.slots_allocated // self._per_chunk
            self._add(chunk, create_segment(self._name(chunk), self._per_chunk * self._stride))
            first, self.slots_allocated = self.slots_allocated, self.slots_allocated + self._per_chunk
            self._free = list(range(self.slots_allocated - 1, first - 1, -1))
        return Slot(self, self._free.pop())

    def free(self, slot: int) -> None:
        self._free.append(slot)

    def close(self) -> None:
        """Remove all chunks; slots cannot be read any more."""
        for segment, _ in self._chunks.values():
            segment.unlink()
        super().close()


class Slot:
    """Location of a model in a pool: the slot is free again when the last reference is gone."""

    __slots__ = ("_pool", "number")

    def __init__(self, pool: SlotPool, number: int) -> None:
        self._pool, self.number = pool, number

    def __del__(self) -> None:
        self._pool.free(self.number)


def _aligned(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT
