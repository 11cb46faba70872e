"""Utilities, confidence bounds and Oort's planning, as properties that hold for any fleet."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedtempo.strategies.planning import oort
from fedtempo.strategies.planning.bandits import aggregate_choice, confidence_bounds, screen
from fedtempo.strategies.planning.utility import closeness, decimal, exempt, penalised, time_factor

values = st.lists(st.floats(0, 1e6), min_size=1, max_size=30)


@given(times=values, limit=st.floats(0.1, 1e6), exponent=st.floats(0, 5))
def test_only_clients_slower_than_the_limit_are_penalised(times: list[float], limit: float, exponent: float) -> None:
    factor = time_factor(times, limit, exponent)
    for seconds, f in zip(times, factor):
        assert f == 1 if seconds <= limit else f == pytest.approx((limit / seconds) ** exponent)
    assert (time_factor(times, math.inf, exponent) == 1).all()


@given(distances=values, percent=st.integers(0, 100))
def test_the_most_useful_clients_are_exempt_from_the_penalty(distances: list[float], percent: int) -> None:
    ids = np.arange(len(distances))
    useful = closeness(distances)
    spared = exempt(useful, percent, ids)
    assert len(spared) == -(-percent * len(ids) // 100)
    utility = penalised(useful, np.full(len(ids), 10.0), 5.0, exponent=1.0, exempt_percent=percent, ids=ids)
    for client in ids:
        assert utility[client] == useful[client] * (1 if client in spared else 0.5)
        assert client in spared or all(useful[client] <= useful[other] for other in spared)


def test_decimals_are_exact() -> None:
    assert (1 - 0.7) * 10 != 3
    assert (1 - decimal(0.7)) * 10 == 3


@given(tried=st.lists(st.integers(0, 5), min_size=1, max_size=20), wanted=st.integers(1, 20), t=st.integers(1, 100))
def test_untried_clients_are_screened_first_then_rarely_tried_ones(tried: list[int], wanted: int, t: int) -> None:
    ids = np.arange(len(tried))
    kept = screen(confidence_bounds(np.ones(len(tried)), tried, t, 1.0), ids, 2.0, wanted)
    assert len(kept) == min(2 * wanted, len(tried))
    if t > 1:
        assert [tried[i] for i in kept] == sorted(tried)[: len(kept)]


@given(
    utility=st.lists(st.floats(0, 1), min_size=1, max_size=20),
    wanted=st.integers(1, 25),
    random_share=st.floats(0, 1),
    seed=st.integers(0, 100),
)
def test_the_requested_number_of_models_is_aggregated_including_the_best(
    utility: list[float], wanted: int, random_share: float, seed: int
) -> None:
    ids = np.arange(len(utility))
    chosen = aggregate_choice(utility, ids, wanted, random_share, np.random.default_rng(seed))
    assert len(chosen) == min(wanted, len(utility))
    assert (np.diff(chosen) > 0).all()
    n_best = math.ceil((1 - decimal(random_share)) * wanted)
    best = sorted(ids, key=lambda i: (-utility[i], i))[:n_best]
    assert set(best) <= set(chosen.tolist())


@given(
    asked=st.integers(1, 30),
    exploration=st.floats(0, 1),
    explored=st.integers(0, 40),
    unexplored=st.integers(0, 40),
)
def test_at_least_the_requested_number_of_clients_is_chosen_if_enough_are_free(
    asked: int, exploration: float, explored: int, unexplored: int
) -> None:
    exploit, explore, more = oort.counts(asked, exploration, explored, unexplored)
    assert exploit + explore + more == min(asked, explored + unexplored)
    assert min(exploit, explore, more) >= 0
    assert exploit + more <= explored
    assert explore <= unexplored


@given(score=st.lists(st.floats(0, 10), min_size=1, max_size=20), data=st.data())
def test_exploitation_draws_distinct_clients_above_the_cutoff(score: list[float], data: st.DataObject) -> None:
    k = data.draw(st.integers(1, len(score)))
    ids = np.arange(len(score))
    chosen = oort.exploitation(score, ids, k, 0.95, np.random.default_rng(data.draw(st.integers(0, 99))))
    assert len(set(chosen.tolist())) == k
    kth = sorted(score, reverse=True)[k - 1]
    assert all(score[i] >= 0.95 * kth for i in chosen)


def test_clients_are_drawn_with_their_chances() -> None:
    """10,000 draws of one: each count has at most the deviation of a binomial, sqrt(10,000 / 4) = 50."""
    rng = np.random.default_rng(0)
    chances = oort.speed_chances([1.0, 2.0, 4.0])
    drawn = np.bincount([oort.draw(chances, 1, rng)[0] for _ in range(10_000)], minlength=3)
    assert np.abs(drawn - 10_000 * chances).max() < 5 * 50
    assert set(oort.draw([0.0, 1.0, 0.0], 2, rng).tolist()) > {1}
    assert oort.speed_chances([0.0, 0.0]).tolist() == [0.5, 0.5]


def test_a_pool_whose_clients_were_all_picked_too_often_stays_usable() -> None:
    assert oort.allowed([5, 0, 3, 3], None, 2).tolist() == [0, 1, 2, 3]
    assert oort.allowed([5, 0, 2, 3], 3, 2).tolist() == [1, 2]
    assert oort.allowed([5, 0, 4, 3], 3, 3).tolist() == [1, 2, 3]
    assert oort.allowed([5, 6, 4, 3], 3, 9).tolist() == [0, 1, 2, 3]
