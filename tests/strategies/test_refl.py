"""REFL: who is chosen, when a round ends, and what late updates count, worked out by hand."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
from pydantic import ValidationError

from fedtempo.strategies import REFL
from tests.runtime.world import play
from tests.strategies.arrivals import Arrivals


def late_updates(**options: Any) -> tuple[list[list[float]], Arrivals]:
    """Play rounds that end when half of their clients have reported; all four clients begin at version 0."""
    fed = Arrivals(4, visit_s=[100.0] * 4)
    strategy = REFL(clients_per_round=4, target=0.5, rest_rounds=0, **options)
    arrivals = [(0, [1.0, 0.0]), (1, [3.0, 0.0]), (2, [3.0, 4.0]), (3, [3.0, 2.0]), (0, [3.0, 0.0])]
    return fed.play(strategy, *arrivals), fed


def test_late_updates_count_by_their_staleness_and_their_deviation() -> None:
    """Round 1: clients 0 and 1 bring (1, 0) and (3, 0): w = (2, 0). They begin round 2, which one report ends.

    Before it come (3, 4) and (3, 2) of round 1, each one commit late; the fresh (3, 0) of client 0 is v. Squared
    deviations are 16 and 4, so a = 0.65 / 2 + 0.35 * (1 - e^-1), b = 0.65 / 2 + 0.35 * (1 - e^-(1/4)), and
    w = (2, 0) + ((3, 0) + a * (3, 4) + b * (3, 2)) / (1 + a + b).
    """
    models, fed = late_updates()
    a, b = 0.325 + 0.35 * (1 - math.exp(-1)), 0.325 + 0.35 * (1 - math.exp(-0.25))
    assert models[0] == [2.0, 0.0]
    assert models[1] == pytest.approx([5.0, (4 * a + 2 * b) / (1 + a + b)], rel=1e-14)
    assert fed.staleness == [0, 1]
    assert fed.received == [0, 0, 0, 0, 1]


def test_late_updates_may_count_like_fresh_ones() -> None:
    """w = (2, 0) + ((3, 0) + (3, 4) + (3, 2)) / 3."""
    assert late_updates(stale="equal")[0] == [[2.0, 0.0], pytest.approx([5.0, 2.0])]


def test_updates_that_missed_too_many_commits_are_dropped() -> None:
    """One client of three per round with target 1/3; client 2 brings its first update two commits late."""
    fed = Arrivals(3, visit_s=[100.0] * 3)
    strategy = REFL(clients_per_round=3, target=0.33, rest_rounds=0, most_stale=1, stale="equal")
    arrivals = [(0, [1.0, 0.0]), (0, [1.0, 0.0]), (2, [90.0, 0.0]), (0, [1.0, 0.0])]
    assert fed.play(strategy, *arrivals) == [[1.0, 0.0], [2.0, 0.0], [3.0, 0.0]]


def test_whoever_leaves_soon_trains_first_and_then_rests() -> None:
    """Visits take 2 s, so mu = 2 s, and the server asks who is present from 2 to 4 s: not client 2.

    After it come the others, in random order, but nobody twice in a row. Client 2 is away from 3 s on.
    """
    windows = [[(0.0, 99.0)], [(0.0, 99.0)], [(0.0, 3.0)]]
    _, records = play(
        REFL(clients_per_round=1, rest_rounds=1),
        compute=2.0,
        clients=3,
        availability={"kind": "windows", "windows": windows},
        horizon=13.0,
    )
    clients = records.visits["client"].tolist()
    assert clients[0] == 2
    assert clients.count(2) == 1
    assert all(before != after for before, after in itertools.pairwise(clients))
    assert set(records.visits["outcome"][:6].tolist()) == {"done"}  # nobody absent was asked
    assert records.commits["time"].tolist() == [2.0, 4.0, 6.0, 8.0, 10.0, 12.0]


def test_a_round_ends_with_its_target_or_at_its_deadline_and_the_late_work_on() -> None:
    """Of 4 clients with 1, 2, 3 and 10 s, 3 are enough: 3 s. With a deadline of 2.5 s, two of them."""
    for options, first in (({}, 3.0), ({"deadline_s": 2.5}, 2.5)):
        _, records = play(
            REFL(clients_per_round=4, target=0.75, rest_rounds=0, **options),  # type: ignore[arg-type]
            compute=[1.0, 2.0, 3.0, 10.0],
            clients=4,
            horizon=11.0,
        )
        assert records.commits["time"].tolist()[0] == first
        slow = records.visits["client"] == 3
        assert records.visits["finished"][slow].tolist()[0] == 10.0
        assert records.visits["outcome"][slow].tolist()[0] == "done"


def test_with_late_updates_to_come_fewer_clients_are_chosen() -> None:
    """Of 3 clients with 2, 2 and 3 s two are chosen, and one report ends a round. mu is 3 s at first, then less.

    Whenever an update of an earlier round is due within mu, only one more client is chosen, so two are at work.
    """
    counts = {}
    for adapt in (False, True):
        _, records = play(
            REFL(clients_per_round=2, target=0.5, rest_rounds=0, adapt=adapt, smoothing=0.9),
            compute=[2.0, 2.0, 3.0],
            clients=3,
            horizon=60.0,
        )
        started, finished = records.visits["started"], records.visits["finished"]
        counts[adapt] = max(((started <= t) & (t < finished)).sum() for t in (x + 0.25 for x in range(50)))
    assert counts == {False: 3, True: 2}


def test_unusable_values_are_refused() -> None:
    for fields in ({"target": 0.0}, {"beta": 1.5}, {"smoothing": 1.0}, {"rest_rounds": -1}, {"stale": "old"}):
        with pytest.raises(ValidationError, match=next(iter(fields))):
            REFL(**fields)  # type: ignore[arg-type]
