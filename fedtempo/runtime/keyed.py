"""Random generators that depend on nothing but what they are for."""

from __future__ import annotations

import hashlib
from functools import cache

import numpy as np


@cache
def _words(purpose: str) -> tuple[int, int]:
    """A purpose as two 64-bit words, the same on every machine."""
    digest = hashlib.sha256(purpose.encode()).digest()
    return int.from_bytes(digest[:8], "little"), int.from_bytes(digest[8:16], "little")


def keyed_generator(seed: int, purpose: str, *keys: int) -> np.random.Generator:
    """A generator for `purpose` and integer `keys` (>= 0) under `seed`: equal arguments, equal draws."""
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, *_words(purpose), *keys])))
