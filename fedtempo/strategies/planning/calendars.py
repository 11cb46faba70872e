"""Calendars: for each client its booked half-open intervals of integer ticks."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator


class Calendars:
    """Booked intervals [begin, end) of `n_clients` clients, in ticks. A client's intervals may touch but not overlap.

    A calendar is two parallel sorted lists (FedHusky, Eq. 1), so every query is one bisection. Booked ticks are counted
    separately and survive `forget_before`.
    """

    def __init__(self, n_clients: int) -> None:
        self._begins: list[list[int]] = [[] for _ in range(n_clients)]
        self._ends: list[list[int]] = [[] for _ in range(n_clients)]
        self._busy = [0] * n_clients
        self._forgotten_end = 0
        self._last_end = 0

    def __len__(self) -> int:
        return len(self._busy)

    @property
    def last_end(self) -> int:
        """Latest end of all intervals booked and not released; 0 if there is none."""
        return self._last_end

    def busy_ticks(self, client: int) -> int:
        """Return the number of ticks booked for the client, forgotten ones included."""
        return self._busy[client]

    def intervals(self, client: int) -> list[tuple[int, int]]:
        """Return the client's intervals that are not forgotten, in order of time."""
        return list(zip(self._begins[client], self._ends[client]))

    def gaps(self, client: int, begin: int, end: int) -> Iterator[tuple[int, int]]:
        """Yield the client's maximal free intervals inside [begin, end), in order of time."""
        begins, ends = self._begins[client], self._ends[client]
        free_from = begin
        for position in range(bisect_right(ends, begin), len(ends)):
            if begins[position] >= end:
                break
            if begins[position] > free_from:
                yield free_from, begins[position]
            free_from = ends[position]
        if free_from < end:
            yield free_from, end

    def next_free(self, client: int, at: int, ticks: int) -> int:
        """Return the earliest start >= `at` from which the client is free for `ticks` ticks."""
        begins, ends = self._begins[client], self._ends[client]
        start = at
        for position in range(bisect_right(ends, at), len(ends)):
            if begins[position] - start >= ticks:
                break
            start = ends[position]
        return start

    def book(self, client: int, begin: int, end: int) -> None:
        """Book [begin, end). Raises ValueError if it is empty or overlaps an interval of the client."""
        if not begin < end:
            raise ValueError(f"client {client}: interval [{begin}, {end}) is empty; its end must lie after its begin")
        begins, ends = self._begins[client], self._ends[client]
        position = bisect_right(ends, begin)
        if position < len(ends) and begins[position] < end:
            raise ValueError(
                f"client {client}: interval [{begin}, {end}) overlaps [{begins[position]}, {ends[position]}),"
                " which is already booked"
            )
        begins.insert(position, begin)
        ends.insert(position, end)
        self._busy[client] += end - begin
        self._last_end = max(self._last_end, end)

    def release(self, client: int, begin: int) -> int:
        """Release the client's interval that begins at `begin` and return its end. Raises ValueError if none does."""
        begins, ends = self._begins[client], self._ends[client]
        position = bisect_left(begins, begin)
        if position == len(begins) or begins[position] != begin:
            raise ValueError(f"client {client}: no interval begins at {begin}; booked are {self.intervals(client)}")
        del begins[position]
        end = ends.pop(position)
        self._busy[client] -= end - begin
        if end == self._last_end:
            self._last_end = max((ends[-1] for ends in self._ends if ends), default=self._forgotten_end)
            self._last_end = max(self._last_end, self._forgotten_end)
        return end

    def move(self, client: int, begin: int, new_begin: int, new_end: int) -> None:
        """Replace the interval that begins at `begin` by [new_begin, new_end); on ValueError nothing changes."""
        end = self.release(client, begin)
        try:
            self.book(client, new_begin, new_end)
        except ValueError:
            self.book(client, begin, end)
            raise

    def forget_before(self, tick: int) -> None:
        """Drop the intervals that end at or before `tick`. Busy ticks and `last_end` stay."""
        for begins, ends in zip(self._begins, self._ends):
            past = bisect_right(ends, tick)
            if past:
                self._forgotten_end = max(self._forgotten_end, ends[past - 1])
                del begins[:past], ends[:past]
