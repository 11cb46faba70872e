"""The exact planner, compared with enumeration of every order, every choice of clients and every wait."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedtempo.strategies.planning import groups
from fedtempo.strategies.planning.calendars import Calendars
from fedtempo.strategies.planning.groups import GroupPlanner
from fedtempo.strategies.planning.plan import Plan


def enumerate_best(
    planner: GroupPlanner, cluster: list[int], alive: list[int], t0: int, head: int | None, max_wait: int
) -> tuple[int, tuple[tuple[int, int], ...]] | None:
    """Return the best (z, stops) by trying everything; None if nothing fits."""
    durations, calendars = planner.durations, planner.calendars
    busy = [planner.busy_ticks(client) for client in range(len(durations))]
    members = [[client for client in alive if cluster[client] == c] for c in sorted({cluster[i] for i in alive})]
    best = None
    for order in itertools.permutations(members):
        for clients in itertools.product(*order):
            if head is not None and clients[0] != head:
                continue
            z = min(busy[client] + durations[client] * (client in clients) for client in alive)
            for waits in itertools.product([0], *[range(max_wait + 1)] * (len(clients) - 1)):
                stops, tick = [], t0
                for client, wait in zip(clients, waits):
                    begin = tick + wait
                    tick = begin + durations[client]
                    if calendars.next_free(client, begin, tick - begin) != begin:
                        break
                    stops.append((client, begin))
                if len(stops) < len(clients) or tick > planner.horizon:
                    continue
                preference = [(wait, busy[i], durations[i], i) for i, wait in zip(clients, waits)]
                if best is None or (-z, preference) < best[:2]:
                    best = (-z, preference, tuple(stops))
    return None if best is None else (-best[0], best[2])


def agrees(plan: Plan, expected: tuple[int, tuple[tuple[int, int], ...]] | None) -> None:
    if expected is None:
        assert plan == Plan("infeasible")
    else:
        assert (plan.status, plan.z, plan.stops) == ("optimal", *expected)
        assert plan.bound == plan.z


@st.composite
def states(draw: st.DrawFn) -> tuple[GroupPlanner, list[int], int]:
    n_clusters = draw(st.integers(1, 4))
    cluster = list(range(n_clusters)) + draw(st.lists(st.integers(0, n_clusters - 1), max_size=3))
    n_clients = len(cluster)
    durations = draw(st.lists(st.integers(1, 5), min_size=n_clients, max_size=n_clients))
    calendars = Calendars(n_clients)
    for client in range(n_clients):
        tick = 0
        for gap, length in draw(st.lists(st.tuples(st.integers(0, 6), st.integers(1, 4)), max_size=3)):
            calendars.book(client, tick + gap, tick + gap + length)
            tick += gap + length
    max_wait = draw(st.integers(0, 2))
    planner = GroupPlanner(
        durations,
        cluster,
        n_clusters,
        draw(st.integers(5, 30)),
        max_wait=max_wait,
        calendars=calendars,
        past_busy=draw(st.lists(st.integers(0, 8), min_size=n_clients, max_size=n_clients)),
        node_budget=draw(st.sampled_from([None, 0, 2])),
    )
    return planner, cluster, max_wait


@settings(max_examples=150, deadline=None)
@given(states(), st.integers(0, 12), st.integers(0, 6))
def test_plans_equal_those_of_enumeration(state: tuple[GroupPlanner, list[int], int], t0: int, head: int) -> None:
    planner, cluster, max_wait = state
    everyone = list(range(len(cluster)))
    for choice in (None, head % len(cluster)):
        agrees(planner.plan(t0, choice), enumerate_best(planner, cluster, everyone, t0, choice, max_wait))


@pytest.mark.parametrize("table", [True, False])
@pytest.mark.parametrize("max_wait", [0, 2])
@pytest.mark.parametrize("seed", range(6))
def test_plans_equal_those_of_enumeration_as_bookings_change(
    seed: int, max_wait: int, table: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Results proved by earlier searches must be neither lost nor kept after they become false."""
    if not table:
        monkeypatch.setattr(groups, "_MOST_CLUSTERS_IN_A_TABLE", 0)
    rng = np.random.default_rng(seed)
    cluster = [0, 0, 0, 1, 1, 1, 2, 2, 2]
    planner = GroupPlanner(rng.integers(2, 7, 9).tolist(), cluster, 3, 90, max_wait=max_wait, node_budget=None)
    alive, now = list(range(9)), 0
    booked: list[tuple[int, int]] = []
    found = 0
    for _ in range(60):
        what = rng.choice(["plan", "head", "wait", "release", "rebook", "duration", "remove"], p=PROBABILITY)
        if what == "wait":
            now += int(rng.integers(1, 4))
            planner.forget_before(now)
            booked = [(client, begin) for client, begin in booked if begin >= now]
        elif what == "duration":
            planner.set_duration(int(rng.choice(alive)), int(rng.integers(2, 7)))
        elif what == "remove" and len(alive) > 5:
            alive.remove(gone := int(rng.choice(alive)))
            planner.remove(gone)
        elif what in ("release", "rebook") and booked:
            stop = booked.pop(int(rng.integers(len(booked))))
            if what == "release":
                planner.release(*stop)
            else:
                booked += planner.rebook([stop], now + int(rng.integers(5)))
        elif what in ("plan", "head"):
            head = int(rng.choice(alive)) if what == "head" else None
            plan = planner.plan(now, head)
            agrees(plan, enumerate_best(planner, cluster, alive, now, head, max_wait))
            planner.book(plan)
            booked += plan.stops
            found += bool(plan)
    assert found > 3


