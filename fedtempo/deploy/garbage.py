"""Garbage collection in programs that wait for requests, for days."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator

_THRESHOLDS = (700, 10, 10)
"""Python's own."""


@contextlib.contextmanager
def frequent_collections() -> Iterator[None]:
    """Collect cyclic garbage often inside the block, without looking at what exists already, such as modules.

    Every HTTP request leaves some 7 kB in cycles. Fedtempo's commands start with rare collections, because imports make
    many objects and no garbage; with these, a program that polls would hold tens of megabytes of garbage.
    """
    thresholds = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(*_THRESHOLDS)
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
        gc.unfreeze()
