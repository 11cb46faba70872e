"""Tables of pages with results."""

from __future__ import annotations

from pathlib import Path

RESULTS = Path(__file__).parents[2] / "docs" / "results"


def rows_of_tables(text: str) -> list[tuple[str, ...]]:
    """The cells of every line of every table in a page, heads and rules included."""
    return [tuple(cell.strip() for cell in line.split("|")[1:-1]) for line in text.splitlines() if line[:1] == "|"]
