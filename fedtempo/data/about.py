"""Descriptions of data: whose the examples are, and how test examples were chosen."""

from __future__ import annotations

from collections.abc import Sequence

from fedtempo.parts.natural_order import listed


def by_client(client: str | None, names: Sequence[str]) -> str:
    """Return the clause about the clients that a column names; empty without one."""
    return "" if client is None else f", {len(names)} clients by {client!r}: {listed(names)}"


def held_out_by(group: str | None, time: str | None) -> str:
    """Return the clause about the column that decides which examples are held out; empty without one."""
    together = "" if group is None else f", rows of one {group!r} kept together"
    return together + ("" if time is None else f", the latest rows by {time!r} held out")
