"""CA2FL: calibrated means of a buffer, worked out by hand from Alg. 2."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from fedtempo.strategies import CA2FL
from tests.runtime.world import play
from tests.strategies.arrivals import Arrivals


def test_a_buffer_of_two_and_three_clients() -> None:
    """n = 3, M = 2, step 1; h_i = h = 0 and w = 0 at first; first coordinate (the second is its double).

    Clients 0 and 1 bring 4 and 2: sum = (4 - 0) + (2 - 0) = 6, w = 0 + (h + 6 / 2) = 3; h_0 = 4, h_1 = 2,
    h = (4 + 2 + 0) / 3 = 2.
    Clients 0 and 2 bring 1 and 3: sum = (1 - 4) + (3 - 0) = 0, w = 3 + (2 + 0) = 5; h_0 = 1, h_2 = 3,
    h = (1 + 2 + 3) / 3 = 2.
    Clients 2 and 1 bring 6 and -1: sum = (6 - 3) + (-1 - 2) = 0, w = 5 + (2 + 0) = 7; h = (1 - 1 + 6) / 3 = 2.
    Clients 0 and 1 bring 3 and 3: sum = (3 - 1) + (3 + 1) = 6, w = 7 + (2 + 3) = 12.
    """
    fed = Arrivals(3)
    changes = [(0, 4.0), (1, 2.0), (0, 1.0), (2, 3.0), (2, 6.0), (1, -1.0), (0, 3.0), (1, 3.0)]
    models = fed.play(CA2FL(buffer=2), *((client, [c, 2 * c]) for client, c in changes))
    assert models == [[3.0, 6.0], [5.0, 10.0], [7.0, 14.0], [12.0, 24.0]]
    # Whose result fills the buffer receives the new version; client 0 began again just before the first commit.
    assert fed.received == [0, 0, 0, 0, 2, 1, 1, 3]
    assert fed.staleness == [0, 1, 1, 2]


def test_the_step_size_scales_the_calibrated_mean() -> None:
    """n = 2, M = 1, step 1/2: w = (0 + 4) / 2 = 2, h = 4 / 2 = 2; then client 0 again: w = 2 + (2 + 6 - 4) / 2 = 4."""
    fed = Arrivals(2)
    assert fed.play(CA2FL(buffer=1, server_lr=0.5), (0, [4.0, 0.0]), (0, [6.0, 0.0])) == [[2.0, 0.0], [4.0, 0.0]]
    assert fed.statistics == [[0.5, 0.5], [0.5, 0.5]]


def test_a_client_that_is_twice_in_a_buffer_counts_against_its_own_last_change() -> None:
    """n = 2, M = 2: client 0 brings 4 and then 6: sum = (4 - 0) + (6 - 4) = 6, w = 3, h = 6 / 2 = 3."""
    fed = Arrivals(2)
    models = fed.play(CA2FL(buffer=2), (0, [4.0, 0.0]), (0, [6.0, 0.0]), (0, [6.0, 0.0]), (0, [6.0, 0.0]))
    assert models == [[3.0, 0.0], [6.0, 0.0]]


def test_the_mean_is_over_the_clients_within_reach() -> None:
    """Of four clients the two fastest train: n = 2. w = 4, h = 4 / 2 = 2; then w = 4 + 2 + (2 - 0) = 8."""
    fed = Arrivals(4, visit_s=[1.0, 2.0, 3.0, 4.0])
    assert fed.play(CA2FL(buffer=1, reach=0.5), (0, [4.0, 0.0]), (1, [2.0, 0.0])) == [[4.0, 0.0], [8.0, 0.0]]


def test_it_commits_when_its_buffer_is_full() -> None:
    _, records = play(CA2FL(buffer=3), compute=[1.0, 2.0, 4.0], clients=3, horizon=8.0)
    # Results at 1, 2, 2, 3, 4, 4, 4, 5, 6, 6, 7, 8, 8, 8: every third makes a commit.
    assert records.commits["time"].tolist() == [2.0, 4.0, 6.0, 8.0]


def test_unusable_values_are_refused() -> None:
    for fields in ({"buffer": 0}, {"server_lr": 0.0}, {"reach": 1.5}):
        with pytest.raises(ValidationError, match=next(iter(fields))):
            CA2FL(**fields)  # type: ignore[arg-type]
