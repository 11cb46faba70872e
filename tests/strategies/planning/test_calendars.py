from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedtempo.strategies.planning.calendars import Calendars


def booked(*intervals: tuple[int, int]) -> Calendars:
    calendars = Calendars(1)
    for begin, end in intervals:
        calendars.book(0, begin, end)
    return calendars


def test_intervals_stay_sorted_and_may_touch() -> None:
    calendars = booked((10, 15), (2, 5), (5, 10))
    assert calendars.intervals(0) == [(2, 5), (5, 10), (10, 15)]
    assert calendars.busy_ticks(0) == 13
    assert calendars.last_end == 15


@pytest.mark.parametrize("interval", [(4, 6), (5, 9), (8, 11), (0, 20), (6, 7), (9, 10)])
def test_an_overlap_is_rejected_and_named(interval: tuple[int, int]) -> None:
    calendars = booked((5, 10))
    with pytest.raises(ValueError, match=rf"client 0: interval \[{interval[0]}, {interval[1]}\) overlaps \[5, 10\)"):
        calendars.book(0, *interval)
    assert calendars.intervals(0) == [(5, 10)]
    assert calendars.busy_ticks(0) == 5


def test_an_empty_interval_is_rejected() -> None:
    with pytest.raises(ValueError, match="is empty"):
        booked((3, 3))


def test_a_release_frees_the_time() -> None:
    calendars = booked((2, 5), (7, 9))
    assert calendars.release(0, 7) == 9
    assert (calendars.intervals(0), calendars.busy_ticks(0), calendars.last_end) == ([(2, 5)], 3, 5)
    with pytest.raises(ValueError, match="no interval begins at 7"):
        calendars.release(0, 7)


def test_a_move_that_does_not_fit_changes_nothing() -> None:
    calendars = booked((2, 5), (7, 9))
    calendars.move(0, 2, 3, 6)
    with pytest.raises(ValueError, match="overlaps"):
        calendars.move(0, 3, 6, 8)
    assert calendars.intervals(0) == [(3, 6), (7, 9)]


def test_gaps_and_the_next_free_tick_are_found() -> None:
    calendars = booked((2, 5), (5, 6), (9, 12))
    assert list(calendars.gaps(0, 0, 20)) == [(0, 2), (6, 9), (12, 20)]
    assert list(calendars.gaps(0, 3, 10)) == [(6, 9)]
    assert list(calendars.gaps(0, 2, 6)) == []
    assert [calendars.next_free(0, at, 3) for at in (0, 2, 6, 7, 30)] == [6, 6, 6, 12, 30]


def test_busy_ticks_and_last_end_survive_forgetting() -> None:
    calendars = booked((2, 5), (7, 9))
    calendars.forget_before(8)
    assert calendars.intervals(0) == [(7, 9)]
    assert calendars.busy_ticks(0) == 5
    calendars.forget_before(9)
    assert (calendars.intervals(0), calendars.last_end) == ([], 9)
    calendars.book(0, 9, 14)
    calendars.release(0, 9)
    assert calendars.last_end == 9


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(1, 6))), st.integers(0, 35), st.integers(1, 5))
def test_calendars_agree_with_a_set_of_ticks(requests: list[tuple[int, int]], at: int, ticks: int) -> None:
    calendars, taken = Calendars(1), set()
    for begin, length in requests:
        wanted = set(range(begin, begin + length))
        assert (calendars.next_free(0, begin, length) == begin) == (not wanted & taken)
        if not wanted & taken:
            calendars.book(0, begin, begin + length)
            taken |= wanted
    assert calendars.busy_ticks(0) == len(taken)
    assert {t for begin, end in calendars.gaps(0, 0, 50) for t in range(begin, end)} == set(range(50)) - taken
    free = calendars.next_free(0, at, ticks)
    fits = [start for start in range(at, 60) if not taken & set(range(start, start + ticks))]
    assert free == fits[0]
