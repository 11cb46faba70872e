"""Async-memory: idle clients train without pause, the least visited first, and share remembered changes by cluster."""

from __future__ import annotations

import numpy as np
import pytest
from pydantic import ValidationError

from fedtempo.strategies import AsyncMemory
from tests.runtime.world import play
from tests.strategies.arrivals import Arrivals
from tests.strategies.test_fedhusky import SPEEDS, assert_clients_do_one_thing_at_a_time, one_label, run


def test_four_arrivals_by_hand() -> None:
    """From w = 0, first coordinate (the second is its double); weights 1 / (1 + gap), half of a new change remembered.

    1. Client 0 brings 4, its first, without a gap: w = 0 + 1 * (4 - 0 + 0) = 4; m_0 = 4.
    2. Client 1 brings 2, its first, gap 1: the mean of all m is (4 + 0) / 2 = 2: w = 4 + (2 - 0 + 2) / 2 = 6; m_1 = 2.
    3. Client 0 brings 3, gap 1: mean (4 + 2) / 2 = 3: w = 6 + (3 - 4 + 3) / 2 = 7; m_0 = 4 + (3 - 4) / 2 = 7/2.
    4. Client 1 brings 4, gap 1: mean (7/2 + 2) / 2 = 11/4: w = 7 + (4 - 2 + 11/4) / 2 = 75/8.
    """
    fed = Arrivals(2)
    changes = [(0, 4.0), (1, 2.0), (0, 3.0), (1, 4.0)]
    strategy = AsyncMemory(gain=1.0, exponent=1.0, memory=0.5, steady=False)
    models = fed.play(strategy, *((client, [change, 2 * change]) for client, change in changes))
    assert models == [[4.0, 8.0], [6.0, 12.0], [7.0, 14.0], [9.375, 18.75]]
    assert fed.staleness == [0, 1, 1, 1]
    assert fed.statistics == [[0.0, 1.0], [0.5, 0.5], [0.5, 0.5], [0.5, 0.5]]


def test_uncorrected_changes_by_hand() -> None:
    """The same arrivals without memory: 4, then 4 + 2/2 = 5, 5 + 3/2 = 13/2, 13/2 + 4/2 = 17/2."""
    strategy = AsyncMemory(gain=1.0, exponent=1.0, steady=False, correction=False)
    arrivals = [(client, [change, 0.0]) for client, change in ((0, 4.0), (1, 2.0), (0, 3.0), (1, 4.0))]
    assert [w for w, _ in Arrivals(2).play(strategy, *arrivals)] == [4.0, 5.0, 6.5, 8.5]


def test_all_clients_train_without_pause() -> None:
    records = run(AsyncMemory(), 20, 4)
    assert_clients_do_one_thing_at_a_time(records)
    durations = np.array([records.visits["finished"][records.visits["client"] == i][0] for i in range(20)])
    visits = np.bincount(records.visits["client"], minlength=20)
    assert (visits * durations > 200.0 - 2 * durations).all()
    done = int((records.visits["outcome"] == "done").sum())
    assert records.commits["version"].size == done


def test_clients_at_once_limits_parallel_training_and_the_least_visited_come_next() -> None:
    records = run(AsyncMemory(clients_at_once=3), 20, 4)
    started, finished = records.visits["started"], records.visits["finished"]
    assert max(int(((started <= t) & (t < finished)).sum()) for t in started) == 3
    assert len(started) > 20
    assert_clients_do_one_thing_at_a_time(records)
    assert np.ptp(np.bincount(records.visits["client"], minlength=20)) <= 2  # visits in progress are not recorded


def test_clusters_are_visited_equally_often() -> None:
    records = run(AsyncMemory(clusters="labels", clients_at_once=3), 20, 4)
    cluster = np.array(records.note("clusters"))
    begun = np.bincount(cluster[records.visits["client"]], minlength=4)
    assert begun.max() - begun.min() <= 3 + 1  # visits in progress at the end are not recorded
    visits = np.bincount(records.visits["client"], minlength=20)
    assert all(np.ptp(visits[cluster == c]) <= 2 for c in range(4))


@pytest.mark.parametrize(
    ("clusters", "expected"),
    [(None, list(range(8))), ("labels", list(range(8))), (1, list(range(8)))],
)
def test_reach_limits_training_to_the_fastest_clients(clusters: str | int | None, expected: list[int]) -> None:
    speeds = {"unit": "s/visit", "speed": [1.0 + i for i in range(20)]}
    records = run(AsyncMemory(clusters=clusters, reach=0.4), 20, 4, compute=speeds)
    assert sorted(set(records.visits["client"].tolist())) == expected


def test_without_clusters_each_client_has_a_memory_and_no_histograms_are_needed() -> None:
    _, records = play(AsyncMemory(), clients=6, compute=SPEEDS, link="none", horizon=60.0)
    assert records.commits["version"].size > 20
    assert records.note("clusters") is None
    _, clustered = play(AsyncMemory(clusters="labels"), clients=6, histograms=one_label(6, 2), horizon=60.0)
    assert sorted(np.bincount(clustered.note("clusters")).tolist()) == [3, 3]


def test_invalid_values_are_rejected() -> None:
    for fields in ({"memory": 0.0}, {"reach": 0.0}, {"gain": 0.0}, {"exponent": -1.0}, {"clusters": "speeds"}):
        with pytest.raises(ValidationError, match=next(iter(fields))):
            AsyncMemory(**fields)  # type: ignore[arg-type]
