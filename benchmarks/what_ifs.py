"""What does the same strategy do on other fleets? A thousand of them for FedAvg, and a few for each strategy.

    python -m benchmarks.what_ifs [--fleets 1000] [--strategies all|none|fedavg,fedbuff] [--change 0.1]

First, FedAvg on digits as shipped, for 40 rounds, on fleets whose clients' speeds are drawn anew. Only the first run
trains; the page says how long the others took. Then each strategy on 20 clients, again after every client's speed has
changed by up to 10 %: which share of its operations comes from the first run's results?
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fedtempo import Experiment
from fedtempo.strategies import STRATEGIES

SHORT: dict[str, Any] = {
    "run": {"horizon": 120.0, "evaluate_every": 20.0},
    "data": {
        "source": "digits",
        "clients": 20,
        "examples_per_client": 20,
        "test_examples": 100,
        "tell_labels": True,
        "share_examples": 1.0,
        "partition": {"kind": "dirichlet", "alpha": 0.5},
    },
    "model": {"network": "logistic"},
    "training": {"lr": 0.05, "batch_size": 10},
    "fleet": {"link": {"kind": "fixed", "download_s": 0.25, "upload_s": 0.25}, "estimates": "exact"},
    "executor": {"kind": "inline"},
}
SETTINGS: dict[str, dict[str, Any]] = {
    "centralized": {"round_s": 10.0},
    "fch": {"clients_per_round": 4},
    "fedavg": {"clients_per_round": 5},
    "fedhusky": {"clusters": "labels"},
    "fedhusky-paper": {"clusters": "labels"},
    "hybrid": {"clusters": "labels"},
    "power-of-choice": {"candidates": 10, "clients_per_round": 5},
    "psfl": {"width": 4, "length": 3},
}
"""What some strategies need on these clients; FedAvg draws some of them in each round."""

NETWORKS: dict[str, dict[str, Any]] = {"fedrep": {"network": "mlp", "hidden": [16], "local": ["3.*"]}}
"""The networks of strategies that need another one."""


def speeds(rng: np.random.Generator, clients: int) -> dict[str, Any]:
    """Return a table `fleet.compute` of clients that take between 1 and 10 s per visit."""
    return {"unit": "s/visit", "speed": rng.uniform(1.0, 10.0, clients).tolist()}


def reused(results: Sequence[Any]) -> Mapping[str, float | None]:
    """Return the shares of visits, calls at the server and evaluations that runs reused; None if there were none."""
    shares: dict[str, float | None] = {}
    for what in ("visits", "server_trainings", "server", "evaluations"):
        counts = [result.records.facts["executor"]["reuse"] for result in results]
        found, computed = (sum(count.get(f"{what}_{how}", 0) for count in counts) for how in ("reused", "computed"))
        shares[what] = found / (found + computed) if found + computed else None
    return shares


def many_fleets(count: int, folder: str) -> None:
    """Run FedAvg on one fleet, then on `count` others, and print how long that took and what came out."""
    rng = np.random.default_rng(1)
    fedavg = Experiment.shipped("fedavg").with_(
        {
            "run.horizon": None,
            "run.max_commits": 40,
            "run.evaluate": "commit",
            "executor.reuse": True,
            "executor.reuse_folder": folder,
        }
    )

    def on_a_fleet() -> Any:
        return fedavg.with_({"fleet.compute": speeds(rng, 50)}).run()

    wall, cpu = time.perf_counter(), time.process_time()
    first = on_a_fleet()
    print(f"first run: {first.summary['visits']} visits trained, {time.perf_counter() - wall:.1f} s", flush=True)
    wall, cpu = time.perf_counter(), time.process_time()
    others = [on_a_fleet() for _ in range(count)]
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    assert {result.summary["model_sha256"] for result in others} == {first.summary["model_sha256"]}
    print(f"{count} other fleets: {wall:.1f} s, {cpu:.1f} s of one processor, {1000 * cpu / count:.0f} ms each")
    print("reused:", {what: share for what, share in reused(others).items() if share is not None})
    times = [result.summary["time_to_target_s"] for result in others]
    low, middle, high = np.quantile(times, [0.05, 0.5, 0.95])
    print(f"time to 85 % accuracy: median {middle:.0f} s, 5 % below {low:.0f} s, 5 % above {high:.0f} s", flush=True)


def each_strategy(names: Sequence[str], change: float, fleets: int = 2) -> None:
    """Print the share of operations that each strategy reuses after its clients' speeds have changed."""
    rng = np.random.default_rng(2)
    before = speeds(rng, 20)
    after = [
        {**before, "speed": (before["speed"] * rng.uniform(1 - change, 1 + change, 20)).tolist()} for _ in range(fleets)
    ]
    print(f"\n| strategy | visits | of visits, reused | of averages and other calls | of evaluations |\n{'|---' * 5}|")
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            tables = {**SHORT, "strategy": {"name": name, **SETTINGS.get(name, {})}}
            tables["model"] = NETWORKS.get(name, SHORT["model"])
            tables["fleet"] = {**SHORT["fleet"], "compute": before}
            tables["executor"] = {**SHORT["executor"], "reuse": True, "reuse_folder": folder}
            experiment = Experiment.from_tables(tables)
            visits = experiment.run().summary["visits"]
            results = []
            for fleet in after:  # each against the first run alone
                with tempfile.TemporaryDirectory() as copy:
                    shutil.copytree(folder, copy, dirs_exist_ok=True)
                    changes = {"executor.reuse_folder": copy, "fleet.compute": fleet}
                    results.append(experiment.with_(changes).run())
            shares = reused(results)
            trained = shares["visits"] if shares["visits"] is not None else shares["server_trainings"]
            cells = [trained, shares["server"], shares["evaluations"]]
            shown = " | ".join("-" if share is None else f"{share:.0%}" for share in cells)
            print(f"| {name} | {visits} | {shown} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fleets", type=int, default=1000, help="number of fleets for FedAvg (default: 1000)")
    parser.add_argument("--strategies", default="all", help="names, all, or none (default: all)")
    parser.add_argument("--change", type=float, default=0.1, help="largest change of a speed (default: 0.1)")
    arguments = parser.parse_args()
    if arguments.fleets:
        with tempfile.TemporaryDirectory() as folder:
            many_fleets(arguments.fleets, folder)
    names = {"all": sorted(STRATEGIES), "none": []}.get(arguments.strategies, arguments.strategies.split(","))
    if names:
        each_strategy(names, arguments.change)


if __name__ == "__main__":
    main()
