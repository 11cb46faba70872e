"""FedCS on the clock: the paper's cell, the selection of clients, and their times of sending."""

from __future__ import annotations

import numpy as np
import pytest

from fedtempo.federation import Federation
from fedtempo.fleet.links import Lte
from fedtempo.learning.training import Training
from fedtempo.runtime.executors.none import NoTraining
from fedtempo.strategies.fedcs import FedCS
from fedtempo.strategies.planning.deadline import select_within_deadline
from fedtempo.strategies.tdma_round import draw_candidates
from tests.runtime.world import play

PAPER = {
    "clients": 1000,
    "compute": {"unit": "example/s", "speed": {"kind": "uniform", "low": 10.0, "high": 100.0}},
    "link": {"kind": "lte"},
    "size_bytes": 18_300_000,
    "training": Training(epochs=5),
}
RATES = {"kind": "rates", "download_bps": [8e6, 4e6, 2e6, 1e6], "upload_bps": [8e6, 4e6, 2e6, 1e6]}


def test_the_cell_has_the_published_rates() -> None:
    lte = Lte()
    distance_m = (np.arange(100_000) + 0.5) / 100_000 * lte.radius_m
    rates_mbps = lte.rates(distance_m) / 1e6
    assert rates_mbps.mean() == pytest.approx(1.41, abs=0.005)
    assert rates_mbps.max() == pytest.approx(8.64, abs=1e-9)


def test_the_papers_cell_serves_about_the_published_number_of_clients_per_round() -> None:
    per_round, lengths = [], []
    for seed in range(1, 9):
        sizes = np.random.default_rng(seed).integers(100, 1001, 1000).tolist()
        _, records = play(FedCS(), examples=sizes, horizon=5000.0, seed=seed, **PAPER)  # type: ignore[arg-type]
        ends = records.commits["time"]
        lengths.extend(np.diff(ends, prepend=0.0))
        done = records.visits["group"][records.visits["outcome"] == "done"]
        per_round.extend(np.bincount(done, minlength=len(ends))[: len(ends)])
    assert np.mean(per_round) == pytest.approx(7.7, abs=0.3)
    assert max(lengths) < 180.0


def test_clients_receive_together_train_in_parallel_and_send_one_after_another() -> None:
    chosen = select_within_deadline([1.0, 2.0, 4.0, 8.0], [3.0] * 4, [1.0, 2.0, 4.0, 8.0], 60.0)
    _, records = play(FedCS(candidates=1.0, deadline_s=60.0), compute=3.0, link=RATES, max_commits=1)
    visits = {name: records.visits[name].tolist() for name in ("client", "received", "computed", "finished", "group")}
    assert visits["client"] == chosen.chosen == [0, 1, 2, 3]
    assert visits["received"] == [8.0] * 4
    assert visits["computed"] == [11.0] * 4
    assert visits["finished"] == [end for _, _, end in chosen.uploads] == [12.0, 14.0, 18.0, 26.0]
    assert visits["group"] == [0] * 4
    assert records.commits["time"].tolist() == [26.0]
    assert records.facts["bytes"] == {"down": 1_000_000, "up": 4_000_000, "relay": 0}


def test_a_slow_client_that_would_miss_the_deadline_is_left_out() -> None:
    _, records = play(FedCS(candidates=1.0, deadline_s=26.0), compute=3.0, link=RATES, horizon=14.0)
    assert records.visits["client"].tolist() == [0, 1, 2]
    assert records.commits["time"].tolist() == [4.0 + 3.0 + 1.0 + 2.0 + 4.0]


def test_a_round_without_suitable_clients_lasts_until_its_deadline() -> None:
    asked: list[int] = []
    candidates = np.array([draw_candidates_of(number) for number in range(20)])
    _, records = play(FedCS(candidates=0.25, deadline_s=12.0), compute=3.0, link=RATES, horizon=60.0)
    now = 0.0
    for (candidate,) in candidates:
        visit_s = 3.0 + 2 * [1.0, 2.0, 4.0, 8.0][candidate]
        now += visit_s if visit_s < 12.0 else 12.0
        if visit_s < 12.0 and now <= 60.0:
            asked.append(candidate)
    done = records.visits["outcome"] == "done"
    assert records.visits["client"][done].tolist() == asked
    assert 3 in candidates[: len(asked)]


def draw_candidates_of(number: int) -> list[int]:
    drawn: list[int] = []

    async def script(fed: Federation) -> None:
        drawn.extend(client.id for client in draw_candidates(fed, 0.25, number))

    play(script)
    return drawn


def test_the_number_of_candidates_is_rounded_up_but_not_for_rounding_errors() -> None:
    sizes: list[int] = []

    async def script(fed: Federation) -> None:
        sizes.extend(len(draw_candidates(fed, share, 0)) for share in (0.07, 0.071, 0.001, 1.0))

    play(script, clients=100)
    assert sizes == [7, 8, 1, 100]


def test_a_late_client_is_waited_for_and_a_lost_one_is_skipped() -> None:
    windows = [[(0.0, 99.0)], [(0.0, 9.5)], [(0.0, 99.0)], [(0.0, 3.0)]]
    _, records = play(
        FedCS(candidates=1.0, deadline_s=60.0),
        compute=3.0,
        link=RATES,
        availability={"kind": "windows", "windows": windows},
        max_commits=1,
    )
    ends = dict(zip(records.visits["client"].tolist(), records.visits["finished"].tolist()))
    assert ends == {0: 12.0, 1: 9.5, 2: 16.0, 3: 3.0}
    assert records.commits["time"].tolist() == [16.0]


def test_a_round_without_responding_clients_costs_its_expected_time() -> None:
    windows = [[(20.0, 999.0)]] * 4
    _, records = play(
        FedCS(candidates=1.0, deadline_s=60.0),
        compute=3.0,
        link=RATES,
        availability={"kind": "windows", "windows": windows},
        horizon=60.0,
    )
    assert records.commits["time"].tolist() == [52.0]
    lost = records.visits["outcome"] == "unavailable"
    assert records.visits["queued"][lost].tolist() == [0.0] * 4


def test_fluctuations_change_the_ends_of_rounds_but_not_the_selection() -> None:
    rounds = []
    for share in (0.0, 0.4):
        compute = {"unit": "s/visit", "speed": 3.0, "fluctuation": share}
        link = {**RATES, "fluctuation": share}
        _, records = play(FedCS(candidates=1.0, deadline_s=60.0), compute=compute, link=link, horizon=400.0)
        n_rounds = len(records.commits["time"])
        assert records.visits["client"][: 4 * n_rounds].tolist() == [0, 1, 2, 3] * n_rounds
        rounds.append(np.diff(records.commits["time"]).round(9))
    steady, fluctuating = rounds
    assert set(steady.tolist()) == {26.0}
    assert len(set(fluctuating.tolist())) == len(fluctuating)
    assert 26.0 / 1.4 <= fluctuating.min() < fluctuating.max() <= 26.0 / 0.6


def test_step_sizes_decay_with_each_round(monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[float] = []
    train = NoTraining.train

    def watched(self: NoTraining, location: object, client: int, visit: int, training: Training) -> object:
        steps.append(training.lr)
        return train(self, location, client, visit, training)  # type: ignore[arg-type]

    monkeypatch.setattr(NoTraining, "train", watched)
    play(FedCS(candidates=1.0, lr_decay=0.5), compute=1.0, horizon=3.0, clients=1, training=Training(lr=0.8))
    assert steps[:3] == [0.8, 0.4, 0.2]
