"""Asynchronous SGD: who gets the next job, and steps after long delays, by hand from Alg. 2 and Theorem 8."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from fedtempo.strategies import AsyncSGD
from tests.runtime.world import play
from tests.strategies.arrivals import Arrivals

JOBS = [(0, 4.0), (0, 2.0), (0, 1.0), (1, 6.0), (1, 3.0)]


def models(**options: Any) -> tuple[list[float], Arrivals]:
    """Play two jobs at a time among three clients.

    The first two draws are positions among the idle clients: 0 of (0, 1, 2), then 1 of (2, 1), so clients 0 and 1
    begin. The others are clients: 0, 0, then 1, which is busy, so that its second job waits; then 2 and 2.
    """
    fed = Arrivals(3, draws=[0, 1, 0, 0, 1, 2, 2])
    strategy = AsyncSGD(clients_at_once=2, server_lr=1.0, **options)
    return [model[0] for model in fed.play(strategy, *((client, [d, 0.0]) for client, d in JOBS))], fed


def test_a_busy_client_gets_a_second_job_and_a_long_delay_shortens_the_step() -> None:
    """tau_C = 2, step 1, w = 0.

    Client 0 brings 4, 2 and 1, each without delay: w = 4, 6, 7. Client 1 brings 6 from its first job, whose delay is
    t = 3 > 2: w = 7 + 6 / 3 = 9; then 3 from its second, which was given out at version 3: t = 1, w = 12.
    """
    found, fed = models()
    assert found == [4.0, 6.0, 7.0, 9.0, 12.0]
    assert fed.received == [0, 1, 2, 0, 3]
    assert fed.staleness == [0, 0, 0, 3, 1]
    assert fed.statistics == pytest.approx(np.array([[0, 1], [0, 1], [0, 1], [2 / 3, 1 / 3], [0, 1]]))


def test_a_dropped_result_counts_in_the_delays_of_others() -> None:
    """As above, but the result with delay 3 makes no step; the last one's delay is 1 all the same: w = 7, 7 + 3."""
    found, fed = models(delay="drop")
    assert found == [4.0, 6.0, 7.0, 7.0, 10.0]
    assert fed.staleness == [0, 0, 0, 3, 1]


def test_with_constant_steps_a_late_result_counts_in_full() -> None:
    assert models(delay="none")[0] == [4.0, 6.0, 7.0, 13.0, 16.0]


def test_a_delay_equal_to_the_number_of_jobs_costs_nothing() -> None:
    assert [AsyncSGD().freshness(delay, 4) for delay in (0, 4, 5, 8)] == [1.0, 1.0, 0.2, 0.125]


def test_drawn_from_the_idle_clients_nobody_has_two_jobs() -> None:
    fed = Arrivals(2, draws=[0, 0, 0, 0])
    fed.play(AsyncSGD(draw="idle"), (0, [1.0, 0.0]), (0, [1.0, 0.0]))
    assert fed.received == [0, 1]
    assert [len(visits) for visits in fed._visits.values()] == [1, 1]


@pytest.mark.parametrize("jobs", [1, 3])
def test_the_number_of_jobs_never_changes(jobs: int) -> None:
    _, records = play(AsyncSGD(clients_at_once=jobs), compute=[1.0, 2.0, 4.0], clients=3, horizon=60.0)
    queued, finished = records.visits["queued"], records.visits["finished"]
    for time in np.arange(0.5, 50.0):
        assert ((queued < time) & (time < finished)).sum() == jobs


def test_jobs_are_given_to_slow_clients_as_often_as_to_fast_ones() -> None:
    """With one job, each visit is uniform over two clients with 1 and 3 s: of 400 visits, 200 +- 5 * 10 (5 sigma).

    So a visit takes 2 s on average, the mean of the clients' times (Lemma 11).
    """
    _, records = play(AsyncSGD(clients_at_once=1), compute=[1.0, 3.0], clients=2, horizon=None, max_commits=400, seed=7)
    clients = records.visits["client"].tolist()[:400]
    assert abs(clients.count(1) - 200) <= 50
    assert records.commits["time"].tolist()[-1] == clients.count(0) + 3 * clients.count(1)


def test_unusable_values_are_refused() -> None:
    for fields in ({"server_lr": 0.0}, {"delay": "wait"}, {"draw": "some"}, {"clients_at_once": 0}):
        with pytest.raises(ValidationError, match=next(iter(fields))):
            AsyncSGD(**fields)  # type: ignore[arg-type]
