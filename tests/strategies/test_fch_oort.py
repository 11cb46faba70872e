"""FCH-FL and Oort on the clock: their selections, averages, and estimates of clients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fedtempo.federation import Federation, Model
from fedtempo.strategies.fch import FchFl, gradient_distances
from fedtempo.strategies.oort import Oort
from tests.runtime.world import play

SPEEDS = {"unit": "s/visit", "speed": {"kind": "uniform", "low": 1.0, "high": 5.0}}


def rounds(records: Any) -> list[list[int]]:
    """Return the clients of each round: those of visits requested at the same instant."""
    asked, clients = records.visits["queued"], records.visits["client"]
    return [clients[asked == instant].tolist() for instant in np.unique(asked)]


def test_fch_trains_twice_the_clients_it_averages_and_all_before_any_again() -> None:
    _, records = play(FchFl(clients_per_round=3), compute=SPEEDS, clients=12, horizon=100.0)
    played = rounds(records)[:-1]
    assert {len(round_) for round_ in played} == {6}
    assert sorted(played[0] + played[1]) == list(range(12))


def test_fch_waits_for_all_training_clients() -> None:
    _, records = play(FchFl(clients_per_round=1), compute=[1.0, 4.0, 2.0, 3.0], horizon=7.0)
    assert rounds(records)[:2] == [[0, 1], [2, 3]]
    assert records.commits["time"].tolist() == [4.0, 7.0]


def test_fch_with_screening_only_averages_all_it_trains() -> None:
    strategy = FchFl(clients_per_round=3, screen_only=True)
    _, records = play(strategy, compute=SPEEDS, clients=12, horizon=100.0)
    assert {len(round_) for round_ in rounds(records)[:-1]} == {3}


def test_fch_visits_slow_clients_less_often() -> None:
    """Without training all are equally useful: slow ones get a tenth, apart from the bound and chance."""
    compute = [1.0] * 6 + [10.0] * 6
    strategy = FchFl(clients_per_round=3, exploration=0.1, exempt_percent=0.0)
    _, records = play(strategy, compute=compute, clients=12, horizon=2000.0)
    counts = np.bincount(records.visits["client"], minlength=12)
    assert counts[6:].max() < 0.5 * counts[:6].min()
    spared = FchFl(clients_per_round=3, exploration=0.1, exempt_percent=100.0)
    _, records = play(spared, compute=compute, clients=12, horizon=2000.0)
    counts = np.bincount(records.visits["client"], minlength=12)
    assert counts.max() - counts.min() <= 1


def test_fch_averages_the_best_and_learns_from_lost_visits() -> None:
    seen: list[int] = []

    class Watched(FchFl):
        async def utilities(self, fed: Federation, updates: Any, *rest: Any) -> Any:
            seen.extend(update.client.id for update in updates)
            return await super().utilities(fed, updates, *rest)

    windows = [[], *[[(0.0, 1000.0)]] * 3]
    availability = {"kind": "windows", "windows": windows}
    _, records = play(Watched(clients_per_round=1), availability=availability, horizon=60.0)
    assert set(seen) == {1, 2, 3}
    absent = records.visits["client"] == 0
    assert (records.visits["outcome"][absent] == "unavailable").all()
    assert absent.mean() < 0.25
    assert records.commits["version"].size == 60


def test_gradients_are_compared_with_the_global_one_of_the_previous_round() -> None:
    previous, model, trained = (np.array(v, dtype=np.float32) for v in ([4.0, 4.0], [1.0, 0.0], [0.0, 0.0]))
    assert gradient_distances(model, models=[trained, model], previous=None) == [1.0, 0.0]
    # The global gradient was (3, 4); the client's is (1, 0).
    assert gradient_distances(model, models=[trained], previous=previous) == [pytest.approx(np.hypot(2.0, 4.0))]
    empty = np.empty(0, dtype=np.float32)
    assert gradient_distances(empty, models=[empty, empty], previous=empty) == [0.0, 0.0]


@pytest.mark.parametrize("clients", [3, 10, 25])
@pytest.mark.parametrize("most_picks", [None, 4])
def test_oort_never_selects_too_few_clients(clients: int, most_picks: int | None) -> None:
    _, records = play(Oort(most_picks=most_picks), compute=SPEEDS, clients=clients, horizon=300.0)
    played = rounds(records)[:-1]
    assert len(played) > 50
    assert {len(round_) for round_ in played} == {min(10, clients)}
    assert all(len(set(round_)) == len(round_) for round_ in played)


def test_oort_explores_all_clients_fast_ones_first_and_returns_to_the_fast() -> None:
    compute = [1.0] * 20 + [20.0] * 20
    strategy = Oort(clients_per_round=8, pacer_step_s=1.0, window=1000)
    _, records = play(strategy, compute=compute, clients=40, horizon=4000.0)
    played = rounds(records)[:-1]
    # All clients of the first round are new. Each is slow with a probability of at most 20 / (13 * 20 + 20), so more
    # than 3 of 8 are slow in one case of 690.
    assert sum(client < 20 for client in played[0]) >= 5
    assert len({client for round_ in played[:10] for client in round_}) == 40
    late = np.array(played[100:]).ravel()
    assert (late >= 20).mean() < 0.05


def test_oort_rests_a_client_that_was_selected_often() -> None:
    """15 rounds of 2 are 30 picks: fewer than the 33 after which 11 of 12 clients could have had theirs."""
    counts = []
    for most_picks in (3, None):
        strategy = Oort(clients_per_round=2, most_picks=most_picks)
        _, records = play(strategy, compute=SPEEDS, clients=12, max_commits=15, horizon=None)
        counts.append(np.bincount(records.visits["client"][records.visits["outcome"] == "done"], minlength=12))
    assert counts[0].sum() == counts[1].sum() == 30
    assert counts[0].max() == 3 < counts[1].max()


def test_oort_gives_slow_clients_more_time_if_utility_falls() -> None:
    class Shrinking(Oort):
        def choose(self, fed: Any, memory: Any, asked: int, round_number: int, limit_s: float) -> list[int]:
            limits.append(limit_s)
            return super().choose(fed, memory, asked if round_number <= 3 else 1, round_number, limit_s)

    limits: list[float] = []
    play(Shrinking(clients_per_round=4, window=2), compute=[2.0] * 8, clients=8, max_commits=8, horizon=None)
    # All losses are 1 and all clients have 10 examples: sums of utility are 40, 40, 40, then 10 a round.
    # Two rounds against the two before: 50 < 80 before round 5, 20 < 80 before round 6, 20 < 50 before round 7.
    assert limits[:8] == [2.0, 2.0, 2.0, 2.0, 4.0, 6.0, 8.0, 8.0]


def test_without_training_models_remain_empty_handles() -> None:
    async def script(fed: Federation) -> None:
        updates = await fed.train_all(fed.clients, fed.model)
        utilities = await FchFl().utilities(fed, updates, fed.model, np.ones(4), 1.0)
        assert utilities.tolist() == [1.0] * 4
        assert isinstance(fed.model, Model)
        fed.commit(fed.model)

    _, records = play(script)
    assert records.commits["version"].tolist() == [1]


def test_fch_waits_no_longer_than_its_limit_and_counts_it_as_the_time_of_the_missing_clients() -> None:
    strategy = FchFl(clients_per_round=1, round_limit_s=2.5)
    _, records = play(strategy, compute=[1.0, 4.0, 2.0, 3.0], horizon=5.0)
    assert records.commits["time"].tolist() == [2.5, 5.0]
    assert records.visits["finished"][records.visits["client"] == 1].tolist()[:1] == [2.5]


def test_a_round_limit_that_no_client_misses_changes_nothing() -> None:
    unlimited = play(FchFl(clients_per_round=2), compute=SPEEDS, clients=8, horizon=60.0)[1]
    limited = play(FchFl(clients_per_round=2, round_limit_s=6.0), compute=SPEEDS, clients=8, horizon=60.0)[1]
    for name in ("client", "started", "finished"):
        assert limited.visits[name].tolist() == unlimited.visits[name].tolist()


def test_oort_with_over_commitment_ends_a_round_at_the_first_reports() -> None:
    strategy = Oort(clients_per_round=2, over_commitment=1.5)
    _, records = play(strategy, compute=[1.0, 2.0, 8.0], clients=3, horizon=2.5)
    assert rounds(records)[0] == [0, 1, 2]
    assert records.commits["time"].tolist() == [2.0]
    assert records.visits["finished"].tolist()[:3] == [1.0, 2.0, 2.0]


def test_oort_s_over_commitment_is_bounded_by_the_number_of_clients() -> None:
    _, records = play(Oort(clients_per_round=3, over_commitment=9.0), clients=4, horizon=1.5)
    assert rounds(records)[0] == [0, 1, 2, 3]
