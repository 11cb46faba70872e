"""Read arrays in NumPy's format from bytes that may come from anyone."""

from __future__ import annotations

import io
import math
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]

_MAX_HEADER_CHARS = 10_000
_MAX_DIMENSIONS = 16
_HEADERS: dict[Any, Any] = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}
_KINDS = "fiub"
"""Kinds of numbers that arrays may hold: floats, integers, truth values."""


def array_of(data: bytes) -> Array:
    """Return the array that bytes in .npy format hold. Needs no more memory than these bytes.

    Raises ValueError if they are not exactly one array of plain numbers, such as an .npz archive or a pickle.
    """
    stream = io.BytesIO(data)
    try:
        read_header = _HEADERS[np.lib.format.read_magic(stream)]
        shape, in_columns, dtype = read_header(stream, max_header_size=_MAX_HEADER_CHARS)
    except Exception as error:  # NumPy evaluates the header as a literal of Python, which fails in many ways
        raise ValueError(f"no array in NumPy's format: {type(error).__name__}: {error}") from error
    if dtype.kind not in _KINDS or len(shape) > _MAX_DIMENSIONS or min(shape, default=0) < 0:
        raise ValueError(f"an array of {dtype} with {len(shape)} dimensions")
    begin, size = stream.tell(), math.prod(shape) * dtype.itemsize
    if len(data) - begin != size:
        raise ValueError(f"an array of {size} bytes in {len(data) - begin}")
    flat = np.frombuffer(data, dtype, offset=begin).copy()
    return flat.reshape(shape, order="F" if in_columns else "C")
