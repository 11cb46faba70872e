"""The order in which a group's planner prefers clients, and the clients of a mask in that order."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable

import numpy as np

Preference = tuple[int, int, int, int, int]
"""(booked ticks, duration, client, the client's bit, its cluster's bit): smaller ones go first.

A plain tuple, since taking apart a named one takes twice as long and is most of what a search does.
"""

_SHORT = 512
"""Bits. Operations on longer masks take a time that grows with them, so they are looked at bit by bit in bytes."""


class Order:
    """Clients by preference."""

    def __init__(self, preferences: Iterable[Preference]) -> None:
        self._sorted = sorted(preferences)
        self._of = {each[2]: each for each in self._sorted}
        self._all = max(self._of, default=-1) + 1
        self._in: dict[int, list[Preference]] = {}
        for each in self._sorted:
            self._in.setdefault(each[4], []).append(each)

    def __len__(self) -> int:
        return len(self._sorted)

    def put(self, preference: Preference) -> None:
        """A client comes in again, or elsewhere."""
        insort(self._sorted, preference)
        insort(self._in[preference[4]], preference)
        self._of[preference[2]] = preference

    def drop(self, client: int) -> None:
        """A client is no longer among them."""
        preference = self._of.pop(client)
        for those in (self._sorted, self._in[preference[4]]):
            del those[bisect_left(those, preference)]

    def least(self, cluster_bit: int) -> list[Preference]:
        """The two of a cluster that go first, or how many it has."""
        return self._in.get(cluster_bit, [])[:2]

    def among(self, clients: int) -> Iterable[Preference]:
        """Those of a mask, all of which are here, preferred ones first."""
        if clients.bit_count() ** 2 < len(self._sorted):  # the first of them is far down: to sort them takes less
            return sorted(map(self._of.__getitem__, positions(clients)))
        if clients.bit_length() <= _SHORT:
            return (each for each in self._sorted if clients & each[3])
        flags = _flags(clients).tobytes().ljust(self._all, b"\0")
        return (each for each in self._sorted if flags[each[2]])


def positions(mask: int) -> list[int]:
    """Of the bits that are set, in ascending order."""
    if mask.bit_length() > _SHORT:
        return np.flatnonzero(_flags(mask)).tolist()
    found = []
    while mask:
        lowest = mask & -mask
        found.append(lowest.bit_length() - 1)
        mask ^= lowest
    return found


def _flags(mask: int) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    """1 for each bit that is set, 0 for the others, up to the highest or a few more."""
    octets = np.frombuffer(mask.to_bytes(-(-mask.bit_length() // 8), "little"), np.uint8)
    return np.unpackbits(octets, bitorder="little")
