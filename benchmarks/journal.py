"""What durability costs: a run with a journal against the same run without, and how fast a killed run is live again.

    python -m benchmarks.journal [--checkpoint-every 30] [--horizon 900]

FedHusky on digits, trained in one process; and the same schedule without training, where no checkpoint is made. Both
runs are made in one process and take turns, a few visits each, so that they meet the same machine. A run is killed at
90 % of its visits and resumed; what passes until it is where it was is compared with the whole run.
"""

from __future__ import annotations

import argparse
import functools
import multiprocessing
import os
import signal
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from fedtempo.record import RunFolder
from fedtempo.runs import run as one_run
from fedtempo.runs.config import Config, parse
from fedtempo.runs.run import Run
from fedtempo.runs.world import World, build_world
from fedtempo.runtime.executors.inline import Inline
from fedtempo.runtime.executors.journalled import Journalled
from fedtempo.runtime.executors.none import NoTraining
from fedtempo.runtime.runner import Driven
from fedtempo.runtime.simulation import Simulation


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
    """Seconds of a run in a folder, of each of its turns; its visits, and its journal's bytes."""

    turns_s: Sequence[float]
    visits: int
    size_bytes: int

    @property
    def wall_s(self) -> float:
        return sum(self.turns_s)


class Turns:
    """Two runs on two threads of which one goes on: each `stride` visits, and then the other.

    Both so meet the same machine, whose pace changes by more than what is looked for. While a checkpoint is being
    written its run keeps the turn.
    """

    def __init__(self, stride: int) -> None:
        self.seconds: tuple[list[float], list[float]] = [], []
        self._stride, self._alone = stride, False
        self._go = threading.Semaphore(1), threading.Semaphore(0)
        self._mine = threading.local()

    def take(self, number: int, whole: Callable[[], None]) -> None:
        """Make the first or the second run on this thread."""
        self._mine.number, self._mine.visits, self._mine.journalled = number, 0, None
        self._begin()
        try:
            whole()
        finally:
            self._alone = True
            self._end()

    def knows(self, journalled: Journalled) -> None:
        """Whose checkpoints are this thread's."""
        self._mine.journalled = journalled

    def visit(self) -> None:
        """A visit is about to begin: perhaps in a later turn."""
        self._mine.visits += 1
        writing = self._mine.journalled and self._mine.journalled._writing
        if self._mine.visits % self._stride == 0 and not self._alone and not (writing and not writing.done()):
            self._end()
            self._begin()

    def _begin(self) -> None:
        self._go[self._mine.number].acquire()
        self._mine.began = time.perf_counter()

    def _end(self) -> None:
        self.seconds[self._mine.number].append(time.perf_counter() - self._mine.began)
        self._go[1 - self._mine.number].release()


def costs(place: Path, configs: Sequence[Config], stride: int) -> list[Cost]:
    """Of two configurations' runs of the same visits."""
    turns, sizes, visits = Turns(stride), {}, {}
    executor = Inline if configs[0].executor.kind == "inline" else NoTraining
    train, make, tidy = executor.train, Journalled.__init__, one_run.leave_results

    def in_turn(self: Any, *arguments: Any) -> Any:
        turns.visit()
        return train(self, *arguments)

    def known(self: Journalled, *arguments: Any, **options: Any) -> None:
        make(self, *arguments, **options)
        turns.knows(self)

    def measured(folder: RunFolder, keep: Collection[str]) -> None:
        sizes[folder.path.name] = folder.journal.stat().st_size
        tidy(folder, keep)

    def whole(number: int, world: World) -> None:
        visits[number] = Run(configs[number], world=world, page=False).complete(
            place / f"{executor.__name__}-{number}"
        )["visits"]

    with (
        mock.patch.object(executor, "train", in_turn),
        mock.patch.object(Journalled, "__init__", known),
        mock.patch.object(one_run, "leave_results", measured),
        ThreadPoolExecutor(2) as threads,
    ):
        worlds = [build_world(config) for config in configs]
        both = [threads.submit(turns.take, n, functools.partial(whole, n, world)) for n, world in enumerate(worlds)]
        for each in both:
            each.result()
    return [Cost(turns.seconds[n], visits[n], sizes[f"{executor.__name__}-{n}"]) for n in range(2)]


def excess(without: Cost, journalled: Cost) -> tuple[float, float]:
    """How much longer the second took, as a share; and that share's standard error, from 20 parts of their turns."""
    turns = min(len(without.turns_s), len(journalled.turns_s))
    parts = [
        (sum(without.turns_s[part]), sum(journalled.turns_s[part]))
        for part in (slice(k * turns // 20, (k + 1) * turns // 20) for k in range(20))
    ]
    ratios = [second / first for first, second in parts if first]
    return journalled.wall_s / without.wall_s - 1, statistics.stdev(ratios) / len(ratios) ** 0.5


def die_at(config: Config, folder: Path, visits: int) -> None:
    """A life that ends with so many visits begun."""

    def watch(sim: Driven, _: Any) -> None:
        assert isinstance(sim, Simulation)
        hold = sim._visits.hold

        def counted(*arguments: Any) -> Any:
            if sim.visits_begun > visits:
                os.kill(os.getpid(), signal.SIGKILL)
            return hold(*arguments)

        sim._visits.hold = counted  # type: ignore[method-assign,assignment]

    Run(config, watch=watch, page=False).complete(folder)


def until_live_s(config: Config, folder: Path, world: World) -> float:
    """Seconds from the beginning of a resumed run's life to its first operation beyond the journal."""
    began = time.perf_counter()
    live: list[float] = []
    following = Journalled._next

    def watched(self: Journalled, asked: Any) -> Any:
        answer = following(self, asked)
        if not live and not self.replays:
            live.append(time.perf_counter() - began)
        return answer

    with mock.patch.object(Journalled, "_next", watched):
        Run(config, world=world, page=False).complete(folder)
    return live[0]


def main(checkpoint_every: float = 30.0, horizon_s: float = 900.0) -> None:
    """Print the costs."""
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        Run(configuration("inline", 0.0, horizon_s / 20), page=False).complete(place / "warm")
        ways = [configuration("inline", every, horizon_s) for every in (0.0, checkpoint_every)]
        without, journalled = costs(place, ways, stride=5)
        share, error = excess(without, journalled)
        print(
            f"training, {without.visits} visits in {without.wall_s:.1f} s, a checkpoint every {checkpoint_every:g} s: "
            f"{share:+.2%} +- {error:.2%} wall time (gate: at most +3 %); "
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
        seconds = until_live_s(ways[1], killed, build_world(ways[1]))
        print(
            f"killed at 90 % of its visits, where it was after {seconds:.2f} s: {seconds / journalled.wall_s:.1%} "
            "of the run (gate: at most 5 %)",
            flush=True,
        )
        ways = [configuration("none", every, 10 * horizon_s) for every in (0.0, checkpoint_every)]
        without, journalled = costs(place, ways, stride=100)
        share, error = excess(without, journalled)
        us = 1e6 * without.wall_s / without.visits
        print(
            f"schedule only, {without.visits} visits: {us * share:+.2f} +- {us * error:.2f} us a visit "
            f"(gate: at most 10); journal {journalled.size_bytes} bytes"
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="What durability costs.")
    parser.add_argument("--checkpoint-every", type=float, default=30.0)
    parser.add_argument("--horizon", type=float, default=900.0)
    arguments = parser.parse_args()
    main(arguments.checkpoint_every, arguments.horizon)
