"""Does a simulation predict a deployment, also on busy machines? Real client processes of different speed.

    python -m benchmarks.prediction --out FOLDER [--json FILE]

Twenty clients train digits; each is made to take its own time for an epoch (`pace_s` in its TOML). For each load, the
fleet is measured as `fedtempo fleet measure` does it, each strategy is simulated on what was measured, and then
deployed on the same clients. A load of N means N processes that compute all the time, from before the measurement until
the end. The numbers are printed, and put into the page FILE with the suffix .md, if it exists. Needs Flower: `make
.venv-flower/.ready`, then that environment's python. With both loads, it takes about twenty minutes.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w

from benchmarks.prediction_page import Compared, Outcome, Used, facts, inserted, page
from fedtempo.deploy.flower.grid import SuperLink, joined
from fedtempo.deploy.flower.local import client_tables, start_client
from fedtempo.deploy.flower.measuring import Measure, as_toml
from fedtempo.deploy.flower.superlink import end, started, tied
from fedtempo.deploy.loads import differences, loads_of, measured_loads
from fedtempo.deploy.run import deploy_to_folder
from fedtempo.record import load_run, write_json
from fedtempo.record.prediction import prediction
from fedtempo.runs.config import Config, parse
from fedtempo.runs.run import Run
from fedtempo.runs.world import dealt_by, load_data
from fedtempo.runtime.run_settings import RunSettings

CLIENTS = 20
FASTEST_S, SLOWEST_S = 1.0, 5.0
"""Seconds that an epoch lasts at the fastest and the slowest client; the others lie evenly in between."""

STRATEGIES: dict[str, dict[str, Any]] = {
    "fedhusky": {"name": "fedhusky", "clusters": 2},
    "hybrid": {"name": "hybrid", "clusters": 2},
    "fedavg": {"name": "fedavg"},
    "fedbuff": {"name": "fedbuff", "buffer": 5},
    "fedcs": {"name": "fedcs", "deadline_s": 6.0},
}
"""Chosen before any result, for their differences: overlapping chains that follow a calendar, chains within rounds,
rounds of all clients, no rounds at all, rounds of clients chosen by their expected times."""

LOADS = (0, 8)
VISITS = 6
"""Visits of each client in the measurement."""


def tables(clients: int, scale: float) -> dict[str, Any]:
    """Return the setting, except strategy and fleet. scale: of all times."""
    return {
        "run": {
            "seed": 1,
            "horizon": 200.0 * scale,
            "target_accuracy": 0.8,
            "stop_at_target": True,
            "evaluate_every": 0.5 * scale,
        },
        "data": {
            "source": "digits",
            "clients": clients,
            "examples_per_client": 1400 // clients,
            "partition": {"kind": "dirichlet", "alpha": 1.0},
        },
        "model": {"network": "mlp", "hidden": [64]},
        "training": {"lr": 0.05, "batch_size": 10, "epochs": 1},
        "executor": {"kind": "inline"},
        "deploy": {"deadline_floor_s": 60.0, "wait_s": 400.0},
    }


def configuration(strategy: str, fleet: dict[str, Any], clients: int, scale: float) -> Config:
    return parse({**tables(clients, scale), "strategy": STRATEGIES[strategy], "fleet": fleet})


def compared(
    out: Path,
    busy: int = 0,
    strategies: Sequence[str] = tuple(STRATEGIES),
    clients: int = CLIENTS,
    scale: float = 1.0,
) -> Compared:
    """Measure, simulate and deploy, with so many busy processes beside; every run in a folder below `out`."""
    out.mkdir(parents=True)
    guess = {"compute": {"unit": "s/visit", "speed": 3.0 * scale}, "link": "none", "estimates": "exact"}
    guessed = configuration("fedavg", guess, clients, scale)
    with _busy(busy), _clients(guessed, out, scale) as superlink:
        measuring = dataclasses.replace(
            guessed,
            strategy=Measure(VISITS),
            run=RunSettings(max_commits=1),
            label="measure",
        )
        with joined(superlink, outage_s=60) as grid, Used.watched() as measured_use:
            deploy_to_folder(measuring, out / "measure", grid)
        (out / "fleet.toml").write_text(as_toml(load_run(out / "measure")))
        fleet = tomllib.loads((out / "fleet.toml").read_text())["fleet"]
        outcomes = {}
        for strategy in strategies:
            config = configuration(strategy, fleet, clients, scale)
            Run(config).begin(out / f"{strategy}-simulated")
            with joined(superlink, outage_s=60) as grid, Used.watched() as use:
                deploy_to_folder(config, out / f"{strategy}-deployed", grid)
            deployed = load_run(out / f"{strategy}-deployed")
            measures = prediction(load_run(out / f"{strategy}-simulated"), deployed)
            lines = differences(measured_loads(out / "fleet.toml"), loads_of(deployed))
            outcomes[strategy] = Outcome(measures, use[0], lines)
        return Compared(busy, measured_use[0], outcomes)


@contextlib.contextmanager
def _busy(count: int) -> Iterator[None]:
    """Run so many processes that compute all the time inside the block."""
    command = tied([sys.executable, "-c", "while True: pass"])
    # each in its own session, as programs of other users are: Linux shares processors between sessions first
    processes = [subprocess.Popen(command, start_new_session=True) for _ in range(count)]  # noqa: S603
    try:
        yield
    finally:
        end(processes)


@contextlib.contextmanager
def _clients(config: Config, folder: Path, scale: float) -> Iterator[SuperLink]:
    processes = []
    with started(folder) as superlink:
        try:
            paces_s = np.linspace(FASTEST_S, SLOWEST_S, dealt_by(config, load_data(config))[1]).round(2).tolist()
            for part, pace_s in enumerate(paces_s):
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
    parser.add_argument(
        "--load", default=",".join(map(str, LOADS)), help="numbers of busy processes, one after another"
    )
    parser.add_argument("--clients", type=int, default=CLIENTS)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--json", type=Path, help="where the numbers are written, with command and environment")
    arguments = parser.parse_args()
    chosen = arguments.strategies.split(",")
    found = [
        compared(arguments.out / f"load-{busy}", int(busy), chosen, arguments.clients, arguments.scale)
        for busy in arguments.load.split(",")
    ]
    told = facts(found, arguments.clients, (FASTEST_S * arguments.scale, SLOWEST_S * arguments.scale))
    if arguments.json:
        write_json(arguments.json, told)
        beside = arguments.json.with_suffix(".md")
        if beside.exists():
            beside.write_text(inserted(beside.read_text(encoding="utf-8"), told), encoding="utf-8")
    print(page(told))