PROBABILITY = [0.4, 0.15, 0.2, 0.1, 0.05, 0.07, 0.03]


def random_schedule(seed: int, max_wait: int) -> tuple[GroupPlanner, list[int], list[Plan]]:
    rng = np.random.default_rng(seed)
    n_clusters = int(rng.integers(2, 6))
    cluster = (np.arange(4 * n_clusters) % n_clusters).tolist()
    planner = GroupPlanner(rng.integers(3, 20, len(cluster)).tolist(), cluster, n_clusters, 300, max_wait=max_wait)
    plans = []
    for t0 in range(0, 300, 3):
        planner.forget_before(t0)
        plan = planner.plan(t0)
        planner.book(plan)
        plans += [plan] if plan else []
    return planner, cluster, plans


@pytest.mark.parametrize("max_wait", [0, 3])
@pytest.mark.parametrize("seed", range(5))
def test_groups_satisfy_every_rule(seed: int, max_wait: int) -> None:
    planner, cluster, plans = random_schedule(seed, max_wait)
    visits: list[tuple[int, int, int]] = []
    for plan in plans:
        assert sorted(cluster[client] for client, _ in plan.stops) == list(range(max(cluster) + 1))
        begins = [begin for _, begin in plan.stops] + [plan.end]
        waits = [begin - end for begin, end in zip(begins[1:], map(sum, zip(begins, plan.durations)))]
        assert all(0 <= wait <= max_wait for wait in waits[:-1])
        assert waits[-1] == 0
        assert plan.end <= planner.horizon
        visits += [(client, begin, begin + d) for (client, begin), d in zip(plan.stops, plan.durations)]
    visits.sort()
    assert all(a[0] != b[0] or a[2] <= b[1] for a, b in itertools.pairwise(visits))
    busy = [sum(end - begin for client, begin, end in visits if client == i) for i in range(len(cluster))]
    assert busy == [planner.busy_ticks(i) for i in range(len(cluster))]
    assert min(busy) == plans[-1].z


def test_longer_waits_allow_more_groups() -> None:
    assert sum(len(random_schedule(seed, 3)[2]) for seed in range(5)) > sum(
        len(random_schedule(seed, 0)[2]) for seed in range(5)
    )


def test_an_exhausted_budget_is_not_reported_as_infeasible(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups, "_MOST_CLUSTERS_IN_A_TABLE", 0)
    cluster = [0, 0, 1, 1, 2, 2]
    calendars = Calendars(6)
    for client in (4, 5):
        calendars.book(client, 5, 30)
    made = {"durations": [2, 3, 2, 3, 2, 3], "cluster": cluster, "n_clusters": 3, "horizon": 30, "calendars": calendars}
    assert GroupPlanner(**made, node_budget=1).plan(4).status == "unknown"
    assert GroupPlanner(**made).plan(4).status == "infeasible"


