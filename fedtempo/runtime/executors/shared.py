"""Shared memory between an executor and its workers: the data, stored once, and a pool of slots for models."""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from multiprocessing.shared_memory import SharedMemory
from typing import Any

import numpy as np

from fedtempo.errors import RunError, too_many_files
from fedtempo.parts import leftovers
from fedtempo.runtime.executors import Vector

Array = np.ndarray[Any, np.dtype[Any]]

_ALIGNMENT = 64
_CHUNK_BYTES = 16 * 2**20


class Segment:
    """A block of shared memory. It stays mapped exactly until the last array in it is gone."""

    def __init__(self, memory: SharedMemory) -> None:
        self._memory = memory

    @classmethod
    def create(cls, name: str, size: int) -> Segment:
        """Create a block. Its pages are allocated now, so that a lack of memory is an error here, not a crash later."""
        path, memory = leftovers.SHARED_MEMORY / name, None
        try:
            memory = SharedMemory(name, create=True, size=max(size, 1))
            if path.exists():
                descriptor = os.open(path, os.O_RDWR)
                try:
                    os.posix_fallocate(descriptor, 0, max(size, 1))
                finally:
                    os.close(descriptor)
        except OSError as error:
            if memory is not None:
                memory.unlink()
            if error.errno in (errno.EMFILE, errno.ENFILE):
                raise RunError(too_many_files()) from error
            raise RunError(
                f"no {size / 2**20:.1f} MiB of shared memory left in /dev/shm ({error.strerror}): enlarge it "
                "(docker run --shm-size), or use executor.kind = 'inline'"
            ) from error
        return cls(memory)

    @classmethod
    def attach(cls, name: str) -> Segment:
        """Open the block that another process created."""
        return cls(SharedMemory(name))

    def array(self, shape: tuple[int, ...], dtype: str | np.dtype[Any], offset: int = 0) -> Array:
        """Return part of the block as an array."""
        return np.asarray(_MemoryOwner(np.ndarray(shape, dtype, buffer=self._memory.buf, offset=offset), self._memory))

    def unlink(self) -> None:
        """Remove the block's name; the block is freed when nobody has it mapped."""
        self._memory.unlink()


class _MemoryOwner:
    """Owner of an array in shared memory; with NumPy alone the memory could be unmapped under the array."""

    def __init__(self, array: Array, memory: SharedMemory) -> None:
        self.__array_interface__ = array.__array_interface__
        self._memory = memory


def segment_prefix() -> str:
    """Return a new name for an executor's shared memory, after removing what killed processes left there."""
    leftovers.remove_leftovers()
    return f"{leftovers.prefix()}{secrets.token_hex(4)}"


@dataclass(frozen=True)
class Placement:
    """Positions of arrays in one segment: dtype, shape and offset by name. Small and picklable."""

    segment: str
    arrays: Mapping[str, tuple[np.dtype[Any], tuple[int, ...], int]]

    def views(self, segment: Segment) -> dict[str, Array]:
        """Return the arrays in the segment's memory, without copies."""
        return {name: segment.array(shape, dtype, offset) for name, (dtype, shape, offset) in self.arrays.items()}


def place(name: str, arrays: Mapping[str, Array]) -> tuple[Placement, Segment]:
    """Copy arrays into a new segment of this name."""
    positions, end = {}, 0
    for key, array in arrays.items():
        positions[key] = (array.dtype, array.shape, end)
        end += _aligned(array.nbytes)
    placement, segment = Placement(name, positions), Segment.create(name, end)
    for key, view in placement.views(segment).items():
        view[...] = arrays[key]
    return placement, segment


class Slots:
    """Numbered slots of `size` float32 each, in chunks of shared memory that are created or attached as needed.

    Any process that knows `prefix` and `size` can find a slot by its number. Only the owner takes and frees slots.
    """

    def __init__(self, prefix: str, size: int) -> None:
        self._prefix, self._size = prefix, size
        self._stride = _aligned(4 * size)
        self._per_chunk = max(1, _CHUNK_BYTES // max(self._stride, 1))
        self._chunks: dict[int, tuple[Segment, Vector]] = {}

    def view(self, slot: int) -> Vector:
        """Return the vector (size,) in a slot."""
        chunk, row = divmod(slot, self._per_chunk)
        if chunk not in self._chunks:
            self._add(chunk, Segment.attach(self._name(chunk)))
        return self._chunks[chunk][1][row, : self._size]

    def _name(self, chunk: int) -> str:
        return f"{self._prefix}-{chunk}"

    def _add(self, chunk: int, segment: Segment) -> None:
        shape = (self._per_chunk, self._stride // 4)
        self._chunks[chunk] = segment, segment.array(shape, "f4")


class SlotPool(Slots):
    """The owner's slots: takes and frees them, and removes the memory at the end. peak: most slots ever in use."""

    def __init__(self, prefix: str, size: int) -> None:
        super().__init__(prefix, size)
        self._free: list[int] = []
        self.slots_allocated = 0
        self.peak = 0

    @property
    def bytes_allocated(self) -> int:
        """Memory of all slots, including free ones."""
        return self.slots_allocated * self._stride

    @property
    def slots_in_use(self) -> int:
        return self.slots_allocated - len(self._free)

    def take(self) -> Slot:
        """Take a free slot; if there is none, create a chunk."""
        if not self._free:
            chunk = self.slots_allocated // self._per_chunk
            self._add(chunk, Segment.create(self._name(chunk), self._per_chunk * self._stride))
            first, self.slots_allocated = self.slots_allocated, self.slots_allocated + self._per_chunk
            self._free = list(range(self.slots_allocated - 1, first - 1, -1))
        slot = Slot(self, self._free.pop())
        self.peak = max(self.peak, self.slots_in_use)
        return slot

    def free(self, slot: int) -> None:
        self._free.append(slot)

    def close(self) -> None:
        """Remove all chunks; no slot can be taken or read afterwards."""
        for segment, _ in self._chunks.values():
            segment.unlink()
        self._chunks.clear()


class Slot:
    """Location of a model in a pool; the slot is freed when the last reference is gone."""

    __slots__ = ("_pool", "number")

    def __init__(self, pool: SlotPool, number: int) -> None:
        self._pool, self.number = pool, number

    def __del__(self) -> None:
        self._pool.free(self.number)


def _aligned(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT
