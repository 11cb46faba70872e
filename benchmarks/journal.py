"""What durability costs: a run with a journal against the same run without, and how fast a killed run is live again.

    python -m benchmarks.journal [--repetitions 5] [--checkpoint-every 2] [--horizon 150]

FedHusky on digits, trained in one process; and the same schedule without training, where no checkpoint is made. Ways
take turns, medians are compared, of wall time and of processor time, which a busy machine changes less. A run is killed
at 90 % of its visits and resumed; what passes until it is where it was is compared with the whole run.
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import os
import signal
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from fedtempo import folders
from fedtempo.config import Config, parse
from fedtempo.folders import complete
from fedtempo.record import RunFolder
from fedtempo.runtime.executors.journalled import Journalled
from fedtempo.runtime.simulation import Simulation
from fedtempo.world import World, build_world


def configuration(kind: str, checkpoint_every: float, horizon_s: float) -> Config:
    """FedHusky's setting on digits."""
    return parse(
        {
            "run": {"horizon": horizon_s, "checkpoint_every": checkpoint_every},
            "data": {
                "clients": 50,
                "examples_per_client": 25,
                "tell_labels": True,
                "partition": {"kind": "dirichlet", "alpha": 0.0},
            },
            "model": {"network": "lenet", "padding": "same"},
            "training": {"lr": 0.1, "batch_size": 5},
            "fleet": {
                "compute": {"kind": "uniform", "low": 1.0, "high": 10.0, "unit": "s/visit"},
                "link": {"kind": "path-loss"},
                "estimates": "exact",
            },
            "strategy": {"name": "fedhusky", "clusters": "labels"},
            "executor": {"kind": kind},
        }
    )


@dataclass(frozen=True)
class Cost:
    """Median seconds of a run in a folder, of wall and of processor time; its visits, and its journal's bytes."""

    wall_s: float
    processor_s: float
    visits: int
    size_bytes: int


def costs(place: Path, configs: Sequence[Config], world: World, repetitions: int) -> list[Cost]:
    """Of each configuration; they take turns."""
    times: list[list[tuple[float, float]]] = [[] for _ in configs]
    visits, sizes = 0, [0] * len(configs)
    for repetition in range(repetitions):
        for number, config in enumerate(configs):
            folder = place / f"{config.executor.kind}-{number}-{repetition}"
            with removed(sizes, number):
                began = time.perf_counter(), time.process_time()
                visits = complete(config, folder, world=world)["visits"]
                times[number].append((time.perf_counter() - began[0], time.process_time() - began[1]))
    return [Cost(*map(statistics.median, zip(*each)), visits, size) for each, size in zip(times, sizes)]


@contextlib.contextmanager
def removed(sizes: list[int], number: int) -> Iterator[None]:
    """Put the size of the journal of a run that ends in this block into `sizes`."""
    tidy = folders._tidy

    def measured(folder: RunFolder, summary: Any) -> None:
        sizes[number] = folder.journal.stat().st_size
        tidy(folder, summary)

    with mock.patch.object(folders, "_tidy", measured):
        yield


def die_at(config: Config, folder: Path, visits: int) -> None:
    """A life that ends with so many visits begun."""

    def watch(sim: Simulation, _: Any) -> None:
        hold = sim._visits._hold

        def counted(*arguments: Any) -> Any:
            if sim.visits_begun > visits:
                os.kill(os.getpid(), signal.SIGKILL)
            return hold(*arguments)

        sim._visits._hold = counted  # type: ignore[method-assign]

    complete(config, folder, watch=watch)


def until_live_s(config: Config, folder: Path, world: World) -> float:
    """Seconds from the beginning of a resumed run's life to its first operation beyond the journal."""
    began, live = time.perf_counter(), []
    following = Journalled._next

    def watched(self: Journalled, asked: Any) -> Any:
        answer = following(self, asked)
        if not live and not self.replays:
            live.append(time.perf_counter() - began)
        return answer

    with mock.patch.object(Journalled, "_next", watched):
        complete(config, folder, world=world)
    return live[0]


def main(repetitions: int = 5, checkpoint_every: float = 2.0, horizon_s: float = 150.0) -> None:
    """Print the costs."""
    world = build_world(configuration("inline", 0.0, horizon_s))
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        ways = [configuration("inline", every, horizon_s) for every in (0.0, checkpoint_every)]
        without, journalled = costs(place, ways, world, repetitions)
        print(
            f"training, {without.visits} visits in {without.wall_s:.1f} s, a checkpoint every {checkpoint_every:g} s: "
            f"{journalled.wall_s / without.wall_s - 1:+.1%} wall time, "
            f"{journalled.processor_s / without.processor_s - 1:+.1%} processor time (gate: at most +3 %); "
            f"journal {journalled.size_bytes / 1e3:.0f} kB, {journalled.size_bytes / without.visits:.0f} bytes a visit",
            flush=True,
        )
        killed = place / "killed"
        life = multiprocessing.get_context("forkserver").Process(
            target=die_at, args=(ways[1], killed, 9 * without.visits // 10)
        )
        life.start()
        life.join()
        assert life.exitcode == -signal.SIGKILL
        seconds = until_live_s(ways[1], killed, world)
        print(
            f"killed at 90 % of its visits, where it was after {seconds:.2f} s: {seconds / journalled.wall_s:.1%} "
            "of the run (gate: at most 5 %)",
            flush=True,
        )
        ways = [configuration("none", every, 10 * horizon_s) for every in (0.0, checkpoint_every)]
        without, journalled = costs(place, ways, world, repetitions)
        print(
            f"schedule only, {without.visits} visits: "
            f"{1e6 * (journalled.processor_s - without.processor_s) / without.visits:+.1f} us a visit "
            f"(gate: at most 10); journal {journalled.size_bytes} bytes"
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="What durability costs.")
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--checkpoint-every", type=float, default=2.0)
    parser.add_argument("--horizon", type=float, default=150.0)
    arguments = parser.parse_args()
    main(arguments.repetitions, arguments.checkpoint_every, arguments.horizon)
