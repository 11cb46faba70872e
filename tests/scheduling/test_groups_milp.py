"""The exact planner against the paper's own mixed-integer programme, constraints (2)-(14), solved by HiGHS."""

from __future__ import annotations

import heapq

import numpy as np
import pytest
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import csr_array

from fedtempo.scheduling.groups import GroupPlanner


def solve_paper(planner: GroupPlanner, cluster: list[int], t0: int, head: int | None) -> int | None:
    """z of OPT-j (head given) or OPT-k in ticks; None if infeasible. Symbols as in the paper, times from t0 on."""
    delta, horizon = planner.durations, planner.horizon
    n, c = len(delta), max(cluster) + 1
    gaps = [list(planner.calendars.gaps(i, t0, horizon)) for i in range(n)]
    big = horizon - t0 + max(delta)
    names = [("x", i) for i in range(n)] + [("y", i, p) for i in range(n) for p in range(c)]
    names += [("z", i, k) for i in range(n) for k in range(len(gaps[i]))]
    n_binary = len(names)
    names += [("s", i) for i in range(n)] + [("h", p) for p in range(c)] + [("objective",)]
    column = {name: position for position, name in enumerate(names)}
    rows: list[tuple[dict[tuple, float], float, float]] = [
        *[({("x", i): 1 for i in range(n) if cluster[i] == each}, 1, 1) for each in range(c)],  # (3)
        *[({("y", i, p): 1 for i in range(n)}, 1, 1) for p in range(c)],  # (5)
        *[({("y", i, p): 1 for p in range(c)} | {("x", i): -1}, 0, 0) for i in range(n)],  # (6)
        ({("h", 0): 1}, 0, 0),  # (7)
        *[  # (8)
            ({("h", p): 1, ("h", p - 1): -1} | {("y", i, p - 1): -delta[i] for i in range(n)}, 0, 0)
            for p in range(1, c)
        ],
    ]
    for i in range(n):
        for p in range(c):
            rows.append(({("s", i): 1, ("h", p): -1, ("y", i, p): -big}, -big, np.inf))  # (9)
            rows.append(({("s", i): 1, ("h", p): -1, ("y", i, p): big}, -np.inf, big))  # (10)
        rows.append(({("z", i, k): 1 for k in range(len(gaps[i]))} | {("x", i): -1}, 0, 0))  # (11)
        for k, (begin, end) in enumerate(gaps[i]):
            rows.append(({("s", i): 1, ("z", i, k): -big}, begin - t0 - big, np.inf))  # (12)
            rows.append(({("s", i): 1, ("z", i, k): big}, -np.inf, end - t0 + big - delta[i]))  # (13)
        rows.append(({("objective",): 1, ("x", i): -delta[i]}, -np.inf, planner.busy_ticks(i)))  # (14)
    if head is not None:
        rows.append(({("x", head): 1}, 1, 1))  # (2)
        rows.append(({("y", head, 0): 1}, 1, 1))  # (4)
    entries = [(r, column[name], value) for r, (terms, _, _) in enumerate(rows) for name, value in terms.items()]
    row, col, value = zip(*entries)
    matrix = csr_array((value, (row, col)), shape=(len(rows), len(names)))
    lower, upper = [low for _, low, _ in rows], [high for _, _, high in rows]
    maximal = np.full(len(names), float(horizon - t0))
    maximal[:n_binary] = 1
    maximal[-1] = np.inf
    cost = np.zeros(len(names))
    cost[-1] = -1
    kinds = np.zeros(len(names))
    kinds[:n_binary] = 1
    solved = milp(
        cost,
        integrality=kinds,
        bounds=Bounds(0, maximal),
        constraints=LinearConstraint(matrix, lower, upper),
        options={"mip_rel_gap": 0.0, "time_limit": 300},
    )
    assert solved.status in (0, 2), solved.message
    return None if solved.status == 2 else round(-solved.fun)


def compare_along_a_schedule(
    seed: int, n_clients: int, n_clusters: int, horizon: int, every: int, at_most: int
) -> set[bool]:
    """Let FedHusky run; every so many attempts ask both. Returns which of feasible and infeasible came up."""
    rng = np.random.default_rng(seed)
    cluster = (np.arange(n_clients) % n_clusters).tolist()
    planner = GroupPlanner(rng.integers(10, 101, n_clients).tolist(), cluster, n_clusters, horizon)
    attempts: list[tuple[int, int]] = [(0, head) for head in range(n_clients)]
    seen: set[bool] = set()
    asked = count = 0
    while attempts and asked < at_most:
        t0, first = heapq.heappop(attempts)
        head = first if first < n_clients else None
        planner.forget_before(t0)
        plan = planner.plan(t0, head)
        count += 1
        if count % every == 0 or (plan and True not in seen and count > n_clients):
            assert plan.z == solve_paper(planner, cluster, t0, head)
            assert plan.status == ("infeasible" if plan.z is None else "optimal")
            asked += 1
            seen.add(bool(plan))
        planner.book(plan)
        for (_, begin), duration in zip(plan.stops, plan.durations):
            heapq.heappush(attempts, (begin + duration, n_clients))
    return seen


@pytest.mark.parametrize(
    ("seed", "n_clients", "n_clusters"), [(0, 6, 2), (1, 9, 3), (2, 12, 4), (3, 12, 3), (4, 15, 5)]
)
def test_small_federations(seed: int, n_clients: int, n_clusters: int) -> None:
    assert compare_along_a_schedule(seed, n_clients, n_clusters, 1500, every=5, at_most=40) == {True, False}


def test_a_head_that_is_free_or_booked() -> None:
    rng = np.random.default_rng(5)
    planner = GroupPlanner(rng.integers(10, 40, 8).tolist(), [0, 1, 2, 3] * 2, 4, 400)
    feasible = set()
    for head in range(8):
        plan = planner.plan(0, head)
        assert plan.z == solve_paper(planner, [0, 1, 2, 3] * 2, 0, head)
        feasible.add(bool(plan))
        planner.book(plan)
    assert feasible == {True, False}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_the_papers_federation(seed: int) -> None:
    assert compare_along_a_schedule(seed, 50, 10, 10_000, every=15, at_most=12) == {True, False}
