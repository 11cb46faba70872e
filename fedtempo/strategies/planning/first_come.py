"""SAFA's choice of the updates of a round: compensatory first-come-first-merge."""

from __future__ import annotations

from collections.abc import Collection, Sequence


def first_come_first_merge(arrived: Sequence[int], last: Collection[int], quota: int) -> tuple[list[int], list[int]]:
    """Return the clients whose updates a round merges, and those whose updates wait for the next one.

    arrived: clients in the order in which their updates came. last: clients merged in the round before; they come after
    all others. quota: the largest number of clients to merge. Both lists are in the order of arrival.
    """
    preferred = sorted(arrived, key=lambda client: client in last)  # stable: by arrival among equals
    picked = set(preferred[:quota])
    return [client for client in arrived if client in picked], [client for client in arrived if client not in picked]
