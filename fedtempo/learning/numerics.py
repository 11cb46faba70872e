"""Settings of PyTorch that decide bits: threads, denormal numbers, random state. Set for a while, then put back."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def fixed_numerics() -> Iterator[None]:
    """One thread, denormal numbers flushed to zero: the same arithmetic in every process.

    Sums are split by thread count, so a result would depend on it; and a second thread on a busy machine costs far
    more than it brings. Denormals slow training by an order of magnitude and carry nothing.
    """
    threads = torch.get_num_threads()
    flushes = _flushes_denormals()
    if threads != 1:
        torch.set_num_threads(1)
    if not flushes:
        torch.set_flush_denormal(True)
    try:
        yield
    finally:
        if threads != 1:
            torch.set_num_threads(threads)
        if not flushes:
            torch.set_flush_denormal(False)


@contextmanager
def torch_seed(seed: int) -> Iterator[None]:
    """Seed PyTorch's CPU generator (dropout, initial weights), and put its state back afterwards."""
    generator = torch.default_generator
    state = generator.get_state()
    generator.manual_seed(seed)
    try:
        yield
    finally:
        generator.set_state(state)


def _flushes_denormals() -> bool:
    """The processor's setting, which PyTorch cannot report, also rules Python's own floats."""
    half_of_smallest_normal = sys.float_info.min / 2
    return half_of_smallest_normal == 0.0
