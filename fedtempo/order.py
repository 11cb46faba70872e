"""Names in the order in which people count them."""

from __future__ import annotations

import re


def natural(name: str) -> tuple[tuple[tuple[int, str], ...], str]:
    """Return a sort key that orders digits within a name by value: site2 comes before site10."""
    parts = tuple(_part(part) for part in re.split(r"(\d+)", name) if part)
    return parts, name


def _part(part: str) -> tuple[int, str]:
    """Numbers sort before text, by length without leading zeros and then by digits: by value, however long."""
    if not part.isdecimal():
        return -1, part
    digits = "".join(str(int(digit)) for digit in part).lstrip("0")
    return len(digits), digits
