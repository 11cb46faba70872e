from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import pdist

from fedtempo.errors import ConfigError
from fedtempo.strategies.planning.clusters import (
    cluster_clients,
    even_out_speeds,
    gap_statistic,
    points_from_gram,
    points_from_vectors,
    rebalance,
)


def planted(seed: int, sizes: list[int], spread: float = 0.3, dimensions: int = 2000) -> tuple[np.ndarray, np.ndarray]:
    """Return vectors around equidistant centres, like models of one-label clients, and their true labels."""
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    centres = 0.5 * rng.normal(size=(len(sizes), dimensions))
    return centres[labels] + spread * rng.normal(size=(len(labels), dimensions)), labels


def same_partition(a: np.ndarray, b: np.ndarray) -> bool:
    return len(set(zip(a.tolist(), b.tolist()))) == len(set(a.tolist())) == len(set(b.tolist()))


def test_coordinates_keep_distances_and_follow_principal_axes() -> None:
    vectors, _ = planted(0, [4, 3, 5])
    points = points_from_gram(vectors @ vectors.T)
    assert points.shape == (12, 11)
    np.testing.assert_allclose(pdist(points), pdist(vectors), rtol=1e-9)
    np.testing.assert_allclose(points.sum(axis=0), 0, atol=1e-9)
    scatter = points.T @ points
    np.testing.assert_allclose(scatter, np.diag(np.diag(scatter)), atol=1e-8 * scatter.max())
    assert (np.diff(np.diag(scatter)) <= 0).all()


def test_ten_planted_clusters_are_found() -> None:
    vectors, labels = planted(1, [5] * 10)
    found = cluster_clients(points_from_gram(vectors @ vectors.T), None, np.random.default_rng(0))
    assert found.n_clusters == 10
    assert (found.gap.by_largest_jump, found.gap.by_first_maximum) == (10, 10)
    assert found.gap.by_standard_error == 1  # why the authors' rule is not the default
    assert same_partition(found.labels, labels)
    assert (found.sizes_before, found.moves) == ((5,) * 10, ())
    assert found.gap.gap.shape == found.gap.standard_error.shape == (25,)


def test_well_separated_clusters_satisfy_every_rule() -> None:
    rng = np.random.default_rng(2)
    points = np.concatenate([rng.normal(centre, 0.1, (12, 2)) for centre in ((0, 0), (5, 0), (0, 9))])
    gap = gap_statistic(points, 6, np.random.default_rng(3))
    assert (gap.by_standard_error, gap.by_first_maximum, gap.by_largest_jump) == (3, 3, 3)


def test_uniform_points_form_one_cluster_by_the_authors_rule() -> None:
    points = np.random.default_rng(4).uniform(size=(60, 3))
    assert gap_statistic(points, 5, np.random.default_rng(5)).by_standard_error == 1


def test_a_given_number_of_clusters_gets_even_sizes() -> None:
    vectors, labels = planted(6, [6, 5, 3])
    found = cluster_clients(points_from_gram(vectors @ vectors.T), 3, np.random.default_rng(0))
    assert found.gap is None
    assert sorted(found.sizes_before) == [3, 5, 6]
    assert sorted(np.bincount(found.labels).tolist()) == [4, 5, 5]
    assert len(found.moves) == 1
    assert (found.labels != labels).any()


def test_the_same_generator_gives_the_same_clusters() -> None:
    vectors, _ = planted(7, [4] * 4, spread=1.5)
    points = points_from_gram(vectors @ vectors.T)
    first, again = (cluster_clients(points, 4, np.random.default_rng(1)) for _ in range(2))
    np.testing.assert_array_equal(first.labels, again.labels)


