"""How schedules without training grow with the number of clients: CPU time and memory of an hour, for each strategy.

`python -m benchmarks.scale` plans 10^3 to 10^6 clients and prints a table. A strategy whose plan takes longer than the
limit at one size is not tried at the next. Each plan runs in a process of its own.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fedtempo.errors import FedtempoError
from fedtempo.runs.config import Config, parse
from fedtempo.strategies import STRATEGIES
from fedtempo.studies.plan import predict

RESULTS = Path(__file__).parent / "scale.json"
SIZES = (1_000, 10_000, 100_000, 1_000_000)
AT_ONCE = {"clients_at_once": 100}
A_ROUND = {"clients_per_round": 100}

SETTINGS: Mapping[str, Mapping[str, Any]] = {
    **dict.fromkeys(
        ("ace", "async-memory", "asyncsgd", "ca2fl", "fadas", "fedasync", "fedbuff", "rescaled-asgd"), AT_ONCE
    ),
    **dict.fromkeys(
        (
            "favas",
            "ditto",
            "fch",
            "fedavg",
            "feddyn",
            "fednova",
            "fedprox",
            "fedrep",
            "fedstale",
            "fedvarp",
            "mifa",
            "moon",
            "oort",
            "quafl",
            "refl",
            "per-fedavg",
            "scaffold",
            "timelyfl",
        ),
        A_ROUND,
    ),
    "fedhusky": {"clusters": 1},
    "fedhusky-paper": {"clusters": 1},
    "hierfavg": {"edges": 10, "clients_per_round": 10},
    "hybrid": {"clusters": 1},
    "csgd": {"n_clusters": 10},
    "power-of-choice": {"candidates": 200, **A_ROUND},
    "psfl": {"width": 10, "length": 5},
    "fedat": {"tiers": 5, "clients_per_round": 20},
    "tifl": {"tiers": 5, "interval": 1000, **A_ROUND},
}
"""Settings under which about a hundred clients train at the same time; strategies without any take their defaults."""


def configuration(strategy: str, clients: int, horizon: float = 3600.0) -> Config:
    """Return an hour of clients without data whose visits take half a minute on average, with unequal links."""
    return parse(
        {
            "run": {"horizon": horizon},
            "data": {
                "source": "none",
                "clients": clients,
                "examples_per_client": {"kind": "uniform", "low": 10, "high": 100},
            },
            "model": {"size_bytes": 1_700_000},
            "fleet": {
                "compute": {"unit": "s/example", "kind": "exponential", "mean": 0.5, "variation": 0.2},
                "link": {
                    "kind": "rates",
                    "download_bps": 8e6,
                    "upload_bps": {"kind": "uniform", "low": 5e5, "high": 5e6},
                },
                "estimates": "exact",
            },
            "strategy": {"name": strategy, **SETTINGS.get(strategy, {})},
            "executor": {"kind": "none"},
        }
    )


def measured(strategy: str, clients: int, horizon: float = 3600.0) -> dict[str, Any]:
    """Plan in this process; return CPU seconds, the peak memory of the process (GiB), visits, and an error if any."""
    began = time.process_time()
    row: dict[str, Any] = {"strategy": strategy, "clients": clients}
    try:
        row["visits"] = predict(configuration(strategy, clients, horizon), quiet=True).summary["visits"]
    except FedtempoError as error:
        row["error"] = str(error)
    peak_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {**row, "cpu_s": time.process_time() - began, "peak_gib": peak_kib / 2**20}


def growth(rows: Sequence[Mapping[str, Any]]) -> float | None:
    """Return the exponent b of CPU time ~ clients^b between the two largest sizes; None if fewer took a second."""
    timed = [row for row in rows if "error" not in row and row["cpu_s"] >= 1.0]
    if len(timed) < 2:
        return None
    small, large = timed[-2:]
    return math.log(large["cpu_s"] / small["cpu_s"]) / math.log(large["clients"] / small["clients"])


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the rows as a Markdown table, with the growth of each strategy."""
    lines = ["| strategy | clients | CPU s | GiB | visits | grows as |", "|---|---|---|---|---|---|"]
    for strategy in dict.fromkeys(row["strategy"] for row in rows):
        own = [row for row in rows if row["strategy"] == strategy]
        exponent = growth(own)
        for row in own:
            last = f"N^{exponent:.2f}" if row is own[-1] and exponent is not None else ""
            visits = row.get("error") or f"{row['visits']:,}"
            lines.append(
                f"| {strategy} | {row['clients']:,} | {row['cpu_s']:.1f} | {row['peak_gib']:.2f} | {visits} | {last} |"
            )
    return "\n".join(lines)


def measure(strategies: Sequence[str], sizes: Sequence[int], limit_s: float) -> list[dict[str, Any]]:
    """Measure each strategy up to the size whose plan takes more than `limit_s` of CPU time."""
    rows: list[dict[str, Any]] = []
    for strategy in strategies:
        for clients in sizes:
            command = [sys.executable, "-m", "benchmarks.scale", "--one", strategy, str(clients)]
            done = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603  ourselves
            rows.append(json.loads(done.stdout))
            print(table(rows[-1:]).splitlines()[-1], flush=True)
            if "error" in rows[-1] or rows[-1]["cpu_s"] > limit_s:
                break
    return rows


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Measure, print, and write benchmarks/scale.json.")
    parser.add_argument("--only", default=",".join(sorted(STRATEGIES)), help="strategies, separated by commas")
    parser.add_argument("--most", type=int, default=SIZES[-1], help="largest number of clients")
    parser.add_argument("--limit", type=float, default=120.0, help="CPU seconds after which no larger size is tried")
    parser.add_argument("--one", nargs=2, metavar=("STRATEGY", "CLIENTS"), help="measure one plan, print it as JSON")
    asked = parser.parse_args()
    if asked.one:
        print(json.dumps(measured(asked.one[0], int(asked.one[1]))))
    else:
        found = measure(asked.only.split(","), [size for size in SIZES if size <= asked.most], asked.limit)
        RESULTS.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        print(table(found))
