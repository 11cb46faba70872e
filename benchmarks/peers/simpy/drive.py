"""SimPy: the clock's benchmark as its users write it: a process for each visit, FedAvg's round as `all_of` of them.

A request is {"means": [[download_s, compute_s, upload_s], ...], "variation": ..., "rounds": ...}. Computing varies
as ours does, normal about its mean and cut off at 0. Rows of visits have our columns and go to SQLite in batches of the
same size on the same terms. What ours does beside, a hash of all events and the run's summary, is not done here.
"""

from __future__ import annotations

import gc
import random
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import simpy

from benchmarks.peers.protocol import answer

BATCH_ROWS = 5_000
TABLE = """CREATE TABLE visits(
    number INTEGER PRIMARY KEY, client INTEGER, "group" INTEGER, base_version INTEGER,
    queued REAL, started REAL, received REAL, computed REAL, finished REAL,
    outcome TEXT, examples INTEGER, loss REAL)"""


class Record:
    """Rows of visits, in a file."""

    def __init__(self, path: Path) -> None:
        self.connection = sqlite3.connect(path)
        self.connection.execute("PRAGMA journal_mode=WAL")
        self.connection.execute("PRAGMA synchronous=NORMAL")
        self.connection.execute(TABLE)
        self.rows: list[tuple[object, ...]] = []
        self.visits = 0

    def add(self, row: tuple[object, ...]) -> None:
        self.rows.append(row)
        if len(self.rows) >= BATCH_ROWS:
            self.write()

    def write(self) -> None:
        with self.connection:
            self.connection.executemany("INSERT INTO visits VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", self.rows)
        self.visits += len(self.rows)
        self.rows.clear()

    def close(self) -> None:
        self.write()
        self.connection.close()


class FedAvg:
    def __init__(self, means: list[list[float]], variation: float, record: Record) -> None:
        self.env = simpy.Environment()
        self.means, self.variation, self.record = means, variation, record
        self.rng = random.Random(0)  # noqa: S311  times, not secrets
        self.begun = 0

    def factor(self) -> float:
        while (drawn := self.rng.gauss(1.0, self.variation)) <= 0:
            pass
        return drawn

    def visit(self, client: int, number: int, round_number: int) -> Iterator[simpy.Event]:
        env = self.env
        download_s, compute_s, upload_s = self.means[client]
        started = env.now
        yield env.timeout(download_s)
        received = env.now
        yield env.timeout(compute_s * self.factor())
        computed = env.now
        yield env.timeout(upload_s)
        row = (number, client, None, round_number, started, started, received, computed, env.now, "done", 1, None)
        self.record.add(row)

    def run(self, rounds: int) -> None:
        self.env.run(self.env.process(self.train(rounds)))

    def train(self, rounds: int) -> Iterator[simpy.Event]:
        for round_number in range(rounds):
            visits = []
            for client in range(len(self.means)):
                visits.append(self.env.process(self.visit(client, self.begun, round_number)))
                self.begun += 1
            yield self.env.all_of(visits)


def turn(request: dict[str, Any]) -> dict[str, float]:
    """Visits, and seconds of processor time, the building of the simulation and the file included."""
    gc.collect()
    with tempfile.TemporaryDirectory() as folder:
        began = time.process_time()
        record = Record(Path(folder) / "run.sqlite")
        FedAvg(request["means"], request["variation"], record).run(request["rounds"])
        record.close()
        return {"visits": record.visits, "seconds": time.process_time() - began}


if __name__ == "__main__":
    answer(turn)
