"""The order in which the group planner prefers clients, and iteration over a mask in that order."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable

import numpy as np

Preference = tuple[int, int, int, int, int]
"""(booked ticks, duration, client, the client's bit, its cluster's bit): smaller ones are preferred.

A plain tuple: unpacking a named tuple takes twice as long, and a search spends most of its time on it.
"""

_SHORT = 512
"""Bits. Longer masks are expanded to one byte per bit, since operations on them slow down with their length."""


class Order:
    """Clients sorted by preference."""

    def __init__(self, preferences: Iterable[Preference]) -> None:
        self._sorted = sorted(preferences)
        self._of = {preference[2]: preference for preference in self._sorted}
        self._all = max(self._of, default=-1) + 1
        self._in: dict[int, list[Preference]] = {}
        for preference in self._sorted:
            self._in.setdefault(preference[4], []).append(preference)

    def __len__(self) -> int:
        return len(self._sorted)

    def put(self, preference: Preference) -> None:
        """Insert a client."""
        insort(self._sorted, preference)
        insort(self._in[preference[4]], preference)
        self._of[preference[2]] = preference

    def drop(self, client: int) -> None:
        """Remove a client."""
        preference = self._of.pop(client)
        for preferences in (self._sorted, self._in[preference[4]]):
            del preferences[bisect_left(preferences, preference)]

    def least(self, cluster_bit: int) -> list[Preference]:
        """Return the two most preferred clients of a cluster, or fewer if it has fewer."""
        return self._in.get(cluster_bit, [])[:2]

    def among(self, clients: int) -> Iterable[Preference]:
        """Return the clients of a mask, all of which must be present, in order of preference."""
        if clients.bit_count() ** 2 < len(self._sorted):  # sorting a few is faster than scanning all
            return sorted(map(self._of.__getitem__, positions(clients)))
        if clients.bit_length() <= _SHORT:
            return (preference for preference in self._sorted if clients & preference[3])
        flags = _flags(clients).tobytes().ljust(self._all, b"\0")
        return (preference for preference in self._sorted if flags[preference[2]])


def positions(mask: int) -> list[int]:
    """Return the positions of the set bits in ascending order."""
    if mask.bit_length() > _SHORT:
        return np.flatnonzero(_flags(mask)).tolist()
    bits = []
    while mask:
        lowest = mask & -mask
        bits.append(lowest.bit_length() - 1)
        mask ^= lowest
    return bits


def _flags(mask: int) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    """Return the bits of a mask as 0 and 1, lowest first, padded to whole bytes."""
    octets = np.frombuffer(mask.to_bytes(-(-mask.bit_length() // 8), "little"), np.uint8)
    return np.unpackbits(octets, bitorder="little")
