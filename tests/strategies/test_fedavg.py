"""FedAvg, sequential and hybrid training on the clock: schedules and commits."""

from __future__ import annotations

import numpy as np
import pytest

from fedtempo.federation import Client, Federation
from fedtempo.strategies import FedAvg, Hybrid, Sequential
from fedtempo.strategies.hybrid import fixed_groups
from fedtempo.strategies.rounds import uniform_sample
from tests.runtime.world import play

ONE_LABEL = [(10, 0), (0, 10)] * 3


def test_a_round_lasts_as_long_as_its_slowest_client() -> None:
    _, records = play(FedAvg(), compute=[1.0, 2.0, 5.0, 3.0], horizon=20.0)
    assert records.commits["time"].tolist() == [5.0, 10.0, 15.0, 20.0]
    assert np.bincount(records.visits["client"]).tolist() == [4, 4, 4, 4]


def test_clients_are_sampled_without_replacement_and_all_take_part_eventually() -> None:
    _, records = play(FedAvg(clients_per_round=2), compute=1.0, horizon=100.0)
    rounds = records.visits["client"].reshape(100, 2)
    assert all(len(set(chosen)) == 2 for chosen in rounds.tolist())
    counts = np.bincount(records.visits["client"])
    assert np.abs(counts - 50).max() < 5 * (100 * 0.5 * 0.5) ** 0.5


def test_a_round_without_available_clients_costs_its_expected_time() -> None:
    windows = [[(10.0, 1000.0)]] * 4
    _, records = play(FedAvg(), compute=4.0, availability={"kind": "windows", "windows": windows}, horizon=30.0)
    assert records.commits["time"].tolist() == [16.0, 20.0, 24.0, 28.0]


def test_a_uniform_sample_is_sorted_and_limited() -> None:
    clients = [Client(i, 1) for i in range(5)]
    chosen = uniform_sample(clients, 3, np.random.default_rng(0))
    assert len({client.id for client in chosen}) == 3
    assert [client.id for client in chosen] == sorted(client.id for client in chosen)
    assert uniform_sample(clients, 9, np.random.default_rng(0)) == clients


@pytest.mark.parametrize("commit", ["visit", "round"])
def test_sequential_training_visits_one_client_at_a_time(commit: str) -> None:
    _, records = play(Sequential(commit=commit), compute=[1.0, 2.0, 3.0, 4.0], horizon=20.0)
    started, finished = records.visits["started"], records.visits["finished"]
    assert started[1:].tolist() == finished[:-1].tolist()
    assert sorted(records.visits["client"][:4].tolist()) == [0, 1, 2, 3]
    expected = [10.0, 20.0] if commit == "round" else finished.tolist()
    assert records.commits["time"].tolist() == expected


def test_fixed_groups_take_one_client_of_each_cluster_and_include_all() -> None:
    clients = [Client(i, 1) for i in range(7)]
    groups = fixed_groups(clients, [0, 1, 0, 1, 2, 2, 0])
    assert [[client.id for client in group] for group in groups] == [[0, 6, 1, 4], [2, 3, 5]]


def test_fifty_clients_of_ten_clusters_form_five_fixed_groups() -> None:
    """FedHusky, Fig. 7: hybrid training never has more."""
    groups = fixed_groups([Client(i, 100) for i in range(50)], [i % 10 for i in range(50)])
    assert [len(group) for group in groups] == [10] * 5
    assert all({client.id % 10 for client in group} == set(range(10)) for group in groups)


def test_hybrid_trains_its_groups_in_parallel_and_waits_for_the_slowest() -> None:
    strategy = Hybrid(clusters="labels")
    _, records = play(strategy, compute=[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], clients=6, histograms=ONE_LABEL, horizon=33.0)
    assert records.note("clusters") == [0, 1, 0, 1, 0, 1]
    assert records.note("groups") == [[0, 1], [2, 3], [4, 5]]
    assert records.commits["time"].tolist() == [11.0, 22.0, 33.0]
    first = {
        (c, g): (s, f)
        for c, g, s, f in zip(*(records.visits[k][:6].tolist() for k in ("client", "group", "started", "finished")))
    }
    assert {group for _, group in first} == {0, 1, 2}
    for group, members in enumerate([[0, 1], [2, 3], [4, 5]]):
        (start_a, end_a), (start_b, end_b) = sorted(first[client, group] for client in members)
        assert (start_a, end_a) == (0.0, start_b)
        assert end_b == sum(client + 1 for client in members)


def test_a_lost_client_is_skipped_and_costs_its_expected_time() -> None:
    windows = [[(0.0, 99.0)], [], [(0.0, 99.0)], [(0.0, 99.0)]]

    _, records = play(
        Sequential(commit="round"),
        compute=5.0,
        availability={"kind": "windows", "windows": windows},
        horizon=20.0,
    )
    assert records.commits["time"].tolist() == [20.0]
    assert np.bincount(records.visits["client"][records.visits["outcome"] == "done"]).tolist() == [1, 0, 1, 1]


def test_strategies_are_typed_against_the_federation_interface() -> None:
    for strategy in (FedAvg(), Sequential(), Hybrid()):
        assert strategy.run.__annotations__["fed"] in ("Federation", Federation)
