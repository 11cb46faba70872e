"""Natural sort order of names, and short listings of many values."""

from __future__ import annotations

import re
from collections.abc import Iterable

_SHOWN = 5


def natural(name: str) -> tuple[tuple[tuple[int, int, str], ...], str]:
    """Return a sort key that orders digits within a name by value: site2 comes before site10."""
    parts = tuple(_part(part) for part in re.split(r"(\d+)", name) if part)
    return parts, name


def _part(part: str) -> tuple[int, int, str]:
    """Numbers come before text, shorter ones first without leading zeros: by value, however long."""
    if not part.isdecimal():
        return 1, 0, part
    digits = "".join(str(int(digit)) for digit in part).lstrip("0")
    return 0, len(digits), digits


def name_of(value: object) -> str:
    """Return the name that a value is: "7" for 7, and for 7.0, as whole numbers beside missing ones are stored."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def listed(values: Iterable[object]) -> str:
    """Return the first few values as text, followed by the total number if some are left out."""
    shown = list(values)
    return ", ".join(map(str, shown[:_SHOWN])) + (f", ... ({len(shown)})" if len(shown) > _SHOWN else "")
