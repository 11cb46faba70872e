"""QuAFL: who has taken how many steps when the server asks, and averages worked out by hand from Alg. 1."""

from __future__ import annotations

import numpy as np
import pytest
from pydantic import ValidationError
from torch import nn

from fedtempo.learning.training import Training
from fedtempo.strategies import QuAFL
from tests.runtime.learning import Built, learn
from tests.runtime.world import play

CLIENTS = [(np.array([[1.0]]), np.array([[3.0]])), (np.array([[2.0]]), np.array([[1.0]])), (np.zeros((1, 1)),) * 2]
"""Loss (w x - y)^2, so the gradients are 2 (w - 3), 8 w - 4 and 0."""


def line() -> nn.Linear:
    layer = nn.Linear(1, 1, bias=False).double()
    nn.init.constant_(layer.weight, 1.0)
    return layer


@pytest.mark.usefixtures("double")
def test_each_average_takes_one_share_of_the_server_and_the_clients_keep_most_of_their_own() -> None:
    """s = n = 3, K = 2 steps with 1/8, X = X_i = 1 at first. Sums of powers of 2: the arithmetic is exact.

    A step takes 1 s at client 0, 2 s at client 1 and 5 s at client 2; polls are at 4, 8 and 12 s. So client 0 takes its
    2 steps and idles for 2 s, client 1 takes 2, and client 2 none.

    Round 1. Client 0: gradients -4, -3, Y_0 = 1.875. Client 1: gradients 4, 0, Y_1 = 0.5. Client 2: Y_2 = 1.
    X = (1 + 1.875 + 0.5 + 1) / 4 = 1.09375; X_0 = (1 + 3 * 1.875) / 4 = 1.65625, X_1 = (1 + 1.5) / 4 = 0.625, X_2 = 1.
    Round 2. Client 0: gradients -2.6875, then 2 (1.9921875 - 3) = -2.015625: Y_0 = 2.244140625. Client 1: gradients 1
    and 8 * 0.5 - 4 = 0: Y_1 = 0.5. X = (1.09375 + 2.244140625 + 0.5 + 1) / 4 = 1.20947265625, and
    X_2 = (1.09375 + 3) / 4 = 1.0234375, which client 2 sends back in round 3.
    """
    expected = [1.09375, 1.20947265625]
    x_0, x_1 = (1.09375 + 3 * 2.244140625) / 4, (1.09375 + 3 * 0.5) / 4
    for _ in range(2):
        x_0, x_1 = x_0 - (x_0 - 3) / 4, x_1 - (x_1 - 0.5)
    expected.append((expected[-1] + x_0 + x_1 + 1.0234375) / 4)
    training = Training(lr=0.125, loss="squared", steps=2)
    for commits, model in enumerate(expected, start=1):
        found = learn(
            QuAFL(clients_per_round=3, round_s=4.0),
            Built(line),
            CLIENTS,
            n_outputs=1,
            training=training,
            commits=commits,
            compute=[2.0, 4.0, 10.0],
        )
        assert found.final.tolist() == [model]
    assert found.records.commits["time"].tolist() == [4.0, 8.0, 12.0]
    assert set(found.records.visits["client"].tolist()) == {0, 1}


def test_a_client_takes_the_steps_that_fit_until_its_next_poll() -> None:
    """10 steps of 1 s, both clients polled every 5 s; a download takes 1 s and an upload 0.5 s.

    A visit begins at 0, computes for 4 s until 5 s, and is over at 5.5 s; the next one computes for 3.5 s: 3 steps.
    """
    _, records = play(
        QuAFL(clients_per_round=2, round_s=5.0),
        compute=10.0,
        link={"kind": "fixed", "download_s": 1.0, "upload_s": 0.5},
        clients=2,
        examples=100,
        training=Training(batch_size=10),
        horizon=16.0,
    )
    visits = records.visits
    done = visits["outcome"] == "done"
    assert (visits["computed"] - visits["received"])[done].tolist() == [4.0, 4.0, 3.0, 3.0, 3.0, 3.0]
    assert visits["finished"][done].tolist() == [5.5, 5.5, 10.5, 10.5, 15.5, 15.5]
    assert records.commits["time"].tolist() == [5.5, 10.5, 15.5]


def test_the_server_waits_for_nobody() -> None:
    """One client needs 100 s per step. A round of 3 s with one of the clients ends after 3 s all the same."""
    _, records = play(QuAFL(clients_per_round=1, round_s=3.0), compute=[1.0, 100.0], clients=2, horizon=31.0)
    assert records.commits["time"].tolist() == [3.0 * k for k in range(1, 11)]


def test_by_default_an_average_client_has_just_finished_when_it_is_polled() -> None:
    """Computing times 2, 4 and 6 s, mean 4 s. With 1 of 3 clients per round each is polled every 3 rounds: 4 / 3 s."""
    _, records = play(QuAFL(clients_per_round=1), compute=[2.0, 4.0, 6.0], clients=3, horizon=5.0)
    assert records.commits["time"].tolist() == pytest.approx([4 / 3, 8 / 3, 4.0])


def test_by_default_the_server_polls_no_faster_than_clients_can_exchange_models() -> None:
    """Models travel for 8 s and 2 s, 14 s a visit on average: 14 / 3 s per round with 1 of 3 clients, not 4 / 3 s."""
    link = {"kind": "rates", "download_bps": 1e6, "upload_bps": 4e6}
    _, records = play(QuAFL(clients_per_round=1), compute=[2.0, 4.0, 6.0], clients=3, link=link, horizon=30.0)
    gaps = np.diff(records.commits["time"], prepend=0.0)
    assert len(gaps)
    assert min(gaps) >= 14 / 3 - 1e-9


def test_a_client_that_needs_longer_than_expected_answers_within_the_round_or_is_left_out() -> None:
    """Expected are 2 s. One client takes 4 s and answers the poll at 3 s a second late; the other takes 7 s.

    So the round of 3 s cannot have the latter; it answers at 7 s to the poll at 6 s.
    """
    for compute_s, first in ((4.0, 4.0), (7.0, 7.0)):
        _, records = play(
            QuAFL(clients_per_round=1, round_s=3.0),
            compute=compute_s,
            estimates={"kind": "observed", "prior_s": 2.0},
            clients=1,
            horizon=7.5,
        )
        assert records.commits["time"].tolist()[0] == first


def test_unusable_values_are_refused() -> None:
    for fields in ({"clients_per_round": 0}, {"round_s": 0.0}):
        with pytest.raises(ValidationError, match=next(iter(fields))):
            QuAFL(**fields)  # type: ignore[arg-type]
