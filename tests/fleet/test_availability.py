from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from fedtempo.errors import ConfigError
from fedtempo.fleet.availability import AVAILABILITY, Always, Availability, Dropout, OnOff, Windows


def rng(seed: int = 1) -> np.random.Generator:
    return np.random.default_rng(seed)


def check_consistent(availability: Availability, client: int, t: float) -> None:
    """Check that both answers about one moment are consistent, and that waiting always ends."""
    until, begins = availability.available_until(client, t), availability.next_available(client, t)
    assert until >= t
    assert begins >= t
    assert (until > t) == (begins == t)
    if math.isfinite(begins):
        assert availability.available_until(client, begins) > begins
    if t < until < math.inf:
        assert availability.available_until(client, until) == until
        assert availability.next_available(client, until) > until


def test_always_available_clients_never_leave() -> None:
    there = Always().build(2, rng())
    assert there.available_until(1, 5.0) == math.inf
    assert there.next_available(1, 5.0) == 5.0
    assert there.failure_point(0, rng) is None


def test_dropout_fails_with_its_probability_at_a_uniform_point() -> None:
    there = Dropout(0.3).build(1, rng())
    generator, n = rng(), 20_000
    points = [there.failure_point(0, lambda: generator) for _ in range(n)]
    failed = np.array([p for p in points if p is not None])
    assert abs(len(failed) / n - 0.3) < 5 * math.sqrt(0.3 * 0.7 / n)
    assert 0 <= failed.min() <= failed.max() < 1
    assert abs(failed.mean() - 0.5) < 5 * math.sqrt(1 / 12 / len(failed))
    assert there.available_until(0, 3.0) == math.inf
    assert Dropout(1.0).build(1, rng()).failure_point(0, lambda: generator) is not None
    assert Dropout(0.0).build(1, rng()).failure_point(0, lambda: generator) is None


def test_on_off_clients_are_available_for_their_share_of_time() -> None:
    there = OnOff(mean_on_s=30.0, mean_off_s=10.0).build(200, rng())
    times = np.arange(0.0, 2000.0, 7.0)
    on = np.array([[there.available_until(c, t) > t for t in times] for c in range(200)])
    # About 2000/40 independent cycles a client; the variance of a client's share is below 0.25 / 50 * 2.
    assert abs(on.mean() - 0.75) < 5 * math.sqrt(0.01 / 200)
    assert abs(on[:, 0].mean() - 0.75) < 5 * math.sqrt(0.75 * 0.25 / 200)


def test_on_off_clients_start_available_with_their_share() -> None:
    for share in (0.0, 1.0):
        there = OnOff(1.0, 1.0, starting_share=share).build(50, rng())
        assert all((there.available_until(c, 0.0) > 0) == (share == 1) for c in range(50))


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.floats(0, 1000)), min_size=1, max_size=30), st.randoms())
def test_on_off_answers_do_not_depend_on_the_order_of_queries(queries: list[tuple[int, float]], random: Any) -> None:
    def answers(questions: list[tuple[int, float]]) -> dict[tuple[int, float], tuple[float, float]]:
        there = OnOff(20.0, 5.0).build(4, rng())
        return {(c, t): (there.available_until(c, t), there.next_available(c, t)) for c, t in questions}

    shuffled = random.sample(queries, len(queries))
    assert answers(queries) == answers(shuffled)
    there = OnOff(20.0, 5.0).build(4, rng())
    for client, t in queries:
        check_consistent(there, client, t)


def test_windows_without_a_period_occur_once() -> None:
    there = Windows([[[20, 30], [0, 10], [10, 12]], []]).build(2, rng())
    assert there.available_until(0, 0.0) == 12.0
    assert there.available_until(0, 12.0) == 12.0
    assert there.next_available(0, 12.0) == 20.0
    assert there.available_until(0, 29.0) == 30.0
    assert there.next_available(0, 30.0) == math.inf
    assert there.next_available(1, 0.0) == math.inf
    assert there.available_until(1, 3.0) == 3.0
    assert there.failure_point(0, rng) is None


def test_windows_with_a_period_repeat() -> None:
    there = Windows([[[2, 4]], [[0, 10]], [[8, 10], [0, 1]]], period_s=10.0).build(3, rng())
    assert there.next_available(0, 0.0) == 2.0
    assert there.available_until(0, 33.0) == 34.0
    assert there.next_available(0, 34.0) == 42.0
    assert there.available_until(1, 1234.5) == math.inf
    assert there.available_until(2, 8.5) == 11.0
    assert there.available_until(2, 10.0) == 11.0
    assert there.next_available(2, 11.0) == 18.0


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 1000)), max_size=5),
    st.floats(0.01, 1000),
    st.integers(0, 10_000),
    st.floats(0, 1),
)
def test_waiting_for_a_cyclic_window_always_ends(
    marks: list[tuple[int, int]], period: float, cycle: int, inside: float
) -> None:
    # In thousandths of the period: shorter windows could be below the resolution of time.
    windows = [[min(pair) / 1000 * period, max(pair) / 1000 * period] for pair in marks if pair[0] != pair[1]]
    there = Windows([windows], period_s=period).build(1, rng())
    for t in [(cycle + inside) * period, cycle * period] + [cycle * period + w[k] for w in windows for k in (0, 1)]:
        check_consistent(there, 0, t)


def test_a_window_may_last_over_the_end_of_the_period() -> None:
    there = Windows([[[8, 2]]], period_s=10.0).build(1, rng())
    assert [there.available_until(0, t) for t in (0.0, 1.0, 2.0, 8.0, 11.5)] == [2.0, 2.0, 2.0, 12.0, 12.0]
    assert there.next_available(0, 2.0) == 8.0
    with pytest.raises(ValidationError, match=r"\[8.0, 2.0\] must have 0 <= begin < end; a window over midnight needs"):
        Windows([[[8, 2]]])


def test_only_windows_that_do_not_repeat_end_for_good() -> None:
    assert Windows([[[0, 3], [5, 8]], [[1, 2]]]).build(2, rng()).last_s == 8.0
    assert Windows([[[0, 3]]], period_s=10.0).build(1, rng()).last_s == math.inf
    assert Windows([[]]).build(1, rng()).last_s == 0.0


@pytest.mark.parametrize("windows", [[[[3, 3]]], [[[-1, 2]]], [[[0, 11]]], [[[9, -1]]]])
def test_invalid_windows_are_rejected(windows: Any) -> None:
    with pytest.raises(ValidationError, match="windows of client 0"):
        Windows(windows, period_s=10.0)


def test_windows_for_another_number_of_clients_are_rejected() -> None:
    with pytest.raises(ConfigError, match="1 clients are listed, the fleet has 2"):
        Windows([[[0, 1]]]).build(2, rng())


def test_all_kinds_of_availability_are_registered() -> None:
    assert set(AVAILABILITY) == {"always", "diurnal", "dropout", "on-off", "trace", "windows"}
