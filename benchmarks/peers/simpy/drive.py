"""SimPy: the clock's benchmark as its users write it: a process for each visit, FedAvg's round as `all_of` of them.

A request is {"means": [[download_s, compute_s, upload_s], ...], "factors": [[...], ...]}: each client's times, and by
what its computing is multiplied in each round. A client is a resource that does one thing at a time. Rows of visits and
commits have our columns, go to SQLite in batches of the same size on the same terms, and are hashed as ours are: the
answer's "events_sha256" is that of our run where every visit began and ended at the same instants. What ours does
beside (availability, deadlines, what the server believes, updates and their mean, the run's summary) is not done here.
"""

from __future__ import annotations

import gc
import hashlib
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import simpy

from benchmarks.peers.protocol import answer

BATCH_ROWS = 5_000
TABLE = """CREATE TABLE visits(
    number INTEGER PRIMARY KEY, client INTEGER, "group" INTEGER, base_version INTEGER,
    queued REAL, started REAL, received REAL, computed REAL, finished REAL,
    outcome TEXT, examples INTEGER, loss REAL)"""
DONE = 0
"""Our code of the outcome "done"."""


class Record:
    """Rows of visits and commits, in a file, and their hashes."""

    def __init__(self, path: Path) -> None:
        self.connection = sqlite3.connect(path)
        self.connection.execute("PRAGMA journal_mode=WAL")
        self.connection.execute("PRAGMA synchronous=NORMAL")
        self.connection.execute(TABLE)
        self.connection.execute("CREATE TABLE commits(version INTEGER PRIMARY KEY, time REAL, staleness INTEGER)")
        self.rows: list[tuple[object, ...]] = []
        self.commits: list[tuple[int, float, int]] = []
        self.visits_hash, self.commits_hash = hashlib.sha256(), hashlib.sha256()
        self.visits = 0

    def add(self, row: tuple[object, ...]) -> None:
        self.rows.append(row)
        if len(self.rows) >= BATCH_ROWS:
            self.write()

    def write(self) -> None:
        visits = np.array([(*row[:9], DONE) for row in self.rows], dtype="<f8")
        visits[np.isnan(visits)] = np.nan
        self.visits_hash.update(visits.tobytes())
        self.commits_hash.update(np.array(self.commits, dtype="<f8").tobytes())
        self.rows.sort()
        with self.connection:
            self.connection.executemany("INSERT INTO visits VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", self.rows)
            self.connection.executemany("INSERT INTO commits VALUES (?, ?, ?)", self.commits)
        self.visits += len(self.rows)
        self.rows.clear()
        self.commits.clear()

    def events_sha256(self) -> str:
        return hashlib.sha256(self.visits_hash.digest() + self.commits_hash.digest()).hexdigest()

    def close(self) -> None:
        self.write()
        self.connection.close()


class FedAvg:
    def __init__(self, means: list[list[float]], factors: list[list[float]], record: Record) -> None:
        self.env = simpy.Environment()
        self.means, self.factors, self.record = means, factors, record
        self.clients = [simpy.Resource(self.env) for _ in means]
        self.begun = 0

    def visit(self, client: int, number: int, round_number: int) -> Iterator[simpy.Event]:
        env = self.env
        download_s, compute_s, upload_s = self.means[client]
        queued = env.now
        with self.clients[client].request() as turn:
            yield turn
            started = env.now
            yield env.timeout(download_s)
            received = env.now
            yield env.timeout(compute_s * self.factors[client][round_number])
            computed = env.now
            yield env.timeout(upload_s)
            row = (number, client, None, round_number, queued, started, received, computed, env.now, "done", 1, None)
            self.record.add(row)

    def run(self, rounds: int) -> None:
        self.env.run(self.env.process(self.train(rounds)))

    def train(self, rounds: int) -> Iterator[simpy.Event]:
        for round_number in range(rounds):
            visits = []
            for client in range(len(self.means)):
                self.begun += 1
                visits.append(self.env.process(self.visit(client, self.begun, round_number)))
            yield self.env.all_of(visits)
            self.record.commits.append((round_number + 1, self.env.now, 0))


def turn(request: dict[str, Any]) -> dict[str, Any]:
    """Visits, and seconds of processor time, the building of the simulation and the file included."""
    gc.collect()
    with tempfile.TemporaryDirectory() as folder:
        began = time.process_time()
        record = Record(Path(folder) / "run.sqlite")
        FedAvg(request["means"], request["factors"], record).run(len(request["factors"][0]))
        record.close()
        seconds = time.process_time() - began
        return {"visits": record.visits, "seconds": seconds, "events_sha256": record.events_sha256()}


if __name__ == "__main__":
    answer(turn)
