"""Rows that follow from how schedules are made: they cannot fail, so they have no verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fedtempo.studies.papers.verdicts import Row

_CERTAIN = {
    "fedhusky/fig7": {"groups alive at 0.99 T": "no group is planned past T, so they drop by construction"},
}
"""By entry: how the row's quantity begins, and why it is certain."""


def unjudge_certain(entry: str, rows: Sequence[Row]) -> list[Row]:
    """Return the rows of an entry, without the verdicts of those that cannot fail."""
    reasons = _CERTAIN.get(entry, {})
    return [
        next(
            (
                replace(row, verdict=None, headline=False, remark="; ".join(filter(None, (row.remark, why))))
                for quantity, why in reasons.items()
                if row.quantity.startswith(quantity)
            ),
            row,
        )
        for row in rows
    ]
