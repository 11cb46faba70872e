"""Flower: its FedAvg in its simulation on Ray: `drive WORKERS steady|short`.

steady: ten rounds in a simulation that is running. short: a whole simulation of ten rounds, Ray's start included.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Sequence

os.environ |= {"FLWR_TELEMETRY_ENABLED": "0", "RAY_USAGE_STATS_ENABLED": "0"}

from flwr.app import ArrayRecord, ConfigRecord, Context, MetricRecord, RecordDict
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation
from torch import nn

from benchmarks.peers.flower.client import app as client_app
from benchmarks.peers.work import CLIENTS, ROUNDS, Count, network, serve


def total(replies: list[RecordDict], _: str) -> MetricRecord:
    """The sum of what the clients of a round counted."""
    records = [record for reply in replies for record in reply.metric_records.values()]
    return MetricRecord({name: sum(int(record[name]) for record in records) for name in records[0]})


class Federation:
    """A model, and rounds of it. Clients count what they do, and say so, where the server asks for it."""

    def __init__(self) -> None:
        self.module = network()
        self.count: Count | None = None

    def model(self) -> nn.Module:
        return self.module

    def rounds(self, grid: Grid) -> None:
        strategy = FedAvg(
            fraction_evaluate=0.0,
            min_train_nodes=CLIENTS,
            min_available_nodes=CLIENTS,
            train_metrics_aggr_fn=total,
        )
        result = strategy.start(
            grid,
            ArrayRecord(self.module.state_dict()),
            num_rounds=ROUNDS,
            train_config=ConfigRecord({"count": self.count is not None}),
        )
        self.module.load_state_dict(result.arrays.to_torch_state_dict())
        if self.count is not None:
            for record in result.train_metrics_clientapp.values():
                self.count.steps += int(record["steps"])
                self.count.trained += int(record["trained"])
                self.count.evaluated += int(record["evaluated"])

    @contextlib.contextmanager
    def counting(self) -> Iterator[Count]:
        self.count = Count()
        try:
            yield self.count
        finally:
            self.count = None


def simulate(server_app: ServerApp, workers: int) -> None:
    resources = {"num_cpus": workers, "address": "local"}  # whatever other Ray runs on this machine
    run_simulation(
        server_app,
        client_app,
        num_supernodes=CLIENTS,
        backend_config={"client_resources": {"num_cpus": 1}, "init_args": resources},
    )


def main(arguments: Sequence[str]) -> None:
    workers, how = int(arguments[0]), arguments[1]
    federation, server_app = Federation(), ServerApp()

    @server_app.main()
    def run(grid: Grid, context: Context) -> None:
        if how == "short":
            federation.rounds(grid)
        else:
            serve(lambda: federation.rounds(grid), federation.model, counting=federation.counting)

    if how == "short":
        serve(lambda: simulate(server_app, workers), federation.model, counting=federation.counting)
    else:
        simulate(server_app, workers)


if __name__ == "__main__":
    main(sys.argv[1:])
