"""How fast groups are planned: FedHusky's whole schedule of 1000 s, and a handful of plans in larger federations.

Run `python -m benchmarks.planner` for larger federations. Times are of one process; CPU seconds, so that busy
neighbours matter less.
"""

from __future__ import annotations

import heapq
from statistics import median
from time import process_time

import numpy as np

from benchmarks.figures import Figure, figure
from fedtempo.strategies.planning.groups import GroupPlanner
from fedtempo.strategies.planning.plan import Plan

TICK_S = 0.1


def federation(seed: int, n_clients: int, n_clusters: int) -> tuple[list[int], list[int]]:
    """Ticks of visits that compute for U[1, 10] s and send 1.7 MB both ways at about 0.5 Gbit/s; clusters in turn."""
    rng = np.random.default_rng(seed)
    visit_s = rng.uniform(1, 10, n_clients) + 2 * 1.7 * 8 / rng.uniform(400, 700, n_clients)
    return np.ceil(visit_s / TICK_S).astype(int).tolist(), (np.arange(n_clients) % n_clusters).tolist()


def measure(
    seed: int,
    n_clients: int,
    n_clusters: int,
    horizon_s: float = 1000,
    heads: int | None = None,
    calls: int | None = None,
) -> tuple[float, list[float], list[float], int]:
    """Plan and book: OPT-j for the first `heads` clients, then OPT-k at releases, `calls` attempts in all.

    Returns seconds in all, of each call that formed a group, of each that did not; and how many were not proved best.
    """
    durations, cluster = federation(seed, n_clients, n_clusters)
    started = process_time()
    planner = GroupPlanner(durations, cluster, n_clusters, round(horizon_s / TICK_S))
    attempts = [(0, head) for head in range(n_clients)]
    formed_s: list[float] = []
    refused_s: list[float] = []
    open_questions = 0
    while attempts and (calls is None or len(formed_s) + len(refused_s) < calls):
        t0, first = heapq.heappop(attempts)
        planner.forget_before(t0)
        before = process_time()
        plan: Plan = planner.plan(t0, first if first < n_clients else None)
        (formed_s if plan else refused_s).append(process_time() - before)
        open_questions += plan.status in ("feasible", "unknown")
        planner.book(plan)
        for (_, begin), duration in zip(plan.stops, plan.durations):
            heapq.heappush(attempts, (begin + duration, n_clients))
    return process_time() - started, formed_s, refused_s, open_questions


def line(seed: int, n_clients: int, n_clusters: int, calls: int | None = None) -> str:
    """`measure` as a line of the table."""
    whole_s, formed_s, refused_s, open_questions = measure(seed, n_clients, n_clusters, calls=calls)

    def milliseconds(seconds: list[float]) -> str:
        return f"{1e3 * median(seconds):8.3f} {1e3 * max(seconds):8.2f}" if seconds else f"{'-':>8} {'-':>8}"

    name = f"N = {n_clients}, C = {n_clusters}, seed {seed}"
    counts = f"{len(formed_s) + len(refused_s):6d} {len(formed_s):6d} {open_questions:6d}"
    return f"{name:28s} {whole_s:8.2f} {counts} {milliseconds(formed_s)} {milliseconds(refused_s)}"


def figures(repetitions: int = 5, horizon_s: float = 1000) -> list[Figure]:
    """planner_feasible_ms, the median of calls that form a group, and planner_schedule_s; N = 50, 10 clusters."""
    runs = [measure(seed, 50, 10, horizon_s) for seed in range(1, repetitions + 1)]
    return [
        figure("planner_feasible_ms", [1e3 * median(formed_s) for _, formed_s, _, _ in runs], "ms"),
        figure("planner_schedule_s", [whole_s for whole_s, _, _, _ in runs], "s"),
    ]


def main() -> None:
    print(f"{'':28s} {'all':>8} {'':6s} {'':6s} {'not':>6} {'group: ms':>17} {'no group: ms':>17}")
    print(f"{'':28s} {'s':>8} {'calls':>6} {'groups':>6} {'proved':>6}" + f" {'median':>8} {'most':>8}" * 2)
    for n_clients, n_clusters, calls in ((50, 10, None), (500, 10, 2000), (1000, 10, 2000), (10_000, 10, 1000)):
        print(line(1, n_clients, n_clusters, calls), flush=True)


if __name__ == "__main__":
    main()
