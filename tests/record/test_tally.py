"""A run's running totals: what its tables give, however its rows were batched."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fedtempo.record import Recorder, summarise
from fedtempo.record.measures import busy_ratios, group_spans, groups_alive, participation
from fedtempo.record.tally import Tally, most_alive, tally

times = st.floats(0, 50).map(lambda value: round(value, 3))
visits = st.tuples(
    st.integers(0, 4),
    st.one_of(st.none(), st.integers(0, 3), st.just(10**12)),
    st.one_of(st.none(), times),
    times,
    st.sampled_from(["done", "cut", "unavailable", "cancelled", "late"]),
    st.integers(0, 9),
)


def recorded(rows, batches=(), commits=()):
    """A recorder that holds these visits, written after each number of rows in `batches`."""
    recorder = Recorder(None)
    for name, value in {"strategy": "demo", "seed": 1, "n_clients": 6, "elapsed_s": 100.0, "ended": "horizon"}.items():
        recorder.fact(name, value)
    for version, staleness in enumerate(commits, start=1):
        recorder.commit(version, 1.0, staleness)
    for number, (client, group, started, length, outcome, examples) in enumerate(rows):
        finished = length if started is None else started + length
        recorder.visit((number, client, group, 0, 0.0, started, None, None, finished, outcome, examples, None))
        if number in batches:
            recorder.flush()
    return recorder


@given(st.lists(visits, max_size=20), st.sets(st.integers(0, 20)), st.lists(st.integers(0, 7), max_size=5))
def test_a_running_summary_is_that_of_the_tables(rows, batches, commits):
    recorder, other = recorded(rows, batches, commits), recorded(rows, (), commits)
    running = recorder.summary()
    assert running == other.summary() == summarise(recorder.records())
    recorder.close()
    other.close()


@given(st.lists(visits, max_size=20))
def test_totals_are_what_the_measures_say(rows):
    recorder = recorded(rows)
    records = recorder.records()
    recorder.close()
    totals = tally(records.visits, records.commits, 100.0)
    reached = totals.busy_s.size
    assert np.allclose(totals.busy_s / 100.0, busy_ratios(records)[:reached], rtol=1e-12)
    assert not busy_ratios(records)[reached:].any()
    assert totals.visits_done.tolist() == participation(records)[:reached].tolist()
    begins, ends = totals.spans()
    expected_begins, expected_ends = group_spans(records)
    assert sorted(zip(begins, ends)) == sorted(zip(expected_begins, expected_ends))
    assert most_alive(begins, ends) == groups_alive(records)[1].max()


def test_a_visit_without_a_group_leaves_sixteen_bytes_and_one_of_a_group_none():
    totals = Tally()
    some = np.arange(1000)
    for group, kept in ((np.full(1000, 3), 0), (np.full(1000, -1), 16_000)):
        totals.add_visits(some % 5, group, some * 1.0, some + 1.0, some * 0, some)
        assert sum(each.itemsize * len(each) for each in (totals._begins, totals._ends)) == kept
    assert totals.visits_done.tolist() == [400] * 5
    assert totals.spans()[0].size == 1001
