from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedtempo.strategies.planning.fixed_rate import PacedPlanner
from fedtempo.strategies.planning.plan import Plan


def test_the_interval_is_that_of_the_slowest_cluster() -> None:
    planner = PacedPlanner([4, 4, 3, 6], [0, 0, 1, 1], 2, 100, pace=0.5)
    assert planner.interval == pytest.approx(1 / (0.5 * 0.5))  # both clusters serve 1/2 group per tick
    planner.set_duration(3, 12)
    assert planner.interval == pytest.approx(1 / (0.5 * (1 / 3 + 1 / 12)))
    half = PacedPlanner([4, 4, 3, 6], [0, 0, 1, 1], 2, 100, pace=0.5, length=1)
    assert half.interval == pytest.approx(2)


def test_the_next_client_is_the_one_free_first_with_ties_broken_by_load() -> None:
    planner = PacedPlanner([5, 5, 5], [0, 0, 0], 1, 100, past_busy=[3, 2, 2])
    rng = np.random.default_rng(0)
    for expected in [(1, 0), (2, 0), (0, 0), (1, 5)]:
        plan = planner.plan(0, rng)
        assert plan.stops == (expected,)
        planner.book(plan)
    assert plan.z == 2 + 5  # client 2, booked once


def test_groups_that_would_end_after_the_horizon_are_rejected() -> None:
    rng = np.random.default_rng(0)
    planner = PacedPlanner([5], [0], 1, 10)
    for wanted in (True, True, False):
        plan = planner.plan(0, rng)
        assert bool(plan) == wanted
        planner.book(plan)
    assert planner.plan(0, rng).status == "unknown"


def test_short_groups_visit_the_least_visited_clusters() -> None:
    planner = PacedPlanner([2, 3, 4, 5], [0, 1, 2, 3], 4, 10_000, length=2)
    rng = np.random.default_rng(3)
    served = np.zeros(4, int)
    for t0 in range(0, 400, 20):
        plan = planner.plan(t0, rng)
        planner.book(plan)
        served[[client for client, _ in plan.stops]] += 1
        assert served.max() - served.min() <= 1


def schedule(planner: PacedPlanner, rng: np.random.Generator) -> list[Plan]:
    """Return the groups formed by one attempt every `interval` ticks."""
    plans = []
    for start in np.arange(0, planner.horizon, planner.interval).astype(int).tolist():
        planner.forget_before(start)
        if plan := planner.plan(start, rng):
            planner.book(plan)
            plans.append(plan)
    return plans


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 4))
def test_groups_satisfy_every_rule(seed: int, length: int) -> None:
    rng = np.random.default_rng(seed)
    cluster = (np.arange(12) % 4).tolist()
    planner = PacedPlanner(rng.integers(3, 15, 12).tolist(), cluster, 4, 200, length=length)
    visits = []
    for plan in schedule(planner, rng):
        begins, ends = [b for _, b in plan.stops], [b + d for (_, b), d in zip(plan.stops, plan.durations)]
        assert len({cluster[client] for client, _ in plan.stops}) == length
        assert all(begin >= end for begin, end in zip(begins[1:], ends))
        assert plan.end == ends[-1] <= 200
        visits += [(client, begin, begin + d) for (client, begin), d in zip(plan.stops, plan.durations)]
    visits.sort()
    assert all(a[0] != b[0] or a[2] <= b[1] for a, b in itertools.pairwise(visits))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"pace": 0.0}, "pace = 0.0"),
        ({"length": 3}, r"length = 3 must lie in 1..2"),
    ],
)
def test_invalid_arguments_are_named(change: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        PacedPlanner([1, 2], [0, 1], 2, 10, **change)
