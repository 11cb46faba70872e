"""FedVARP and ClusterFedVARP: means corrected by the latest changes of all clients, worked out by hand."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from fedtempo.strategies import FedVARP
from tests.runtime.world import play
from tests.strategies.arrivals import Arrivals, in_rounds

LOST = None


def test_the_mean_of_a_round_is_corrected_by_all_latest_changes() -> None:
    """N = 4, step 1, y = 0 and w = 0 at first; first coordinate.

    Round 1: clients 0 and 1 bring 4 and 8: v = (4 + 8) / 2 + 0 = 6, w = 6; y = (4, 8, 0, 0).
    Round 2: clients 1 and 2 bring 4 and 8: v = ((4 - 8) + (8 - 0)) / 2 + 12 / 4 = 5, w = 11; y = (4, 4, 8, 0).
    Round 3: client 0 brings -4: v = (-4 - 4) / 1 + 16 / 4 = -4, w = 7; y = (-4, 4, 8, 0).
    Round 4: all bring 8, 4, 0, 4: v = (12 + 0 - 8 + 4) / 4 + 8 / 4 = 4, the plain mean; w = 11.
    """
    rounds = in_rounds((4.0, 8.0, LOST, LOST), (LOST, 4.0, 8.0, LOST), (-4.0, LOST, LOST, LOST), (8.0, 4.0, 0.0, 4.0))
    fed = Arrivals(4)
    assert fed.play(FedVARP(), *rounds) == [[6.0, 12.0], [11.0, 22.0], [7.0, 14.0], [11.0, 22.0]]
    assert fed.statistics == [[0.0, 0.5, 0.5], [0.0, 0.5, 0.5], [0.0, 1.0], [0.0, 0.25, 0.25, 0.25, 0.25]]


def test_the_step_size_scales_the_corrected_mean() -> None:
    """The first two rounds with step 1/2: w = 3, then w = 3 + 5 / 2 = 5.5."""
    fed = Arrivals(4)
    models = fed.play(FedVARP(server_lr=0.5), *in_rounds((4.0, 8.0, LOST, LOST), (LOST, 4.0, 8.0, LOST)))
    assert [model[0] for model in models] == [3.0, 5.5]
    assert fed.statistics == [[0.5, 0.25, 0.25], [0.5, 0.25, 0.25]]


def test_the_clients_of_a_cluster_share_a_change() -> None:
    """Clusters {0, 1} and {2, 3}, N = 4; y_A = y_B = 0 and w = 0 at first.

    Round 1: clients 0 and 1 bring 4 and 8: v = 6 + 0, w = 6; y_A = 6.
    Round 2: clients 1 and 2 bring 2 and 8: v = ((2 - 6) + (8 - 0)) / 2 + (2 * 6 + 2 * 0) / 4 = 5, w = 11; y_A = 2,
    y_B = 8. Round 3: client 3 brings 12: v = (12 - 8) + (2 * 2 + 2 * 8) / 4 = 9, w = 20; y_B = 12.
    Round 4: client 0 brings 2: v = (2 - 2) + (2 * 2 + 2 * 12) / 4 = 7, w = 27.
    """
    fed = Arrivals(4, histograms=[(10, 0), (10, 0), (0, 10), (0, 10)])
    changes = [(4.0, 8.0, LOST, LOST), (LOST, 2.0, 8.0, LOST), (LOST, LOST, LOST, 12.0), (2.0, LOST, LOST, LOST)]
    assert [model[0] for model in fed.play(FedVARP(clusters="labels"), *in_rounds(*changes))] == [6.0, 11.0, 20.0, 27.0]


def test_with_one_cluster_the_correction_cancels() -> None:
    """All clients share y: v = mean of d - y + y. Rounds of 4 and 8, and of 2, give w = 6 and w = 8: FedAvg."""
    fed = Arrivals(2)
    models = fed.play(FedVARP(clusters=1), *in_rounds((4.0, 8.0), (2.0, LOST)))
    assert [model[0] for model in models] == [6.0, 8.0]


def test_a_round_ends_with_its_slowest_client() -> None:
    _, records = play(FedVARP(), compute=[1.0, 2.0, 4.0], clients=3, horizon=9.0)
    assert records.commits["time"].tolist() == [4.0, 8.0]
    _, records = play(FedVARP(clients_per_round=2), compute=1.0, clients=5, horizon=3.5)
    assert (records.visits["outcome"] == "done").sum() == 6


def test_unusable_values_are_refused() -> None:
    for fields in ({"clients_per_round": 0}, {"server_lr": 0.0}, {"clusters": 0}):
        with pytest.raises(ValidationError, match=next(iter(fields))):
            FedVARP(**fields)  # type: ignore[arg-type]
