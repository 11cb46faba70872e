"""Clusters for pipelined uploads: the hull compared with a quadratic programme, sizes, thresholds and frames."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import lsq_linear

from fedtempo.errors import ConfigError
from fedtempo.strategies.planning.pipeline import (
    cluster_by_time,
    largest_n_clusters,
    last_opening,
    lower_hull,
    openings,
    relaxed_sizes,
    utilisation,
)


def quadratic_programme(done: list[int]) -> np.ndarray:
    """Solve Problem 23: the most equal sizes with no more clients in the first k clusters than have finished by then.

    In the variables x_k = done_k minus the sum of the first k sizes it is a least-squares problem with bounds x >= 0.
    """
    k, counts = len(done), np.array(done, float)
    differences = np.eye(k) - np.eye(k, k=-1)
    distance = differences @ counts - counts[-1] / k
    answer = lsq_linear(differences[:, :-1], distance, bounds=(0, np.inf), method="bvls", tol=1e-14)
    assert answer.success, answer.message
    sizes: np.ndarray = differences @ (counts - np.append(answer.x, 0.0))
    return sizes


def test_example_one_of_the_paper_is_reproduced() -> None:
    hull = lower_hull([10, 46, 80, 100])
    assert hull == [(0, 0), (1, 10), (4, 100)]
    assert relaxed_sizes(hull) == [10, 30, 30, 30]


def test_the_hull_solves_the_quadratic_programme() -> None:
    rng = np.random.default_rng(0)
    for _ in range(200):
        k, total = int(rng.integers(2, 9)), int(rng.integers(1, 200))
        done = [*np.sort(rng.integers(0, total + 1, k - 1)).tolist(), total]
        relaxed = [float(size) for size in relaxed_sizes(lower_hull(done))]
        np.testing.assert_allclose(relaxed, quadratic_programme(done), atol=1e-9 * total, err_msg=str(done))


@given(
    st.lists(st.integers(1, 40), min_size=1, max_size=60),
    st.integers(1, 12),
    st.integers(0, 16),
    st.data(),
)
def test_clusters_partition_the_clients_and_all_finish_in_time(
    ticks: list[int], upload: int, extra: int, data: st.DataObject
) -> None:
    times = np.array(ticks) / 4
    upload_s, extra_s = upload / 4, extra / 4
    largest = largest_n_clusters(times, upload_s, extra_s)
    assert largest == (max(ticks) - min(ticks) + extra) // upload + 1
    n_clusters = data.draw(st.integers(1, min(largest, 12)))
    found = cluster_by_time(times, n_clusters, upload_s, extra_s)
    assert sorted(client for members in found.members for client in members) == list(range(len(times)))
    assert all(times[client] <= opens for members, opens in zip(found.members, found.opens_s) for client in members)
    assert np.diff(found.opens_s).tolist() == [upload_s] * (n_clusters - 1)
    assert found.opens_s[-1] == times.max() + extra_s
    ends = np.cumsum(found.sizes)
    assert (ends <= found.done).all()
    assert ends[-1] == len(times)
    slowest_first = [max((times[c], c) for c in members) for members in found.members if members]
    fastest_next = [min((times[c], c) for c in members) for members in found.members if members]
    assert all(slow < fast for slow, fast in zip(slowest_first, fastest_next[1:]))
    with pytest.raises(ConfigError, match=rf"n_clusters = {largest + 1}: .* is {largest}$"):
        cluster_by_time(times, largest + 1, upload_s, extra_s)


def test_rounding_errors_of_sums_do_not_decide_which_clients_finish_in_time() -> None:
    """0.1 * 3 is more than 0.3 in floating point, and 0.3 / 0.1 less than 3."""
    times = [0.1 * n for n in range(1, 5)]
    assert largest_n_clusters(times, 0.1) == 4
    assert cluster_by_time(times, 4, 0.1).members == ((0,), (1,), (2,), (3,))


def test_without_upload_times_any_number_of_clusters_is_feasible() -> None:
    assert largest_n_clusters([1.0, 2.0], 0.0) is None
    assert cluster_by_time([1.0, 2.0, 3.0, 4.0], 2, 0.0).sizes == (2, 2)


def test_frames_for_sampled_clients_open_as_soon_as_all_have_finished() -> None:
    times = [1.0, 2.0, 3.5, 6.0]
    assert last_opening(times, [[0], [1], [2]], 1.0) == 3.5
    assert last_opening(times, [[2], [3]], 4.0) == 7.5
    assert last_opening(times, [[0, 2]], 1.0) == 3.5
    assert last_opening(times, [[1], []], 1.0) == 3.0
    rng = np.random.default_rng(0)
    for _ in range(100):
        chosen = [rng.choice(4, rng.integers(1, 3), replace=False).tolist() for _ in range(3)]
        last = last_opening(times, chosen, 0.7)
        slacks = [o - max(times[c] for c in own) for o, own in zip(openings(last, 3, 0.7), chosen)]
        assert min(slacks) == pytest.approx(0, abs=1e-12)


def test_pipelining_multiplies_the_utilisation() -> None:
    """Eqs. 8, 9 and 19."""
    assert utilisation(1, 1.0, 4.0, 0.5) == pytest.approx(1 / 5.5)
    assert utilisation(4, 1.0, 4.0, 0.5) == pytest.approx(4 * utilisation(1, 1.0, 4.0, 0.5))
    assert utilisation(4, 1.0, 4.0, 0.5, 2.5) == pytest.approx(4 / 8)
    assert utilisation(2, 0.0, 0.0, 0.0) == 0.0
