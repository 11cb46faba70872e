"""What the C library does with memory that a step of training frees."""

from __future__ import annotations

import ctypes
import sys
from functools import cache

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # of glibc's malloc.h
_KEPT_BYTES = 128 << 20
_LARGEST_MMAP_THRESHOLD = 32 << 20


@cache
def keep_freed_memory() -> None:
    """Let this process keep up to 128 MiB of freed memory for its next allocations, where it runs on glibc.

    As it is, glibc hands large blocks back at once and asks the system for them again at the next step, which clears
    them page by page: some 4 % of a step of LeNet.
    """
    if sys.platform != "linux":
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:  # musl has none
        mallopt(_TRIM_THRESHOLD, _KEPT_BYTES)
        mallopt(_MMAP_THRESHOLD, _LARGEST_MMAP_THRESHOLD)
