"""`make bench`: every figure beside what it is held to, as a table, in benchmarks/results.json and results.md.

`python -m benchmarks.run --only visits,peers` measures these parts and leaves the other results as they are.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from benchmarks import clock, memory, overhead, planner, solvers, starting, tables, visits
from benchmarks.figures import Figure, markdown, merge, table
from benchmarks.peers import visits as peers

RESULTS = Path(__file__).parent / "results.json"

PARTS: Mapping[str, Callable[[], list[Figure]]] = {
    "start": starting.figures,
    "visits": visits.figures,
    "peers": peers.one_process,
    "flower": peers.flower,
    "flower-short": peers.flower_short,
    "overhead": overhead.figures,
    "overhead-long": overhead.long_figures,
    "clock": clock.figures,
    "simpy": clock.simpy_figures,
    "planner": planner.figures,
    "highs": solvers.highs_figures,
    "cpsat": solvers.cpsat_figures,
    "memory": memory.figures,
    "memory-local": memory.local_figures,
    "growth": memory.growth_figures,
    "clock-memory": memory.clock_figures,
    "tables": tables.figures,
}


def measure(parts: Sequence[str], results: Path = RESULTS) -> None:
    """Measure the parts one after the other and print them; each is written as soon as it is there."""
    for name in parts:
        before, began = os.getloadavg()[0], time.perf_counter()
        print(f"{name}: load {before:.1f}", flush=True)
        figures = PARTS[name]()
        load = [before, os.getloadavg()[0]]
        print(table(figures))
        print(f"{name}: took {time.perf_counter() - began:.0f} s", flush=True)
        merge(results, figures, load)
        results.with_suffix(".md").write_text(markdown(json.loads(results.read_text(encoding="utf-8"))))


def chosen(text: str) -> list[str]:
    """Names of parts, separated by commas. Raises ArgumentTypeError for one that is none."""
    names = text.split(",")
    for name in names:
        if name not in PARTS:
            raise argparse.ArgumentTypeError(f"{name!r} is no part; there are {', '.join(PARTS)}")
    return names


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Measure, print, and write benchmarks/results.json and results.md.")
    parser.add_argument("--only", type=chosen, default=list(PARTS), help=f"parts of {','.join(PARTS)}")
    asked = parser.parse_args().only
    if len(asked) == 1:
        measure(asked)
    else:
        for part in asked:  # in processes of their own: none inherits another's memory
            command = [sys.executable, "-m", "benchmarks.run", "--only", part]
            subprocess.run(command, check=True)  # noqa: S603  ourselves
