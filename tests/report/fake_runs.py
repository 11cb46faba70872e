"""Realistic runs without training: four strategies over one fleet of clients, each in a separate run folder."""

from __future__ import annotations

import heapq
from pathlib import Path

import numpy as np

from fedtempo.record import Recorder, Run, RunFolder, load_run, summarise, write_json
from fedtempo.record.recorder import VisitRow

SPEEDS = {"fedhusky": 60.0, "hybrid": 350.0, "sequential": 470.0, "fedavg": 1600.0}
CLUSTERS = 10
TRANSFER_S = 0.2


class FakeRun:
    """Clients of unequal speed that perform one visit at a time."""

    def __init__(self, strategy: str, seed: int, n_clients: int, horizon: float) -> None:
        self.rng = np.random.default_rng([seed, *strategy.encode()])
        self.strategy, self.horizon, self.n_clients = strategy, horizon, n_clients
        self.compute_s = np.random.default_rng(seed).uniform(1.0, 10.0, n_clients)
        self.cluster = np.arange(n_clients) % CLUSTERS
        self.free = np.zeros(n_clients)
        self.visits: list[tuple] = []
        self.ends: list[tuple[float, int]] = []
        self.groups = 0

    def visit(self, client: int, group: int | None, ready: float) -> float:
        started = max(ready, self.free[client])
        received = started + TRANSFER_S
        computed = received + self.compute_s[client]
        self.free[client] = finished = computed + TRANSFER_S
        if started < self.horizon:
            cut = finished > self.horizon
            self.visits.append(
                (
                    client,
                    group,
                    len(self.ends),
                    *map(float, (ready, started, received)),
                    None if computed > self.horizon else float(computed),
                    float(min(finished, self.horizon)),
                    "cut" if cut else "done",
                    100,
                    None if cut else float(self.rng.uniform(0.2, 2)),
                )
            )
        return float(finished)

    def chain(self, clients: list[int], ready: float) -> float:
        group, self.groups = self.groups, self.groups + 1
        for client in clients:
            ready = self.visit(int(client), group, ready)
        return ready

    def hopping(self, at_once: int) -> None:
        """Run groups of one client per cluster; a new group begins when one ends."""
        heap = [(0.0, slot, slot, 0, ()) for slot in range(at_once)]
        self.groups = at_once
        while heap:
            now, slot, group, base, left = heapq.heappop(heap)
            if base == -1:
                base = len(self.ends)
            left = left or tuple(self.rng.permutation(CLUSTERS))
            members = np.flatnonzero(self.cluster == left[0])
            client = int(members[np.argmin(self.free[members] + self.rng.uniform(0, 6, members.size))])
            end = self.visit(client, group, now)
            if len(left) > 1:
                heapq.heappush(heap, (end, slot, group, base, left[1:]))
                continue
            self.ends.append((end, len(self.ends) - base))
            if end < self.horizon - 60:
                heapq.heappush(heap, (end, slot, self.groups, -1, ()))
                self.groups += 1

    def rounds(self, groups: int, length: int) -> None:
        now = 0.0
        while now < self.horizon:
            chosen = self.rng.permutation(self.n_clients)[: groups * length].reshape(groups, length)
            now = max(self.chain(list(clients), now) for clients in chosen)
            self.ends.append((now, 0))

    def accuracies(self, times: np.ndarray) -> np.ndarray:
        rise = 1 - np.exp(-times / (SPEEDS[self.strategy] * self.rng.uniform(0.85, 1.15)))
        wobble = np.cumsum(self.rng.normal(0, 0.004, times.size)) * np.exp(-times / 400)
        top = 0.55 if self.strategy == "fedavg" else 0.86
        return np.clip(0.1 + (top - 0.1) * rise + wobble + self.rng.normal(0, 0.006, times.size), 0, 1)


def fake_run(
    folder: Path,
    strategy: str,
    seed: int,
    *,
    n_clients: int = 50,
    horizon: float = 1000.0,
    trained: bool = True,
    target: float | None = 0.8,
    label: str | None = None,
    client_names: list[str] | None = None,
    rows: bool = True,
) -> Run:
    """Write a finished run of `strategy` (a key of SPEEDS) into `folder` and read it back."""
    fake = FakeRun(strategy, seed, n_clients, horizon)
    match strategy:
        case "fedhusky":
            fake.hopping(at_once=32)
        case "hybrid":
            fake.rounds(n_clients // CLUSTERS, CLUSTERS)
        case "sequential":
            fake.rounds(1, n_clients)
        case "fedavg":
            fake.rounds(10, 1)
    run_folder = RunFolder.create(folder, seed)
    recorder = Recorder(folder, rows=rows)
    facts = {
        "strategy": strategy,
        "label": label,
        "seed": seed,
        "n_clients": n_clients,
        "horizon_s": horizon,
        "elapsed_s": horizon,
        "ended": "horizon",
        "target_accuracy": target,
        "data": {"source": "fashion-mnist", "train": 100 * n_clients, "test": 10_000, "sha256": "0" * 64},
        "label_histograms": [[100 * (label == c) for label in range(CLUSTERS)] for c in fake.cluster],
        "client_names": client_names,
        "wall_s": 41.2,
        "version": "0.1.0",
        "model_sha256": "0" * 64,
    }
    for name, value in facts.items():
        recorder.fact(name, value)
    for number, visit in enumerate(sorted(fake.visits, key=lambda row: row[7])):
        recorder.visit(VisitRow(number, *visit))
        recorder.traffic(down=1_700_000, relay=1_700_000)
    ends = sorted(end for end in fake.ends if end[0] <= horizon)
    for version, (time, staleness) in enumerate(ends, start=1):
        recorder.commit(version, time, staleness)
    times = np.arange(0.0, horizon + 1, 5.0)
    accuracies = fake.accuracies(times) if trained else np.full(times.size, np.nan)
    for time, accuracy in zip(times, accuracies):
        version = sum(end <= time for end, _ in ends)
        recorder.evaluation(float(time), version, float(accuracy), float(2.5 * (1 - accuracy)))
    if strategy in ("fedhusky", "hybrid"):
        recorder.note("clusters", fake.cluster)
    recorder.close()
    run_folder.config.write_text(
        f"[run]\nseed = {seed}\nhorizon = {horizon}\n\n"
        '[fleet]\ncompute = { kind = "uniform", low = 1.0, high = 10.0 }\n\n'
        f'[strategy]\nname = "{strategy}"\n'
    )
    write_json(run_folder.summary, summarise(load_run(folder)))
    return load_run(folder)


def fake_runs(folder: Path, strategies: tuple[str, ...] = tuple(SPEEDS), seeds: int = 3, **options) -> list[Run]:
    """Write a run for each strategy and each seed from 1."""
    return [
        fake_run(folder / f"{strategy}-{seed}", strategy, seed, **options)
        for strategy in strategies
        for seed in range(1, seeds + 1)
    ]
