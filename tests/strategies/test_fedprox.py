"""FedProx with a deadline: slow clients train for as long as they have time."""

from __future__ import annotations

from fedtempo.learning.training import Training
from fedtempo.strategies.fedprox import FedProx
from tests.runtime.world import play


def test_without_a_deadline_a_round_lasts_as_long_as_its_slowest_client() -> None:
    _, records = play(FedProx(), compute=[1.0, 10.0], clients=2, horizon=15.0)
    assert records.commits["time"].tolist() == [10.0]


def test_a_slow_client_trains_the_part_that_fits_into_the_deadline() -> None:
    strategy = FedProx(deadline_s=5.0)
    _, records = play(strategy, compute=[1.0, 10.0], clients=2, examples=100, horizon=6.0)
    assert records.visits["finished"].tolist()[:2] == [1.0, 5.0]
    assert records.commits["time"].tolist() == [5.0]


def test_a_client_trains_at_least_one_step() -> None:
    strategy = FedProx(deadline_s=0.01)
    _, records = play(strategy, compute=[10.0], clients=1, examples=100, horizon=6.0)
    assert records.visits["finished"].tolist()[0] == 10.0 * Training().batch_size / 100


def test_a_deadline_that_all_meet_changes_no_time() -> None:
    _, free = play(FedProx(), compute=[1.0, 10.0], clients=2, horizon=50.0)
    _, timed = play(FedProx(deadline_s=10.0), compute=[1.0, 10.0], clients=2, horizon=50.0)
    assert timed.visits["finished"].tolist() == free.visits["finished"].tolist()
