"""What a long schedule takes of memory and of its folder: looked at along the way, nothing may grow with its visits.

    python -m benchmarks.flat [--clients 50] [--strategy fedavg] [--visits 10000000] [--record all] [--traced]

A whole run to the disk without training. Memory is that of the process, growth is counted from the first tenth of the
visits on, by when everything has been used once (gate: less than 5 %). --traced: memory is that of Python's objects,
and the lines of code are named whose objects grew most (slow).
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import tempfile
import time
import tracemalloc
from pathlib import Path
from typing import Any

from benchmarks.clock import configuration
from benchmarks.memory import resident_bytes
from fedtempo.runs.config import Config
from fedtempo.runs.run import Run
from fedtempo.runs.world import build_world
from fedtempo.runtime.runner import Driven
from fedtempo.runtime.simulation import Simulation

MIB = 2**20


def folder_bytes(folder: Path) -> int:
    """What the files of a folder take."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


class Watch:
    """Looks at memory and folder after each tenth of the visits, from within the run, and ends it after the last.

    memory, folder: bytes after each tenth. traced: memory is that of Python's objects alone. grew: what grew most.
    """

    def __init__(self, folder: Path, visits: int, *, traced: bool = False) -> None:
        self._folder, self._visits, self._traced = folder, visits, traced
        self._before: Any = None
        self.memory: list[int] = []
        self.folder: list[int] = []
        self.grew: list[str] = []

    def __call__(self, sim: Driven, _: Any) -> None:
        assert isinstance(sim, Simulation)
        self._sim, self._task = sim, asyncio.get_running_loop().create_task(self._look(), name="watch")

    async def _look(self) -> None:
        while len(self.memory) < 10:
            await self._sim.sleep_until(self._sim.now + 10.0)
            if self._sim.visits_begun < self._visits * (len(self.memory) + 1) / 10:
                continue
            self._sim._recorder.flush()
            self.folder.append(folder_bytes(self._folder))
            self.memory.append(self._trace() if self._traced else resident_bytes())
        self._sim.end("budget")

    def _trace(self) -> int:
        gc.collect()
        traced_bytes, tenths = tracemalloc.get_traced_memory()[0], len(self.folder)
        if tenths == 1:
            self._before = tracemalloc.take_snapshot()
        elif tenths == 10:
            self.grew = [str(line) for line in tracemalloc.take_snapshot().compare_to(self._before, "lineno")[:10]]
        return traced_bytes


def long_run(config: Config, visits: int, *, traced: bool = False) -> tuple[Watch, dict[str, Any], float]:
    """A run of so many visits, looked at; its summary; and the processor seconds that it took."""
    with tempfile.TemporaryDirectory() as name:
        watch = Watch(Path(name), visits, traced=traced)
        world = build_world(config)
        if traced:
            tracemalloc.start()
        began = time.process_time()
        try:
            summary = Run(config, world=world, watch=watch, page=False).begin(Path(name) / "run")
        finally:
            tracemalloc.stop()
        return watch, summary, time.process_time() - began


def main() -> None:
    """Print how both went."""
    parser = argparse.ArgumentParser(description="What a long schedule takes of memory and of its folder.")
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--strategy", default="fedavg")
    parser.add_argument("--visits", type=int, default=10_000_000)
    parser.add_argument("--record", choices=("all", "totals"), default="all")
    parser.add_argument("--traced", action="store_true")
    asked = parser.parse_args()
    changes = {"run.record": asked.record}
    if asked.strategy.startswith("fedhusky"):
        changes |= {"data.tell_labels": True, "strategy.clusters": "labels"}
    config = configuration(asked.clients, 1e9, asked.strategy).with_changes(changes)
    watch, summary, seconds = long_run(config, asked.visits, traced=asked.traced)
    print(f"{asked.strategy}, N = {asked.clients:,}, record = {asked.record}, visits so far: memory, folder")
    for tenth, (memory, folder) in enumerate(zip(watch.memory, watch.folder), start=1):
        print(f"{asked.visits * tenth // 10:>12,}: {memory / MIB:8.1f} MiB {folder / MIB:9.1f} MiB")
    peak = resident_bytes(peak=True)
    growth, written = watch.memory[-1] / watch.memory[0] - 1, watch.folder[-1] - watch.folder[0]
    print(
        f"growth {growth:+.1%} (gate: less than 5 %), peak {peak / MIB:.0f} MiB; "
        f"{written / (0.9 * asked.visits):.1f} bytes a visit in the folder; "
        f"{summary['visits'] / seconds:,.0f} visits a second of processor time"
    )
    print("\n".join(watch.grew))


if __name__ == "__main__":
    main()
