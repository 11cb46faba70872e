"""The four ratios and rates that tell most, in less than a minute: `python -m benchmarks.quick`."""

from __future__ import annotations

import os

from benchmarks import clock, planner, visits
from benchmarks.figures import figure, table


def main() -> None:
    """Print them; fewer repetitions than `make bench`, so more noise."""
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    print(table(visits.figures(repetitions=3, scale=0.4, names=("lenet",))[:2]), flush=True)
    print(table([figure("clock_visits_per_s_50", clock.visits_per_second(50, 8000, 3), "visits/s", 50_000)]))
    print(table(planner.figures(repetitions=1, horizon_s=200)[:1]))


if __name__ == "__main__":
    main()
