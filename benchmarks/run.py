"""`make bench`: every figure beside what it is held to, as a table and in benchmarks/results.json."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from benchmarks import clock, memory, overhead, planner, visits
from benchmarks.figures import Figure, table, write

RESULTS = Path(__file__).parent / "results.json"

PARTS: tuple[Callable[[], list[Figure]], ...] = (
    visits.figures,
    overhead.figures,
    clock.figures,
    planner.figures,
    memory.figures,
)


def main() -> None:
    """Measure, print and write; figures appear as they come."""
    before = os.getloadavg()[0]
    print(f"{os.cpu_count()} cores, load {before:.1f}")
    found: list[Figure] = []
    for part in PARTS:
        figures = part()
        print(table(figures), flush=True)
        found += figures
    write(RESULTS, found, [before, os.getloadavg()[0]])


if __name__ == "__main__":
    main()
