"""What durability costs: a run with a journal against the same run without, and how fast a killed run is live again.

    python benchmarks/journal.py [--repetitions 5] [--checkpoint-every 5]

FedHusky on digits, trained by worker processes; and the same schedule without training, where the folder is all that
there is. Ways take turns, medians of wall time are compared. A run is killed at 90 % of its visits and resumed; what
passes until the first operation that is done again is compared with the whole run.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import signal
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fedtempo.config import Config, parse
from fedtempo.folders import complete
from fedtempo.launch import World, build_world
from fedtempo.record.journal import Journal
from fedtempo.runtime.executors.journalled import Journalled
from fedtempo.runtime.simulation import Simulation

HORIZON_S = 250.0


def configuration(kind: str, checkpoint_every: float) -> Config:
    """FedHusky's setting on digits."""
    return parse(
        {
            "run": {"horizon": HORIZON_S, "checkpoint_every": checkpoint_every},
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
            "executor": {"kind": kind, "workers": 2} if kind == "processes" else {"kind": kind},
        }
    )


def timed(work: Callable[[], Any]) -> float:
    """Seconds of wall time."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def cost(place: Path, kind: str, every_s: float, world: World, repetitions: int) -> tuple[float, float, int, int]:
    """Median seconds of a run in a folder without and with checkpoints; its visits; the journal's bytes at its end."""
    ways = {every: configuration(kind, every) for every in (0.0, every_s)}
    times: dict[float, list[float]] = {every: [] for every in ways}
    sizes = []
    keep = Journal.remove
    Journal.remove = lambda journal: sizes.append(journal.path.stat().st_size)  # type: ignore[method-assign]
    visits = 0
    try:
        for repetition in range(repetitions):
            for every, config in ways.items():
                folder = place / f"{kind}-{every:g}-{repetition}"
                began = time.perf_counter()
                visits = complete(config, folder, world=world)["visits"]
                times[every].append(time.perf_counter() - began)
    finally:
        Journal.remove = keep  # type: ignore[method-assign]
    return statistics.median(times[0.0]), statistics.median(times[every_s]), visits, sizes[-1]


def die_at(config: Config, folder: Path, visits: int) -> None:
    """A life that ends with so many visits begun."""

    def watch(sim: Simulation, _: Any) -> None:
        begin = sim._visits.begin

        async def counted(*arguments: Any, **options: Any) -> Any:
            if sim.visits_begun >= visits:
                os.kill(os.getpid(), signal.SIGKILL)
            return await begin(*arguments, **options)

        sim._visits.begin = counted  # type: ignore[method-assign]

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

    Journalled._next = watched  # type: ignore[method-assign]
    try:
        complete(config, folder, world=world)
    finally:
        Journalled._next = following  # type: ignore[method-assign]
    return live[0]


def main(repetitions: int = 5, checkpoint_every: float = 5.0) -> None:
    """Print the costs."""
    world = build_world(configuration("inline", 0.0))
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        without, journalled, visits, size = cost(place, "processes", checkpoint_every, world, repetitions)
        print(
            f"training, {visits} visits: {without:.2f} s without checkpoints, {journalled:.2f} s with one every "
            f"{checkpoint_every:g} s: {journalled / without - 1:+.1%} (gate: at most +3 %); "
            f"journal {size / 1e3:.0f} kB, {size / visits:.0f} bytes a visit"
        )
        bare, kept, visits, size = cost(place, "none", checkpoint_every, world, repetitions)
        print(
            f"schedule only, {visits} visits: {1e6 * (kept - bare) / visits:+.1f} us a visit (gate: at most 10); "
            f"journal {size} bytes"
        )
        config, folder = configuration("processes", 1.0), place / "killed"
        life = multiprocessing.get_context("forkserver").Process(target=die_at, args=(config, folder, 9 * visits // 10))
        life.start()
        life.join()
        assert life.exitcode == -signal.SIGKILL
        seconds = until_live_s(config, folder, world)
        print(f"killed at 90 % of its visits, live again after {seconds:.2f} s: {seconds / journalled:.1%} of the run")
        print("(gate: at most 5 %)")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="What durability costs.")
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--checkpoint-every", type=float, default=5.0)
    arguments = parser.parse_args()
    main(arguments.repetitions, arguments.checkpoint_every)