@pytest.mark.filterwarnings("ignore:Number of distinct clusters")
def test_equal_models_do_not_break_the_gap_statistic() -> None:
    points = np.repeat(np.eye(4), 4, axis=0)
    assert gap_statistic(points, 8, np.random.default_rng(0)).by_largest_jump == 4


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 6), st.integers(0, 20))
def test_rebalanced_sizes_differ_by_at_most_one(seed: int, n_clusters: int, extra: int) -> None:
    rng = np.random.default_rng(seed)
    n = n_clusters + extra
    labels = rng.integers(0, n_clusters, n)
    even, moves = rebalance(rng.normal(size=(n, 2)), labels, rng.normal(size=(n_clusters, 2)), n_clusters)
    sizes = np.bincount(even, minlength=n_clusters)
    assert set(sizes.tolist()) <= {n // n_clusters, -(-n // n_clusters)}
    for client, source, target, _ in moves:
        assert labels[client] == source
        labels[client] = target
    np.testing.assert_array_equal(labels, even)


@pytest.mark.parametrize(
    ("gram", "n_clusters", "message"),
    [
        (np.eye(3)[:2], 2, r"gram has shape \(2, 3\)"),
        (np.array([[1.0, np.nan], [np.nan, 1.0]]), 1, "finite and symmetric"),
        (np.eye(4), 5, "n_clusters = 5 must lie in 1..4"),
        (np.eye(3), None, "3 clients are too few"),
    ],
)
def test_invalid_arguments_are_named(gram: np.ndarray, n_clusters: int | None, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        cluster_clients(points_from_gram(gram), n_clusters, np.random.default_rng(0))


def test_arguments_of_the_gap_statistic_are_checked() -> None:
    with pytest.raises(ConfigError, match="max_clusters = 1"):
        gap_statistic(np.eye(4), 1, np.random.default_rng(0))
    with pytest.raises(ConfigError, match="n_references = 1"):
        gap_statistic(np.eye(4), 2, np.random.default_rng(0), n_references=1)


def test_points_of_short_vectors_have_the_same_inner_products() -> None:
    vectors = np.random.default_rng(5).random((40, 4))
    short, long = points_from_vectors(vectors), points_from_gram(vectors @ vectors.T)
    assert short.shape == (40, 4)
    assert np.allclose(short @ short.T, long @ long.T, atol=1e-12)
    assert np.allclose(short.mean(axis=0), 0)
    assert (np.diff((short**2).sum(axis=0)) <= 1e-12).all()


@given(seed=st.integers(0, 10_000), n_clusters=st.integers(1, 6), more=st.integers(0, 20))
@settings(deadline=None)
def test_speeds_are_evened_out_without_changing_sizes(seed: int, n_clusters: int, more: int) -> None:
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.arange(n_clusters + more) % n_clusters)
    points, speeds = rng.normal(size=(len(labels), 3)), 1 / rng.uniform(1, 10, len(labels))
    even = even_out_speeds(points, labels, speeds)
    assert np.bincount(even).tolist() == np.bincount(labels).tolist()
    before, after = np.bincount(labels, speeds), np.bincount(even, speeds)
    assert np.abs(after - after.mean()).sum() <= np.abs(before - before.mean()).sum() + 1e-9
    if (even != labels).any():
        assert np.abs(after - after.mean()).sum() < np.abs(before - before.mean()).sum()


def test_the_slowest_cluster_of_the_paper_approaches_the_mean() -> None:
    shares: list[list[float]] = []
    for seed in range(20):
        labels, speeds = np.repeat(np.arange(10), 5), 1 / np.random.default_rng(seed).uniform(1, 10, 50)
        even = even_out_speeds(np.eye(10)[labels], labels, speeds)
        totals = (np.bincount(labels, speeds), np.bincount(even, speeds))
        shares.append([float(total.min() / total.mean()) for total in totals])
    before, after = np.median(shares, axis=0)
    assert before < 0.7
    assert after >= 0.95


def test_clients_with_the_most_similar_data_are_swapped() -> None:
    points = np.array([[0.0], [0.1], [1.0], [5.0], [5.1], [9.0]])
    labels, speeds = np.array([0, 0, 0, 1, 1, 1]), np.array([1.0, 1.0, 1.0, 2.0, 2.0, 2.0])
    assert even_out_speeds(points, labels, speeds).tolist() == [0, 0, 1, 0, 1, 1]


def test_even_clusters_are_not_changed() -> None:
    labels = np.array([0, 1, 0, 1])
    assert even_out_speeds(np.zeros((4, 1)), labels, [1.0, 1.0, 2.0, 2.0]).tolist() == labels.tolist()
