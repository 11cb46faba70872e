"""What a deployment adds to training: a visit's time on loopback, and the server's processor time for idle clients.

    .venv-flower/bin/python -m benchmarks.deploy [--visits 20] [--idle 50] [--seconds 20]

A visit's overhead is its time less what the client computed, with a model of 1.7 MB and a client in a process of its
own. Idle clients are threads of one process beside the server's; each is a node that asks for work as a client does.
Needs Flower: `make .venv-flower/.ready`.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import tomli_w

from benchmarks.figures import Figure, figure, table
from fedtempo.deploy.client.settings import ClientSettings, parse_client
from fedtempo.deploy.flower.grid import SuperLink, joined
from fedtempo.deploy.flower.local import client_tables, start_client
from fedtempo.deploy.flower.node import _connected
from fedtempo.deploy.flower.superlink import end, started
from fedtempo.deploy.live.messages import Arrays
from fedtempo.deploy.run import deploy_to_folder
from fedtempo.federation import Federation
from fedtempo.parts.machine import usable_cpus
from fedtempo.record import load_run
from fedtempo.runs.config import Config, parse
from fedtempo.version import PROTOCOL

HIDDEN = 5667
"""Of a perceptron on 64 inputs and 10 classes: 425,035 parameters, 1.7 MB."""


def configuration(clients: int) -> Config:
    return parse(
        {
            "run": {"max_commits": 1, "evaluate": "commit"},
            "data": {"source": "digits", "clients": clients, "examples_per_client": 10},
            "model": {"network": "mlp", "hidden": [HIDDEN]},
            "training": {"lr": 0.01, "batch_size": 10},
            "fleet": {"compute": {"unit": "s/visit", "speed": 1.0}, "link": "none", "estimates": "exact"},
            "strategy": {"name": "fedavg"},
            "executor": {"kind": "inline"},
        }
    )


@dataclass(frozen=True)
class Visits:
    """One client is visited so often, one visit after another; the first is a rehearsal."""

    count: int

    async def run(self, fed: Federation) -> None:
        for _ in range(self.count + 1):
            await fed.train(fed.clients[0], fed.model)


@dataclass(frozen=True)
class Idle:
    """Nothing is asked for so long. Processor seconds of this process meanwhile go into `used`."""

    seconds: float
    used: list[float]

    async def run(self, fed: Federation) -> None:
        began = time.process_time()
        await fed.sleep_until(fed.now + self.seconds)
        self.used.append(time.process_time() - began)


class StandIn:
    """Answers as a client whose data and model weigh nothing."""

    def __init__(self, number: int) -> None:
        self._number = number

    def answer(self, kind: str, content: Mapping[str, Any], arrays: Arrays) -> tuple[dict[str, Any], Arrays]:
        return {
            "protocol": PROTOCOL,
            "name": f"idle-{self._number}",
            "num_examples": 1,
            "label_histogram": None,
            "shares_examples": False,
            "input_shape": [1, 8, 8],
        }, ()


def stand_in(settings: ClientSettings, number: int) -> None:
    """Be an idle client, for as long as the process lives."""
    with _connected(settings, None) as link:
        link.work(StandIn(number))  # type: ignore[arg-type]


def stand_ins(count: int, address: str) -> None:
    """Be idle clients, for as long as this process lives."""
    data = {"source": "digits", "clients": 1, "part": 0}
    settings = parse_client({"name": "idle", "insecure": True, "superlink": address, "data": data})
    threads = [threading.Thread(target=stand_in, args=(settings, number), daemon=True) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@contextlib.contextmanager
def _idle_clients(count: int, superlink: SuperLink, log: Path) -> Iterator[None]:
    command = [sys.executable, "-m", "benchmarks.deploy", "--stand-ins", str(count), "--superlink", superlink.address]
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output)  # noqa: S603  a list, no shell
    try:
        yield
    finally:
        end([process])


def visit_overhead(visits: int, folder: Path) -> list[float]:
    """Seconds of each visit that were no training."""
    config = configuration(1)
    with started(folder) as superlink:
        settings = folder / "client.toml"
        settings.write_text(tomli_w.dumps(client_tables(config, 0, superlink)))
        process = start_client(settings, folder / "client.log")
        try:
            with joined(superlink, outage_s=60) as grid:
                deploy_to_folder(replace(config, strategy=Visits(visits)), folder / "run", grid)
        finally:
            end([process])
    rows = load_run(folder / "run").visits
    took, computed = rows["finished"] - rows["started"], rows["computed"] - rows["received"]
    seconds: list[float] = (took - computed)[1:].tolist()
    return seconds


def idle_load(clients: int, seconds: float, folder: Path) -> float:
    """Share of a processor that the server's process takes while so many clients are there and nothing is asked."""
    used: list[float] = []
    with (
        started(folder) as superlink,
        _idle_clients(clients, superlink, folder / "idle.log"),
        joined(superlink, outage_s=60) as grid,
    ):
        deploy_to_folder(replace(configuration(clients), strategy=Idle(seconds, used)), folder / "run", grid)
    return used[0] / seconds


def figures(visits: int = 20, clients: int = 50, seconds: float = 20.0) -> list[Figure]:
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        return [
            figure("deploy_visit_overhead_s", visit_overhead(visits, Path(one)), "s", 0.5, lower=True),
            figure("deploy_idle_server", [idle_load(clients, seconds, Path(other))], "cores", 0.2, lower=True),
        ]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--visits", type=int, default=20)
    parser.add_argument("--idle", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--stand-ins", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--superlink", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.stand_ins:
        stand_ins(arguments.stand_ins, arguments.superlink)
    else:
        print(f"{usable_cpus()} cores, load {os.getloadavg()[0]:.1f}")
        print(table(figures(arguments.visits, arguments.idle, arguments.seconds)))
