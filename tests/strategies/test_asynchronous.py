"""FedAsync, FedBuff and FedProx: schedules, commits, and the cases in which they equal federated averaging."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedtempo.runs.config import parse
from fedtempo.runs.run import run
from fedtempo.strategies import FedAsync, FedBuff, FedProx
from fedtempo.strategies.changes import add_changes
from tests.precision import DOUBLE
from tests.runtime.world import play

SPEEDS = {"unit": "s/visit", "speed": {"kind": "uniform", "low": 1.0, "high": 5.0}}
TRAINED: dict[str, Any] = {
    "run": {"max_commits": 3},
    "data": {"clients": 4, "examples_per_client": 20, "test_examples": 50},
    "model": {"network": "logistic"},
    "training": {"lr": 0.1},
    "fleet": {"compute": {"unit": "s/visit", "speed": 2.0}, "link": "none", "estimates": "exact"},
    "executor": {"kind": "inline"},
}


def trained(name: str, server: Any = None, **fields: Any) -> tuple[np.ndarray, list[float]]:
    """Return the final model of a small run and the times of its commits."""
    _, records, model = run(parse({**TRAINED, "strategy": {"name": name, **fields}, "server": server or {}}))
    assert model is not None
    return model, records.commits["time"].tolist()


def test_fedasync_commits_when_a_client_finishes_and_restarts_it() -> None:
    _, records = play(FedAsync(), compute=[1.0, 2.0, 4.0], clients=3, horizon=4.0)
    assert records.commits["time"].tolist() == [1.0, 2.0, 2.0, 3.0, 4.0, 4.0, 4.0]
    visits = zip(*(records.visits[name].tolist() for name in ("client", "started", "base_version", "finished")))
    done = [visit for visit in visits if visit[3] > visit[1]]
    assert sorted(done) == [
        (0, 0.0, 0, 1.0),
        (0, 1.0, 1, 2.0),
        (0, 2.0, 3, 3.0),
        (0, 3.0, 4, 4.0),
        (1, 0.0, 0, 2.0),
        (1, 2.0, 3, 4.0),
        (2, 0.0, 0, 4.0),
    ]
    # If several end at the same time, the one that began first comes first.
    assert records.commits["staleness"].tolist() == [0, 1, 1, 0, 4, 2, 2]


@pytest.mark.parametrize("at_once", [1, 3, 8])
def test_clients_at_once_train_in_parallel_and_all_clients_take_turns(at_once: int) -> None:
    _, records = play(FedAsync(clients_at_once=at_once), compute=2.0, clients=8, horizon=800.0)
    assert records.commits["version"].size == 400 * at_once
    counts = np.bincount(records.visits["client"][records.visits["finished"] > records.visits["started"]], minlength=8)
    expected = 400 * at_once / 8
    assert np.abs(counts - expected).max() <= 5 * (400 * at_once / 8 * (7 / 8)) ** 0.5
    assert (counts == 400).all() or at_once < 8


def test_a_fedasync_update_loses_weight_with_each_missed_commit() -> None:
    assert [FedAsync(staleness="constant").freshness(x) for x in (0, 7)] == [1.0, 1.0]
    assert [FedAsync(staleness="polynomial").freshness(x) for x in (0, 3)] == [1.0, 0.5]
    assert [FedAsync(staleness="hinge").freshness(x) for x in (0, 4, 5)] == [1.0, 1.0, 1 / 11]


def test_fedbuff_commits_when_its_buffer_is_full() -> None:
    _, records = play(FedBuff(buffer=3), compute=[1.0, 2.0, 4.0], clients=3, horizon=8.0)
    # Ends at 1, 2, 2, 3, 4, 4, 4, 5, 6, 6, 7, 8, 8, 8: every third triggers a commit.
    assert records.commits["time"].tolist() == [2.0, 4.0, 6.0, 8.0]
    assert records.commits["staleness"].tolist() == [0, 1, 1, 1]


@pytest.mark.usefixtures("double")
def test_fedbuff_equals_fedavg_if_all_finish_together_and_fill_the_buffer() -> None:
    average, times = trained("fedavg")
    buffered, same_times = trained("fedbuff", buffer=4)
    assert times == same_times == [2.0, 4.0, 6.0]
    np.testing.assert_allclose(buffered, average, **DOUBLE)
    half, _ = trained("fedbuff", buffer=4, server_lr=0.5)
    assert np.abs(half - average).max() > 1e-3


def test_fedasync_of_one_client_at_full_weight_is_sequential_training() -> None:
    alone, _ = trained("fedasync", clients_at_once=1, alpha=1.0, proximal=0.0)
    same, _ = trained("fedasync", clients_at_once=1, alpha=1.0, proximal=0.0, staleness="constant")
    assert alone.tobytes() == same.tobytes()
    mixed, _ = trained("fedasync", clients_at_once=1, alpha=0.5, proximal=0.0)
    assert np.abs(mixed - alone).max() > 1e-3


def test_fedprox_is_fedavg_with_clients_held_near_the_global_model() -> None:
    average, times = trained("fedavg")
    free, same_times = trained("fedprox", mu=0.0)
    assert free.tobytes() == average.tobytes()
    assert times == same_times
    start, _ = trained("fedavg", {"optimizer": {"kind": "sgd", "lr": 1e-9}})
    held, _ = trained("fedprox", mu=5.0)
    assert np.linalg.norm(held - start) < 0.8 * np.linalg.norm(average - start)


def test_a_fedprox_round_without_clients_costs_its_expected_time() -> None:
    windows = [[(10.0, 1000.0)]] * 4
    availability = {"kind": "windows", "windows": windows}
    _, records = play(FedProx(), compute=4.0, availability=availability, horizon=20.0)
    assert records.commits["time"].tolist() == [16.0, 20.0]


@pytest.mark.parametrize("strategy", [FedAsync(clients_at_once=3), FedBuff(clients_at_once=3, buffer=2)], ids=str)
def test_lost_visits_cost_their_expected_time_and_the_others_continue(strategy: Any) -> None:
    windows = [[], *[[(0.0, 50.0), (100.0, 1000.0)]] * 5]
    availability = {"kind": "windows", "windows": windows}
    _, records = play(strategy, compute=SPEEDS, clients=6, availability=availability, horizon=200.0, link="none")
    away = (records.commits["time"] > 50.0) & (records.commits["time"] < 100.0)
    assert not away.any()
    assert (records.commits["time"] > 100.0).sum() > 20
    assert records.visits["number"].size < 3 * 200


@given(
    changes=st.lists(
        st.tuples(st.floats(-9, 9), st.floats(-9, 9), st.floats(0, 2)),
        min_size=1,
        max_size=8,
    )
)
def test_buffered_changes_are_added_up(changes: list[tuple[float, float, float]]) -> None:
    model = np.array([1.0, -2.0])
    starts, ends = ([np.array([change[i], -change[i]]) for change in changes] for i in (0, 1))
    weights = [change[2] for change in changes]
    stepped = add_changes(model, starts=starts, ends=ends, weights=[w / len(weights) for w in weights])
    deltas = [end - start for start, end in zip(starts, ends)]
    expected = model + sum(weight * delta for weight, delta in zip(weights, deltas)) / len(weights)
    np.testing.assert_allclose(stepped, expected, atol=1e-9)
