"""The planner's order of clients, with short and long masks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedtempo.strategies.planning import group_order
from fedtempo.strategies.planning.group_order import Order, positions
from fedtempo.strategies.planning.groups import GroupPlanner
from fedtempo.strategies.planning.plan import Plan


@given(st.sets(st.integers(0, 1500)))
def test_positions_equal_those_of_the_set_bits(wanted: set[int]) -> None:
    assert positions(sum(1 << each for each in wanted)) == sorted(wanted)


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 1200), st.integers(0, 2**32 - 1))
def test_iteration_over_a_mask_keeps_the_order(clients: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    preferences = [(int(rng.integers(5)), int(rng.integers(3)), i, 1 << i, 1 << i % 4) for i in range(clients)]
    order = Order(preferences)
    gone = {i for i in range(clients) if rng.random() < 0.2}
    for i in gone:
        order.drop(i)
    left = [each for each in sorted(preferences) if each[2] not in gone]
    assert len(order) == len(left)
    for share in (0.01, 0.3, 1.0):
        wanted = [each for each in left if rng.random() < share]
        assert list(order.among(sum(each[3] for each in wanted))) == wanted
    for cluster in range(4):
        assert order.least(1 << cluster) == [each for each in left if each[4] == 1 << cluster][:2]


def planned(clients: int) -> list[Plan]:
    """Return the results of many plans, bookings and returned bookings."""
    rng = np.random.default_rng(5)
    planner = GroupPlanner(rng.integers(3, 30, clients).tolist(), [i % 7 for i in range(clients)], 7, 1 << 40)
    plans = [planner.plan(0, head) for head in range(0, clients, 3) if planner.calendars.next_free(head, 0, 1) == 0]
    found = []
    for tick in range(0, 60, 2):
        planner.forget_before(tick)
        if tick == 20:
            planner.remove(11)
            planner.set_duration(12, 40)
        while plan := planner.plan(tick):
            planner.book(plan)
            found.append(plan)
            if len(found) % 5 == 0:
                planner.release(*plan.stops[-1])
                planner.rebook(plan.stops[2:-1], tick + 3)
    return plans + found


@pytest.mark.parametrize("clients", [40, 700])
def test_long_masks_do_not_change_plans(clients: int, monkeypatch) -> None:
    found = []
    for short in (0, 512, 1 << 30):
        monkeypatch.setattr(group_order, "_SHORT", short)
        found.append(planned(clients))
    assert found[0] == found[1] == found[2]
    assert sum(map(bool, found[0])) > clients / 10
