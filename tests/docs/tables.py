"""Tables on pages with results."""

from __future__ import annotations

from pathlib import Path

RESULTS = Path(__file__).parents[2] / "docs" / "results"


def rows_of_tables(text: str) -> list[tuple[str, ...]]:
    """Return the cells of every line of every table on a page, including heads and rules."""
    return [tuple(cell.strip() for cell in line.split("|")[1:-1]) for line in text.splitlines() if line[:1] == "|"]
