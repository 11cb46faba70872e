"""ACE: the mean of all clients' latest changes at every result, worked out by hand; ACED leaves out the stale ones."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from fedtempo.strategies import ACE
from tests.runtime.world import play
from tests.strategies.arrivals import Arrivals


def test_every_result_moves_the_model_by_the_mean_of_the_latest_changes() -> None:
    """Step 1, w = 0; first coordinate (the second is its double).

    Client 0 brings 4: mean 4 over one client, w = 4. Client 1 brings 2: mean (4 + 2) / 2 = 3, w = 7.
    Client 0 brings 1, which replaces 4: mean (1 + 2) / 2 = 1.5, w = 8.5.
    Client 2 brings 6: mean (1 + 2 + 6) / 3 = 3, w = 11.5. Client 1 brings -4: mean (1 - 4 + 6) / 3 = 1, w = 12.5.
    """
    fed = Arrivals(3)
    changes = [(0, 4.0), (1, 2.0), (0, 1.0), (2, 6.0), (1, -4.0)]
    models = fed.play(ACE(server_lr=1.0), *((client, [c, 2 * c]) for client, c in changes))
    assert models == [[4.0, 8.0], [7.0, 14.0], [8.5, 17.0], [11.5, 23.0], [12.5, 25.0]]
    assert fed.staleness == [0, 1, 1, 3, 2]
    assert fed.statistics == [[1 - 1 / k, 1 / k] for k in (1, 2, 2, 3, 3)]


def test_by_default_as_many_results_as_clients_move_the_model_by_one_mean() -> None:
    """n = 4, step 1/4: four times the same change of 8 from everyone gives 4 * 8 / 4 = 8."""
    fed = Arrivals(4)
    models = fed.play(ACE(), *((client, [8.0, 0.0]) for client in range(4)))
    assert models == [[2.0, 0.0], [4.0, 0.0], [6.0, 0.0], [8.0, 0.0]]


def test_stale_changes_are_left_out_until_their_client_reports_again() -> None:
    """Step 1, at most 1 commit ago. Client 1 brings 8 from version 0 at version 0: w = 8.

    Client 0 brings 2 from version 0 at version 1: client 1's change started 1 ago and counts, w = 8 + 10 / 2 = 13.
    Client 0 brings 4 from version 2 at version 2: client 1's started 2 ago and is out, w = 13 + 4 = 17.
    Client 1 brings 6 from version 1 at version 3, itself 2 ago: a new result always counts, client 0's started 1 ago,
    w = 17 + (4 + 6) / 2 = 22.
    """
    fed = Arrivals(2)
    models = fed.play(
        ACE(server_lr=1.0, max_staleness=1), (1, [8.0, 0.0]), (0, [2.0, 0.0]), (0, [4.0, 0.0]), (1, [6.0, 0.0])
    )
    assert [model[0] for model in models] == [8.0, 13.0, 17.0, 22.0]
    assert fed.staleness == [0, 1, 0, 2]


def test_every_result_makes_a_commit() -> None:
    _, records = play(ACE(), compute=[1.0, 2.0, 4.0], clients=3, horizon=4.0)
    assert records.commits["time"].tolist() == [1.0, 2.0, 2.0, 3.0, 4.0, 4.0, 4.0]


def test_unusable_values_are_refused() -> None:
    for fields in ({"server_lr": 0.0}, {"max_staleness": 0}, {"clients_at_once": 0}):
        with pytest.raises(ValidationError, match=next(iter(fields))):
            ACE(**fields)  # type: ignore[arg-type]
