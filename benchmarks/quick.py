"""The four ratios that tell most, in less than a minute: `python -m benchmarks.quick`."""

from __future__ import annotations

import os

from benchmarks import clock, overhead, visits
from benchmarks.figures import table
from fedtempo.parts.machine import usable_cpus


def main() -> None:
    """Print them; fewer repetitions than `make bench`, so more noise."""
    print(f"{usable_cpus()} cores, load {os.getloadavg()[0]:.1f}")
    print(table(visits.figures(repetitions=3, scale=0.4, names=("lenet",))[:2]), flush=True)
    print(table(overhead.figures(repetitions=2, rounds=1)), flush=True)
    print(table([clock.against_simpy("clock_vs_simpy", 50, 600, 3)]))


if __name__ == "__main__":
    main()
