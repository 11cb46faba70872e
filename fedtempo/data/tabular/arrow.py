"""Columns of pyarrow as arrays of NumPy. pyarrow's own `to_numpy` imports pandas if it is installed."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt


def values(column: Any, dtype: type[np.generic]) -> npt.NDArray[Any]:
    """Return the values of a column of numbers as `dtype`; what missing values become is undefined.

    column: a chunked array whose type can be cast to dtype.
    """
    kind = np.dtype(dtype)
    cast = column.cast(kind.name, safe=False)
    parts = [
        np.frombuffer(chunk.buffers()[1], kind, len(chunk), chunk.offset * kind.itemsize)
        for chunk in cast.chunks
        if len(chunk)
    ]
    return parts[0] if len(parts) == 1 else np.concatenate([np.empty(0, kind), *parts])


def mask(column: Any) -> npt.NDArray[np.bool_]:
    """Return a column of booleans, none of them missing."""
    return values(column, np.uint8).astype(np.bool_)


def numbers(column: Any) -> npt.NDArray[np.float64]:
    """Return the values of a column of numbers, NaN where they are missing."""
    found = values(column, np.float64)
    return np.where(mask(column.is_valid()), found, np.nan) if column.null_count else found
