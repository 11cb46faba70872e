"""Running totals equal those of the tables, however rows are batched, with constant memory."""

import tracemalloc
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedtempo.errors import RunError
from fedtempo.record import Recorder, summarise
from fedtempo.record import active_groups as module
from fedtempo.record.active_groups import ActiveGroups
from fedtempo.record.measures import busy_ratios, group_spans, groups_alive, participation
from fedtempo.record.recorder import VisitRow
from fedtempo.record.running_totals import Tally, totals_of

times = st.floats(0, 50).map(lambda value: round(value, 3))
groups = st.one_of(st.none(), st.integers(0, 3), st.just(10**12))
visits = st.tuples(
    st.integers(0, 4),
    groups,
    st.one_of(st.none(), times),
    times,
    st.sampled_from(["done", "cut", "unavailable", "cancelled", "late"]),
    st.integers(0, 9),
)


def recorded(some, batches=(), commits=(), **settings):
    """Return the records of these visits, flushed after each number of rows in `batches`."""
    recorder = Recorder(None, **settings)
    for name, value in {"strategy": "demo", "seed": 1, "n_clients": 6, "elapsed_s": 100.0, "ended": "horizon"}.items():
        recorder.fact(name, value)
    for version, staleness in enumerate(commits, start=1):
        recorder.commit(version, 1.0, staleness)
    for number, (client, group, started, length, outcome, examples) in enumerate(some):
        finished = length if started is None else started + length
        recorder.visit(VisitRow(number, client, group, 0, 0.0, started, None, None, finished, outcome, examples, None))
        if number in batches:
            recorder.flush()
    return recorder


@given(st.lists(visits, max_size=20), st.sets(st.integers(0, 20)), st.lists(st.integers(0, 7), max_size=5))
def test_a_running_summary_equals_that_of_the_tables(rows, batches, commits):
    recorder, other = recorded(rows, batches, commits), recorded(rows, (), commits)
    running = recorder.summary()
    assert running == other.summary() == summarise(recorder.records())
    recorder.close()
    other.close()


@given(st.lists(visits, max_size=20))
def test_totals_equal_the_measures(rows):
    recorder = recorded(rows)
    records = recorder.records()
    recorder.close()
    totals = totals_of(records, 100.0)
    reached = totals.busy_s.size
    assert np.allclose(totals.busy_s / 100.0, busy_ratios(records)[:reached], rtol=1e-12)
    assert not busy_ratios(records)[reached:].any()
    assert totals.visits_done.tolist() == participation(records)[:reached].tolist()
    starts, ends = group_spans(records)
    assert totals.alive_s == pytest.approx((ends - starts).sum())
    assert totals.most_alive == groups_alive(records)[1].max()


def spans_of(visits):
    """Return starts and ends of the groups of visits given as (group, start, end)."""
    spans = {}
    for number, (group, start, end) in enumerate(visits):
        name = ("alone", number) if group is None else group
        span = spans.get(name, (start, end))
        spans[name] = min(span[0], start), max(span[1], end)
    return np.array(list(spans.values())).reshape(-1, 2).T


@given(st.lists(st.tuples(groups, times, times), max_size=40), st.integers(0, 6), st.integers(1, 9))
def test_settled_spans_count_like_open_ones(visits, held, batch):
    """Compare with the definition: the largest number of active groups at any start."""
    visits = sorted(((group, start, start + length) for group, start, length in visits), key=lambda visit: visit[2])
    alive, numbers = ActiveGroups(), [-1 if group is None else group for group, _, _ in visits]
    happens = sorted([(start, 1, i) for i, (_, start, _) in enumerate(visits)])
    with mock.patch.object(module, "HELD", held):
        for first in range(0, len(visits), batch):
            rows = slice(first, first + batch)
            until = visits[rows][-1][2]
            while happens and happens[0][0] <= until:  # everything that had started when the last of these ended
                start, _, i = happens.pop(0)
                if numbers[i] >= 0:
                    alive.begun(numbers[i], start)
            _, started, finished = zip(*visits[rows])
            alive.add(np.array(numbers[rows]), np.array(started), np.array(finished))
    starts, ends = spans_of(visits)
    most = max((int(((starts <= at) & (at < ends)).sum()) for at in starts), default=0)
    assert alive.most(1e9) == most
    assert alive.seconds(1e9) == pytest.approx((ends - starts).sum(), rel=1e-14)
    alive.close()


def test_a_group_that_returns_after_it_was_settled_was_active_throughout(monkeypatch):
    monkeypatch.setattr(module, "HELD", 10)
    alive = ActiveGroups()
    alive.add(np.array([7]), np.array([1.0]), np.array([2.0]))
    alive.add(np.arange(100, 200), np.full(100, 3.0), np.full(100, 4.0))
    assert (alive.most(9.0), alive.seconds(9.0)) == (100, 101.0)
    alive.begun(7, 8.0)
    alive.add(np.array([7]), np.array([8.0]), np.array([9.0]))
    assert (alive.most(9.0), alive.seconds(9.0)) == (101, 108.0)
    alive.close()


@pytest.mark.parametrize("group", ["none", "new", "few"])
def test_memory_of_running_totals_does_not_grow_with_visits(group, monkeypatch):
    monkeypatch.setattr(module, "HELD", 20_000)
    tally, some = Tally(), np.arange(5_000)
    most = []
    tracemalloc.start()
    for batch in range(40):
        numbers = {"none": np.full(5_000, -1), "new": some + 5_000 * batch, "few": some % 5}[group]
        tally.add_visits(some % 50, numbers, some + 5e3 * batch, some + 5e3 * batch + 2.5, some * 0, some)
        if batch in (19, 39):
            most.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.reset_peak()
    tracemalloc.stop()
    totals = tally.totals(1e9)
    assert totals.visits_done.tolist() == [4_000] * 50
    assert totals.most_alive == {"none": 3, "new": 3, "few": 5}[group]
    assert most[1] < 1.02 * most[0]
    tally.close()


@given(st.lists(visits, max_size=20), st.lists(st.integers(0, 7), max_size=5))
def test_without_rows_the_summary_is_the_same(rows, commits):
    recorder, other = recorded(rows, (), commits, rows=False), recorded(rows, (), commits)
    assert recorder.summary() == other.summary()
    with pytest.raises(
        RunError, match="demo: recorded without rows, and totals are written at its end; resume it first"
    ):
        summarise(recorder.records())
    assert recorder.records().visits["number"].size == recorder.records().commits["version"].size == 0
    recorder.close()
    other.close()
