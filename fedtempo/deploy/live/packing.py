"""Compressed models and changes as arrays of bytes: what an encoder returns, then the running statistics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fedtempo.runtime.executors import Vector


def packed(data: bytes, statistics: Vector) -> Any:
    """Return an encoded vector and running statistics as one array of bytes."""
    tail = np.ascontiguousarray(statistics, dtype="<f4").view(np.uint8)
    return np.concatenate([np.frombuffer(data, np.uint8), tail])


def unpacked(array: Any, statistics: int, decode: Callable[[bytes], Vector]) -> Vector:
    """Return the vector that `packed` made an array of: what `decode` returns, then so many statistics.

    The bytes may come from anyone: raises ValueError if they are not such an array.
    """
    if array.dtype != np.uint8 or array.ndim != 1:
        raise ValueError(f"{array.dtype} of shape {array.shape}, not a row of bytes")
    data, length = array.tobytes(), array.size - 4 * statistics
    if length < 0:
        raise ValueError(f"{len(data)} bytes, too few for {statistics} running statistics")
    try:
        parameters = decode(data[:length])
    except Exception as error:
        raise ValueError(f"bytes that cannot be decoded: {error}") from error
    return np.concatenate([parameters, np.frombuffer(data[length:], dtype="<f4")]).astype(np.float32, copy=False)
