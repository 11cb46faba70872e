"""Which examples are held out: the latest ones, and whole groups; by hand."""

from __future__ import annotations

import datetime

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedtempo.data.held_out import as_times, held_out_rows, last_share, must_be_later, untrained_classes
from fedtempo.errors import ConfigError


def mask(times: list[float], share: float) -> list[int] | None:
    held = last_share(np.array(times, dtype=np.float64), share)
    return None if held is None else np.flatnonzero(held).tolist()


@pytest.mark.parametrize(
    ("times", "share", "held"),
    [
        ([1, 2, 3, 4, 5], 0.4, [3, 4]),
        ([5, 1, 4, 2, 3], 0.2, [0]),
        ([1, 2, 3, 4, 5], 0.01, [4]),  # at least one
        ([1, 2, 3, 4, 5], 0.99, [1, 2, 3, 4]),  # and not all
        ([1, 2, 3, 3, 3], 0.2, [2, 3, 4]),  # one is wanted; 3, with the same time, are nearer than 4
        ([1, 1, 1, 1, 2], 0.6, [4]),  # three are wanted; only one is later than the others
        ([1, 2, 2, 3], 0.5, [3]),  # two are wanted; one and three are equally near: the fewer
        ([7, 7, 7], 0.5, None),
        ([7], 0.5, None),
    ],
)
def test_the_latest_examples_are_held_out(times: list[float], share: float, held: list[int] | None) -> None:
    assert mask(times, share) == held


@given(st.lists(st.integers(0, 6), min_size=1, max_size=40), st.floats(0.01, 0.99))
def test_no_held_out_example_is_as_early_as_a_training_example(times: list[int], share: float) -> None:
    values = np.array(times, dtype=np.float64)
    held = last_share(values, share)
    if held is None:
        assert len(set(times)) == 1
    else:
        assert values[held].min() > values[~held].max()


def test_each_client_holds_out_its_own_latest_examples() -> None:
    """Client 0 ends before client 1 begins; client 2 has a single example, which it keeps."""
    owners = np.array([0, 0, 0, 0, 1, 1, 2])
    times = np.array([1.0, 2.0, 3.0, 4.0, 12.0, 11.0, 0.0])
    held = held_out_rows(0.25, 7, [], owners, times=times)
    assert np.flatnonzero(held).tolist() == [3, 4]
    with pytest.raises(ConfigError, match="time: client 'site 1': all rows have the same time"):
        held_out_rows(0.25, 7, [], owners, times=np.array([1.0, 2, 3, 4, 5, 5, 0]), name_of=lambda i: f"site {i}")
    assert np.flatnonzero(held_out_rows(0.3, 7, [], None, times=times)).tolist() == [4, 5]


def test_groups_stay_together() -> None:
    groups = np.repeat(np.arange(10), 3)
    held = held_out_rows(0.3, 30, [np.zeros(30, dtype=np.int64)], None, groups=groups)
    assert held.sum() == 9
    assert set(groups[held]).isdisjoint(groups[~held])


def test_times_are_numbers_dates_or_texts() -> None:
    def fail(row: int, what: str) -> ConfigError:
        return ConfigError(f"row {row} {what}")

    plus_two = datetime.timezone(datetime.timedelta(hours=2))
    values = [
        3,
        2.5,
        "4",
        datetime.date(1970, 1, 2),
        datetime.datetime(1970, 1, 1, 0, 1),
        datetime.datetime(1970, 1, 1, 2, 0, 5, tzinfo=plus_two),
        "1970-01-01 01:00",
        datetime.time(1, 0, 30),
    ]
    assert as_times(values, fail).tolist() == [3.0, 2.5, 4.0, 86_400.0, 60.0, 5.0, 3600.0, 3630.0]
    with pytest.raises(ConfigError, match="row 1 is 'soon', neither a number nor a date such as"):
        as_times([1, "soon"], fail)
    with pytest.raises(ConfigError, match="row 0 is True, neither"):
        as_times([True], fail)
    with pytest.raises(ConfigError, match="row 1 is inf, not a finite number"):
        as_times([1.0, float("inf")], fail)


def test_test_rows_must_be_later_than_the_training_rows_of_their_client() -> None:
    train, test = np.array([1.0, 2.0, 10.0]), np.array([3.0, 10.0, 11.0])
    owners = np.array([0, 0, 1])
    must_be_later(train, test[[0, 2]], owners, np.array([0, 1]), "time = 't'")
    with pytest.raises(ConfigError, match=r"time = 't': 1 of 3 test rows are not later than .* of their client; move"):
        must_be_later(train, test, owners, np.array([0, 1, 1]), "time = 't'")
    with pytest.raises(ConfigError, match="2 of 3 test rows are not later than the training rows; move them"):
        must_be_later(train, test, None, None, "time = 't'")


def test_classes_without_training_examples_are_named() -> None:
    assert untrained_classes(np.array([0, 1]), np.array([0, 2, 2]), "abc") == (
        "classes with test examples but no training examples: c (2)"
    )
    assert untrained_classes(np.array([0, 1]), np.array([1]), "abc") is None
