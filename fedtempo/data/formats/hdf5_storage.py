"""How an array lies in an HDF5 file: what its C library would take to read it, which h5py cannot limit."""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fedtempo.errors import ConfigError
from fedtempo.parts.sizes import most_bytes, must_fit

_FILTERS = {1: "gzip", 2: "shuffle", 3: "fletcher32", 32000: "lzf"}
"""Filters by their numbers in HDF5."""
_GZIP = 1
_COMPRESSING = (_GZIP, 32000)
_GZIP_LARGEST_RATIO = 1032
_LARGEST_CHUNK_BYTES = 2**27


def must_be_stored_plainly(file: Path, part: Any) -> None:
    """Raise ConfigError if reading an array may take much more memory than the array.

    That is so for large chunks, of which a whole one is unpacked for each value, for several filters that compress,
    and for a chunk that unpacks to more than its size: the library unpacks it nevertheless.
    """
    if part.chunks is None:
        return
    chunk = math.prod(part.chunks) * part.dtype.itemsize
    must_fit(f"{file}: a chunk of {part.name}", chunk, "write smaller chunks", _LARGEST_CHUNK_BYTES)
    created = part.id.get_create_plist()
    filters = [created.get_filter(i)[0] for i in range(created.get_nfilters())]
    unknown = [number for number in filters if number not in _FILTERS]
    if unknown or sum(number in _COMPRESSING for number in filters) > 1 or len(filters) > len(_FILTERS):
        shown = ", ".join(_FILTERS.get(number, str(number)) for number in filters)
        raise ConfigError(f"{file}: {part.name} has the filters {shown}; it may have gzip or lzf once, and no others")
    allowed = max(2 * chunk, most_bytes() // 8)
    for number in range(part.id.get_num_chunks() if _GZIP in filters else 0):
        stored = part.id.get_chunk_info(number)
        if stored.size * _GZIP_LARGEST_RATIO > allowed:
            _, content = part.id.read_direct_chunk(stored.chunk_offset)
            unpacker = zlib.decompressobj()
            unpacker.decompress(content, 2 * chunk + 1)
            if not unpacker.eof:
                raise ConfigError(f"{file}: a chunk of {part.name} unpacks to more than {chunk:,} bytes")


def blocks_of(part: Any) -> Iterator[list[Any]]:
    """Yield the values of an array of texts, (n,), in blocks that take little memory.

    Texts of variable length may all be the same bytes of the file.
    """
    size = max(1, part.file.id.get_filesize())
    rows = max(1, min(_LARGEST_CHUNK_BYTES, most_bytes()) // size)
    for begin in range(0, len(part), rows):
        yield part[begin : begin + rows].tolist()
