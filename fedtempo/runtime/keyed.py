"""Random generators that depend only on the seed, their purpose and their keys."""

from __future__ import annotations

import hashlib
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.random.bit_generator import ISeedSequence

Words = npt.NDArray[np.uint32]

# Constants of NumPy's SeedSequence (after O'Neill's seed_seq_fe), whose results NumPy promises not to change.
_POOL = 4
_INIT_A, _MULT_A = 0x43B0D7E5, 0x931E8875
_INIT_B, _MULT_B = 0x8B51F9DD, 0x58F38DED
_MIX_L, _MIX_R = np.uint32(0xCA01F9DD), np.uint32(0x4973F715)
_HALF = np.uint32(16)


@cache
def _words(purpose: str) -> tuple[int, int]:
    """Return a purpose as two 64-bit words, the same on every machine."""
    digest = hashlib.sha256(purpose.encode()).digest()
    return int.from_bytes(digest[:8], "little"), int.from_bytes(digest[8:16], "little")


def keyed_generator(seed: int, purpose: str, *keys: int) -> np.random.Generator:
    """Return a generator for `purpose` and integer `keys` (>= 0) under `seed`: equal arguments give equal draws."""
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(_entropy(seed, *_words(purpose), *keys))))


class ClientGenerators:
    """Makes `keyed_generator(seed, purpose, client)` for clients 0 to n_clients - 1 at a tenth of the cost.

    The initial states for all clients are computed together at the first call for a purpose.
    """

    def __init__(self, seed: int, n_clients: int) -> None:
        self._seed, self._n_clients = seed, n_clients
        self._states: dict[str, npt.NDArray[np.uint64]] = {}

    def __call__(self, purpose: str, client: int) -> np.random.Generator:
        states = self._states.get(purpose)
        if states is None:
            fixed = _entropy(self._seed, *_words(purpose))
            clients = np.arange(self._n_clients, dtype=np.uint32)
            entropy = [np.full(self._n_clients, word) for word in fixed] + [clients]
            states = self._states[purpose] = seed_states(entropy)
        return np.random.Generator(np.random.PCG64(_PrecomputedState(states[client])))  # type: ignore[arg-type]


class _PrecomputedState(ISeedSequence):
    """A seed sequence with a precomputed state for a PCG64."""

    def __init__(self, state: npt.NDArray[np.uint64]) -> None:
        self._state = state

    def generate_state(self, n_words: int, dtype: Any = np.uint32) -> npt.NDArray[np.uint64]:
        return self._state


def _entropy(*numbers: int) -> Words:
    """Return the 32-bit words of these numbers, lowest first, as SeedSequence splits them (but faster)."""
    words = []
    for number in map(int, numbers):
        if number < 0:
            raise ValueError(f"{number} cannot be the key of a generator: must be 0 or more")
        words.append(number & 0xFFFFFFFF)
        while number := number >> 32:
            words.append(number & 0xFFFFFFFF)
    return np.array(words, dtype=np.uint32)


def seed_states(entropy: list[Words]) -> npt.NDArray[np.uint64]:
    """Return `SeedSequence(words).generate_state(4, uint64)` for many sequences, shape (sequences, 4).

    entropy: the first word of all sequences, the second, and so on.
    """
    constant = _INIT_A

    def hashed(value: Words) -> Words:
        nonlocal constant
        value = value ^ np.uint32(constant)
        constant = constant * _MULT_A & 0xFFFFFFFF
        value = value * np.uint32(constant)
        return value ^ (value >> _HALF)

    def mixed(x: Words, y: Words) -> Words:
        value: Words = x * _MIX_L - y * _MIX_R
        return value ^ (value >> _HALF)

    zeros = np.zeros_like(entropy[0])
    pool = [hashed(entropy[i] if i < len(entropy) else zeros) for i in range(_POOL)]
    for source in range(_POOL):
        for target in range(_POOL):
            if source != target:
                pool[target] = mixed(pool[target], hashed(pool[source]))
    for word in entropy[_POOL:]:
        for target in range(_POOL):
            pool[target] = mixed(pool[target], hashed(word))
    constant = _INIT_B
    state = np.empty((len(zeros), 2 * _POOL), dtype="<u4")
    for column in range(2 * _POOL):
        value = pool[column % _POOL] ^ np.uint32(constant)
        constant = constant * _MULT_B & 0xFFFFFFFF
        value = value * np.uint32(constant)
        state[:, column] = value ^ (value >> _HALF)
    return state.view("<u8")