def test_a_group_not_proved_optimal_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups, "_MOST_CLUSTERS_IN_A_TABLE", 0)
    rng = np.random.default_rng(0)
    statuses = set()
    for _ in range(200):
        calendars = Calendars(9)
        for client in range(9):
            calendars.book(client, 2 * (begin := int(rng.integers(1, 10))), 2 * begin + 1)
        made = {
            "durations": rng.integers(1, 5, 9).tolist(),
            "cluster": [0, 1, 2] * 3,
            "n_clusters": 3,
            "horizon": 30,
            "calendars": calendars,
            "past_busy": rng.integers(0, 9, 9).tolist(),
        }
        some, best = GroupPlanner(**made, node_budget=4).plan(0), GroupPlanner(**made).plan(0)
        statuses.add(some.status)
        if some:
            assert some.z <= best.z <= some.bound
            assert (some.status == "optimal") == (some.bound == some.z)
    assert statuses >= {"optimal", "feasible"}


def test_many_clusters_are_planned_by_search_without_a_table() -> None:
    n_clusters = 15
    rng = np.random.default_rng(4)
    cluster = (np.arange(10 * n_clusters) % n_clusters).tolist()
    planner = GroupPlanner(rng.integers(10, 40, len(cluster)).tolist(), cluster, n_clusters, 4000)
    for t0 in range(0, 60, 3):
        plan = planner.plan(t0)
        assert plan.status in ("optimal", "feasible")
        assert len({cluster[client] for client, _ in plan.stops}) == n_clusters
        planner.book(plan)


def test_a_cluster_without_clients_is_left_out() -> None:
    planner = GroupPlanner([2, 3, 4], [0, 1, 1], 2, 50)
    planner.remove(0)
    plan = planner.plan(0)
    assert plan.stops == ((1, 0),)
    with pytest.raises(ValueError, match="head = 0 was removed"):
        planner.plan(0, head=0)
    planner.remove(1)
    planner.remove(2)
    assert planner.plan(0).status == "infeasible"


def test_rebooking_moves_the_remaining_visits_of_a_late_group() -> None:
    planner = GroupPlanner([4, 5, 6], [0, 1, 2], 3, 100)
    plan = planner.plan(0)
    planner.book(plan)
    assert plan.stops == ((0, 0), (1, 4), (2, 9))
    planner.book_stop(2, 16)
    assert planner.rebook(plan.stops[1:], 7) == ((1, 7), (2, 22))
    assert planner.calendars.intervals(2) == [(16, 22), (22, 28)]


def test_a_new_duration_applies_from_the_next_plan() -> None:
    planner = GroupPlanner([4, 5], [0, 1], 2, 12)
    before = planner.plan(0)
    planner.set_duration(0, 8)
    assert planner.plan(0).status == "infeasible"
    planner.set_duration(0, 7)
    assert planner.plan(0).end == 12
    planner.book(before)
    assert planner.calendars.intervals(0) == [(0, 4)]


def test_a_late_start_costs_no_more_and_an_earlier_one_can_still_be_planned() -> None:
    planner = GroupPlanner([3, 5], [0, 1], 2, 1 << 40)
    assert planner.plan(10**9).end == 10**9 + 8
    planner.book(planner.plan(4))
    assert planner.plan(2).stops == ((1, 2), (0, 7))
    assert planner.plan(3).stops == ()
    assert planner.plan(12).stops == ((0, 12), (1, 15))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"durations": [1, 0, 2]}, r"durations\[1\] = 0"),
        ({"cluster": [0, 1, 2]}, r"cluster\[2\] = 2 must lie in 0..1"),
        ({"cluster": [0, 1]}, "cluster is for 2 clients"),
        ({"past_busy": [0]}, "past_busy is for 1 clients"),
        ({"max_wait": -1}, "max_wait = -1"),
    ],
)
def test_invalid_arguments_are_named(change: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        GroupPlanner(**{"durations": [1, 2, 3], "cluster": [0, 1, 1], "n_clusters": 2, "horizon": 9} | change)


def test_starts_in_the_forgotten_past_are_rejected() -> None:
    planner = GroupPlanner([3], [0], 1, 100)
    planner.forget_before(10)
    with pytest.raises(ValueError, match="t0 = 9 lies before tick 10"):
        planner.plan(9)
    assert math.isclose(planner.plan(10).end, 13)
