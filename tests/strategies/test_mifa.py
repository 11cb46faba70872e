"""MIFA: means of the latest changes of all clients, worked out by hand."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from fedtempo.strategies import MIFA
from tests.runtime.world import play
from tests.strategies.arrivals import Arrivals, in_rounds

LOST = None


def test_absent_clients_are_replaced_by_their_latest_changes() -> None:
    """N = 4, h = 0 and w = 0 at first; first coordinate (the second is its double).

    Round 1: clients 0 and 1 bring 4 and 8, h = (4, 8, 0, 0), w = 12 / 4 = 3.
    Round 2: clients 1 and 2 bring 4 and 8, h = (4, 4, 8, 0), w = 3 + 16 / 4 = 7.
    Round 3: client 0 brings -4, h = (-4, 4, 8, 0), w = 7 + 8 / 4 = 9.
    Round 4: nobody reports, nothing moves.
    Round 5: all bring 4, w = 9 + 16 / 4 = 13.
    """
    rounds = [(4.0, 8.0, LOST, LOST), (LOST, 4.0, 8.0, LOST), (-4.0, LOST, LOST, LOST), (LOST,) * 4, (4.0,) * 4]
    fed = Arrivals(4)
    assert fed.play(MIFA(), *in_rounds(*rounds)) == [[3.0, 6.0], [7.0, 14.0], [9.0, 18.0], [13.0, 26.0]]
    # running statistics follow the parameters: each client that reported moves them by 1 / 4
    assert fed.statistics == [[0.5, 0.25, 0.25], [0.5, 0.25, 0.25], [0.75, 0.25], [0.0, 0.25, 0.25, 0.25, 0.25]]


def test_it_can_wait_until_each_client_has_reported_once() -> None:
    """N = 2. Client 0 brings 4, client 1 is lost; only client 1 is asked, is lost again, and then brings 8: w = 6.

    Then client 0 brings 2 and client 1 is lost: w = 6 + (2 + 8) / 2 = 11.
    """
    fed = Arrivals(2)
    arrivals = [(0, [4.0, 0.0]), (1, LOST), (1, LOST), (1, [8.0, 0.0]), (0, [2.0, 0.0]), (1, LOST)]
    assert fed.play(MIFA(wait_for_all=True), *arrivals) == [[6.0, 0.0], [11.0, 0.0]]
    assert fed.received == [0, 0, 1]


def test_a_round_ends_with_its_last_client_or_at_its_limit() -> None:
    for limit_s, times in ((None, [4.0, 8.0]), (2.5, [2.5, 5.0, 7.5])):
        _, records = play(MIFA(round_limit_s=limit_s), compute=[1.0, 2.0, 4.0], clients=3, horizon=9.0)
        assert records.commits["time"].tolist() == times
    done = records.visits["outcome"] == "done"
    assert set(records.visits["client"][done].tolist()) == {0, 1}


def test_a_round_invites_so_many_clients() -> None:
    _, records = play(MIFA(clients_per_round=2), compute=1.0, clients=5, horizon=3.5)
    assert records.commits["time"].tolist() == [1.0, 2.0, 3.0]
    assert (records.visits["outcome"] == "done").sum() == 6


def test_unusable_values_are_refused() -> None:
    for fields in ({"clients_per_round": 0}, {"round_limit_s": 0.0}, {"wait_for_all": 1}):
        with pytest.raises(ValidationError, match=next(iter(fields))):
            MIFA(**fields)  # type: ignore[arg-type]
