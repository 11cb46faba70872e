"""What a cluster's executor costs on one machine, against worker processes: `python -m benchmarks.on_ray`; needs Ray.

LeNet's visits, all asked for at once; then visits of one batch, each on the model of the one before: in one chain,
which stays where it is, and in two that change places, so that each model goes to the other of two nodes. These nodes
are on this machine: the model is copied from store to store, through the loopback interface.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from contextlib import ExitStack

from benchmarks.figures import Figure, figure, interleaved, ratios, table
from benchmarks.visits import BATCH, CLIENTS, LR, make_job, ours
from fedtempo.learning.training import Training
from fedtempo.parts.machine import usable_cpus
from fedtempo.runtime.executors import Executor
from fedtempo.runtime.executors.on_ray import OnRay
from fedtempo.runtime.executors.processes import Processes
from fedtempo.runtime.executors.ray_session import imported


def chain(executor: Executor, visits: int, training: Training) -> Callable[[], None]:
    """Visits in a row, each on the model of the one before."""

    def run() -> None:
        location = executor.initial()
        for visit in range(visits):
            location = executor.train(location, visit % CLIENTS, visit, training).result().location

    return run


def swapped(executor: Executor, visits: int, training: Training) -> Callable[[], None]:
    """Two chains. Of two workers that are free the first is given the first visit, and so it has the other's model."""

    def run() -> None:
        heads = [executor.initial()] * 2
        for visit in range(visits // 2):
            pending = [executor.train(head, place, visit, training) for place, head in enumerate(heads)]
            heads = [each.result().location for each in reversed(pending)]

    return run


def figures(workers: int, repetitions: int, visits: int) -> list[Figure]:
    """Processes' time over Ray's, and milliseconds that Ray adds to a visit of one batch of LeNet, 1.7 MB."""
    imported()  # quietly, and before anything of Ray is
    from ray.cluster_utils import Cluster

    job = make_job("lenet")
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    try:
        for _ in range(workers):
            cluster.add_node(num_cpus=1)
        with ExitStack() as stack:
            executors: dict[str, Executor] = {
                "processes": stack.enter_context(Processes(job, workers)),
                "ray": stack.enter_context(OnRay(job, workers, address=cluster.address)),
            }
            together = interleaved({name: ours(each, visits) for name, each in executors.items()}, repetitions)
            one_batch = Training(lr=LR, batch_size=BATCH, steps=1)
            hops = {}
            for kind, way in (("hop", chain), ("hop_to_other_node", swapped)):
                took = interleaved(
                    {name: way(each, visits, one_batch) for name, each in executors.items()}, repetitions
                )
                hops[kind] = [1e3 * (ray - here) / visits for here, ray in zip(took["processes"], took["ray"])]
            return [
                figure(f"visit_lenet_{workers}_ray_vs_processes", ratios(together["processes"], together["ray"]), "x"),
                figure("visit_lenet_ray", [visits / seconds for seconds in together["ray"]], "visits/s"),
                figure("visit_lenet_processes", [visits / seconds for seconds in together["processes"]], "visits/s"),
                *(figure(f"{kind}_lenet_ray_adds", added, "ms") for kind, added in hops.items()),
            ]
    finally:
        cluster.shutdown()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--visits", type=int, default=40)
    arguments = parser.parse_args()
    print(f"{usable_cpus()} cores, load {os.getloadavg()[0]:.1f}", flush=True)
    print(table(figures(arguments.workers, arguments.repetitions, arguments.visits)))


if __name__ == "__main__":
    main()
