"""Fit a distribution to measured times, and plan strategies on a fleet with these times."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

from fedtempo import Experiment, Plan
from fedtempo.fleet.devices import column_of
from fedtempo.fleet.fitting import fit


def measure(path: Path) -> None:
    """Write invented measurements in place of your own: seconds per visit of sixty devices."""
    rng = np.random.default_rng(1)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["device", "seconds"])
        for device in range(60):
            mean_s = rng.exponential(4.0) + 0.1
            writer.writerows([device, round(mean_s * rng.uniform(0.9, 1.1), 3)] for _ in range(3))


def main(folder: Path = Path("example-fleet"), horizon_s: float = 500.0) -> Plan:
    folder.mkdir(exist_ok=True)
    measure(folder / "times.csv")

    best, *others = fit(column_of(folder / "times.csv", "seconds", client="device"))
    print(best.table(), f"KS = {best.ks:.3f}, p = {best.p}, chosen over {[fitted.kind for fitted in others]}")

    experiment = Experiment(
        strategy="fedavg",
        fleet={"compute": {"unit": "s/visit", "speed": best.table()}, "link": "none", "estimates": "exact"},
        data={"source": "digits", "clients": 40},
        run={"horizon": horizon_s},
    )
    experiment.fleet_figure().savefig(folder / "fleet.png", dpi=150)
    plan = experiment.plan(["fedavg", "fedbuff", "fedhusky"])
    print(plan)
    return plan


if __name__ == "__main__":
    main()
