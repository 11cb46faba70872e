"""The exact planner, compared with the paper's mixed-integer programme, constraints (2)-(14), solved by HiGHS."""

from __future__ import annotations

import heapq

import numpy as np
import pytest

from benchmarks.milp import solve_paper
from fedtempo.strategies.planning.groups import GroupPlanner


def compare_along_a_schedule(
    seed: int, n_clients: int, n_clusters: int, horizon: int, every: int, at_most: int
) -> set[bool]:
    """Run FedHusky and compare both planners every few attempts; return which of feasible and infeasible occurred."""
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
def test_plans_of_small_federations_equal_those_of_the_milp(seed: int, n_clients: int, n_clusters: int) -> None:
    assert compare_along_a_schedule(seed, n_clients, n_clusters, 1500, every=5, at_most=40) == {True, False}


def test_plans_with_a_given_head_equal_those_of_the_milp() -> None:
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
def test_plans_of_the_papers_federation_equal_those_of_the_milp(seed: int) -> None:
    assert compare_along_a_schedule(seed, 50, 10, 10_000, every=15, at_most=12) == {True, False}
