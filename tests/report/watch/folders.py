"""Run folders as the page finds them, written without a run: one in progress, and one that has finished."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from fedtempo.record import Recorder, RunFolder
from fedtempo.record.recorder import VisitRow

NAMES = ["Ward <b>7</b>", "O'Hara & sons", *(f"clinic {i}" for i in range(2, 10_000))]


class Written:
    """A run folder written step by step: clients in groups of two take turns, visit after visit."""

    def __init__(
        self,
        folder: Path,
        *,
        clients: int = 24,
        horizon_s: float | None = 100.0,
        strategy: str = "fedhusky",
        seed: int = 1,
    ) -> None:
        self.place = RunFolder.create(folder, seed)
        self.place.config.write_text(f'[run]\nseed = {seed}\n[strategy]\nname = "{strategy}"\n')
        self.recorder = Recorder(folder)
        self.clients = clients
        facts = {
            "strategy": strategy,
            "seed": seed,
            "n_clients": clients,
            "horizon_s": horizon_s,
            "target_accuracy": 0.8,
            "client_names": NAMES[:clients],
            "data": {"source": "digits"},
            "resumed": 0,
        }
        for name, value in facts.items():
            self.recorder.fact(name, value)
        rng = np.random.default_rng(seed)
        self._busy_s = rng.uniform(1.0, 6.0, clients)
        self._rng, self._free = rng, np.zeros(clients)
        self._number = self._version = self._evaluated = 0
        self._visits: list[VisitRow] = []
        """Those that have begun and not ended, by row."""

    def go(self, until_s: float) -> None:
        """Record all visits that end by the given time."""
        for client in range(self.clients):
            while self._free[client] < until_s:
                self._begin(client)
        ended = sorted((row for row in self._visits if row.finished <= until_s), key=lambda row: row.finished)
        self._visits = [row for row in self._visits if row.finished > until_s]
        while 5.0 * self._evaluated <= until_s:
            time = 5.0 * self._evaluated
            accuracy = 0.1 + 0.75 * (1 - np.exp(-time / 30)) + self._rng.normal(0, 0.01)
            self.recorder.evaluation(time, self._version, float(accuracy), float(2.5 - 2.4 * accuracy))
            self._evaluated += 1
        for row in ended:
            self.recorder.visit(row)
            self.recorder.traffic(down=40_000, up=40_000)
            if row.outcome == "done" and row.number % 3 == 0:
                self._version += 1
                self.recorder.commit(self._version, row.finished, int(row.number % 7))
        self.recorder.flush()

    def now(self, now_s: float) -> None:
        """Publish the visits in progress, as a run does."""
        rows = [
            (row.client, -1 if row.group is None else row.group, row.started, row.received, row.computed)
            for row in self._visits
        ]
        rows = [row for row in rows if row[2] <= now_s]
        state = {"now_s": now_s, "visits_begun": self._number, "busy": len(rows), "in_progress": rows}
        self.place.now.write_text(json.dumps(state))

    def end(self, elapsed_s: float, ended: str = "horizon") -> None:
        self.recorder.fact("ended", ended)
        self.recorder.fact("elapsed_s", elapsed_s)
        self.close()

    def close(self) -> None:
        self.recorder.close()
        self.place.__exit__()
        self.place.now.unlink(missing_ok=True)

    def _begin(self, client: int) -> None:
        self._number += 1
        started = float(self._free[client])
        received = started + 0.3
        computed = received + float(self._busy_s[client])
        finished = computed + 0.4
        outcome = "late" if self._rng.uniform() < 0.04 else "done"
        group = None if client % 5 == 0 else self._number // 4
        self._visits.append(
            VisitRow(self._number, client, group, 0, started, started, received, computed, finished, outcome, 20, 1.0)
        )
        self._free[client] = finished + float(self._rng.choice([0.0, 0.0, 2.5]))
