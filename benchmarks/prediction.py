"""Does a simulation predict a deployment? Real client processes of different speed on this machine.

    python -m benchmarks.prediction --out FOLDER [--json FILE] [--strategies fedhusky,hybrid,fedavg] [--scale 1]

Six clients train digits; each is made to take its own time for a visit (`pace_s` in its TOML). The fleet is measured,
as `fedtempo fleet measure` does it; each strategy is simulated on what was measured, then deployed on the same clients.
The page that is printed has both. Needs Flower: `make .venv-flower/.ready`, then that environment's python.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import os
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import tomli_w

from benchmarks.prediction_page import facts, page
from fedtempo.deploy.flower.grid import SuperLink, joined
from fedtempo.deploy.flower.local import client_tables, start_client
from fedtempo.deploy.flower.measuring import Measure, as_toml
from fedtempo.deploy.flower.superlink import end, started
from fedtempo.deploy.run import deploy_to_folder
from fedtempo.parts.machine import usable_cpus
from fedtempo.record import load_run, write_json
from fedtempo.record.prediction import Predicted, prediction
from fedtempo.runs.config import Config, parse
from fedtempo.runs.run import Run
from fedtempo.runtime.run_settings import RunSettings

PACES_S = (0.8, 1.2, 1.6, 2.4, 3.2, 4.0)
"""Seconds that an epoch lasts at each client."""

STRATEGIES: dict[str, dict[str, Any]] = {
    "fedhusky": {"name": "fedhusky", "clusters": 2},
    "hybrid": {"name": "hybrid", "clusters": 2},
    "fedavg": {"name": "fedavg"},
}


def tables(scale: float) -> dict[str, Any]:
    """The setting, but for its strategy and fleet."""
    return {
        "run": {
            "seed": 1,
            "horizon": 400.0 * scale,
            "target_accuracy": 0.8,
            "stop_at_target": True,
            "evaluate_every": 1.0 * scale,
        },
        "data": {
            "source": "digits",
            "clients": len(PACES_S),
            "examples_per_client": 150,
            "partition": {"kind": "dirichlet", "alpha": 1.0},
        },
        "model": {"network": "mlp", "hidden": [64]},
        "training": {"lr": 0.05, "batch_size": 10, "epochs": 1},
        "executor": {"kind": "inline"},
        "deploy": {"deadline_floor_s": 60.0},
    }


def configuration(strategy: str, fleet: dict[str, Any], scale: float) -> Config:
    return parse({**tables(scale), "strategy": STRATEGIES[strategy], "fleet": fleet})


def predicted(
    out: Path, strategies: Sequence[str] = tuple(STRATEGIES), scale: float = 1.0
) -> dict[str, list[Predicted]]:
    """Measure, simulate, deploy; every run in a folder below `out`. scale: of all times."""
    out.mkdir(parents=True)
    guess = {"compute": {"unit": "s/visit", "speed": 2.0 * scale}, "link": "none", "estimates": "exact"}
    with _clients(configuration("fedavg", guess, scale), out, scale) as superlink:
        measuring = dataclasses.replace(
            configuration("fedavg", guess, scale), strategy=Measure(4), run=RunSettings(max_commits=1), label="measure"
        )
        with joined(superlink, outage_s=60) as grid:
            deploy_to_folder(measuring, out / "measure", grid)
        (out / "fleet.toml").write_text(as_toml(load_run(out / "measure")))
        fleet = tomllib.loads((out / "fleet.toml").read_text())["fleet"]
        found = {}
        for strategy in strategies:
            config = configuration(strategy, fleet, scale)
            Run(config).begin(out / f"{strategy}-simulated")
            with joined(superlink, outage_s=60) as grid:
                deploy_to_folder(config, out / f"{strategy}-deployed", grid)
            found[strategy] = prediction(
                load_run(out / f"{strategy}-simulated"), load_run(out / f"{strategy}-deployed")
            )
        return found


@contextlib.contextmanager
def _clients(config: Config, folder: Path, scale: float) -> Iterator[SuperLink]:
    processes = []
    with started(folder) as superlink:
        try:
            for part, pace_s in enumerate(PACES_S):
                settings = folder / f"client-{part}.toml"
                settings.write_text(tomli_w.dumps({**client_tables(config, part, superlink), "pace_s": pace_s * scale}))
                processes.append(start_client(settings, folder / f"client-{part}.log"))
            yield superlink
        finally:
            end(processes)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--strategies", default=",".join(STRATEGIES))
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--json", type=Path, help="where the numbers are written, with command and environment")
    arguments = parser.parse_args()
    before = os.getloadavg()[0]
    measured = predicted(arguments.out, arguments.strategies.split(","), arguments.scale)
    load = [before, os.getloadavg()[0]]
    if arguments.json:
        write_json(arguments.json, facts(measured, load))
    print(page(measured))
    print(f"\nLoad of the machine: {load[0]:.1f} before, {load[1]:.1f} after; {usable_cpus()} processors.")
