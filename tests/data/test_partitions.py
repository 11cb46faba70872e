from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from fedtempo.data.dealing import fill, histogram
from fedtempo.data.dirichlet import Dirichlet, ExtendedDirichlet, OneLabel
from fedtempo.data.partitions import PARTITIONS, ByOwner, Classes, Iid, LongTail, Partition
from fedtempo.errors import ConfigError


def rng(seed: int = 1) -> np.random.Generator:
    return np.random.default_rng(seed)


def balanced(n_classes: int, per_class: int) -> np.ndarray:
    return rng(99).permutation(np.repeat(np.arange(n_classes), per_class))


SPECS: list[Any] = [
    Iid(),
    OneLabel(),
    Dirichlet(0.0),
    Dirichlet(0.1),
    Dirichlet(10.0),
    LongTail(),
    LongTail(imbalance=0.05, order="own"),
    Classes(mean=2.0),
    Classes(mean=4.0, std=math.inf),
]
DEALS_ALL: list[Any] = [
    Iid(),
    OneLabel(),
    Dirichlet(0.1),
    Dirichlet(0.5, by="class", min_examples=2),
    ExtendedDirichlet(2, 10.0, min_examples=2),
    ByOwner(),
]


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(SPECS),
    st.lists(st.integers(1, 60), min_size=2, max_size=10),
    st.integers(1, 12),
    st.integers(1, 30) | st.tuples(st.integers(1, 10), st.integers(10, 30)),
    st.integers(0, 2**32),
)
def test_each_example_is_dealt_at_most_once_and_sizes_are_as_requested(
    spec: Partition, class_sizes: list[int], n_clients: int, sizes: Any, seed: int
) -> None:
    n_classes = len(class_sizes)
    labels = rng(seed).permutation(np.repeat(np.arange(n_classes), class_sizes))
    if isinstance(spec, Classes):
        spec = Classes(mean=min(spec.mean, n_classes), std=spec.std)
    if isinstance(sizes, int):
        match spec:
            case Iid() | Dirichlet(alpha=0.1 | 10.0):
                possible = n_clients * sizes <= len(labels)
            case OneLabel() | Dirichlet():
                clients_of = np.bincount(np.arange(n_clients) % n_classes, minlength=n_classes)
                possible = bool((clients_of * sizes <= class_sizes).all())
            case _:
                possible = None
    else:
        possible = None
    try:
        parts = spec.assign(labels, n_classes, n_clients, sizes, rng(seed))
    except ConfigError:
        assert not possible
        return
    assert possible is not False
    assert len(parts) == n_clients
    for part in parts:
        assert part.dtype == np.int64
        assert (np.diff(part) > 0).all()
        low, high = (sizes, sizes) if isinstance(sizes, int) else sizes
        assert low <= len(part) <= high
    every = np.concatenate(parts)
    assert len(np.unique(every)) == len(every)
    assert every.min() >= 0
    assert every.max() < len(labels)
    again = spec.assign(labels, n_classes, n_clients, sizes, rng(seed))
    assert all(np.array_equal(a, b) for a, b in zip(parts, again, strict=True))


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(DEALS_ALL), st.integers(1, 9), st.integers(0, 2**32))
def test_without_sizes_every_example_is_dealt_exactly_once(spec: Partition, n_clients: int, seed: int) -> None:
    labels = balanced(4, 40)
    owners = rng(seed).integers(n_clients, size=160)
    if isinstance(spec, ByOwner):
        n_clients = len(np.unique(owners))
    elif isinstance(spec, OneLabel):
        n_clients += 4  # with fewer clients than labels, some labels belong to no client
    elif isinstance(spec, ExtendedDirichlet):
        n_clients += 1
    parts = spec.assign(labels, 4, n_clients, None, rng(seed), owners)
    assert sorted(np.concatenate(parts).tolist()) == list(range(160))


@pytest.mark.parametrize("spec", [Iid(), Dirichlet(1.0), Dirichlet(10.0)], ids=str)
def test_requesting_too_many_examples_is_rejected_with_both_numbers(spec: Partition) -> None:
    with pytest.raises(ConfigError, match="10 clients need 110 examples, but the data have 100"):
        spec.assign(balanced(5, 20), 5, 10, 11, rng())
    assert sum(map(len, spec.assign(balanced(5, 20), 5, 10, 10, rng()))) == 100


@pytest.mark.parametrize("sizes", [0, -1, (0, 3), (4, 3)])
def test_invalid_sizes_are_rejected(sizes: Any) -> None:
    with pytest.raises(ConfigError, match="examples_per_client = "):
        Iid().assign(balanced(5, 20), 5, 2, sizes, rng())


def mean_largest_share(spec: Partition, seed: int) -> float:
    labels = balanced(10, 1000)
    parts = spec.assign(labels, 10, 50, 100, rng(seed))
    return float(np.mean([histogram(labels, part, 10).max() / 100 for part in parts]))


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_alpha_sets_the_skew(seed: int) -> None:
    # Mean of the largest of ten Dirichlet shares, from 200,000 draws: 0.694 at alpha 0.1, 0.166 at alpha 10,
    # deviations 0.19 and 0.023; five standard errors over 50 clients, and 0.01 for rounding to 100 examples.
    assert mean_largest_share(Dirichlet(0.1), seed) == pytest.approx(0.694, abs=5 * 0.19 / math.sqrt(50) + 0.01)
    assert mean_largest_share(Dirichlet(10.0), seed) == pytest.approx(0.166, abs=5 * 0.023 / math.sqrt(50) + 0.01)
    assert mean_largest_share(Dirichlet(0.0), seed) == 1.0
    assert mean_largest_share(Dirichlet(1e6), seed) <= 0.12


def test_one_label_deals_only_available_examples() -> None:
    labels = balanced(10, 9)
    with pytest.raises(ConfigError, match="the 2 clients of label 0 need 10 examples, but the data have 9"):
        Dirichlet(0.0).assign(labels, 10, 20, 5, rng())
    parts = OneLabel().assign(labels, 10, 20, None, rng())
    assert [len(part) for part in parts] == [5] * 10 + [4] * 10
    assert all(set(labels[part]) == {client % 10} for client, part in enumerate(parts))


def test_dirichlet_by_class_redraws_until_the_smallest_client_has_enough() -> None:
    labels = balanced(10, 200)
    parts = Dirichlet(0.3, by="class", min_examples=15).assign(labels, 10, 40, None, rng())
    assert min(map(len, parts)) >= 15
    with pytest.raises(ConfigError, match=r"in 2 redraws the smallest client had at most \d+ examples"):
        Dirichlet(0.01, by="class", max_redraws=2).assign(labels, 10, 40, None, rng())
    with pytest.raises(ConfigError, match="40 clients need 2400 examples, but the data have 2000"):
        Dirichlet(0.3, by="class", min_examples=60).assign(labels, 10, 40, None, rng())


@pytest.mark.parametrize("spec", [Dirichlet(0.3, by="class"), ExtendedDirichlet(2, 1.0)], ids=str)
def test_partitions_that_draw_sizes_reject_configured_sizes(spec: Partition) -> None:
    with pytest.raises(ConfigError, match="draws the sizes itself"):
        spec.assign(balanced(10, 20), 10, 5, 10, rng())


def test_extended_dirichlet_deals_only_the_drawn_classes() -> None:
    labels = balanced(10, 500)
    parts = ExtendedDirichlet(2, 10.0).assign(labels, 10, 50, None, rng())
    held = np.array([np.count_nonzero(histogram(labels, part, 10)) for part in parts])
    assert held.max() == 2
    assert held.mean() > 1.9
    assert min(map(len, parts)) >= 10


def test_a_share_of_clients_is_long_tailed_and_the_others_are_balanced() -> None:
    labels = balanced(10, 2000)
    parts = LongTail(imbalance=0.5, clients_share=0.5).assign(labels, 10, 20, 721, rng())
    counts = np.array([histogram(labels, part, 10) for part in parts])
    tails = (counts[:, 0] - counts[:, 9]) > 2
    assert tails.sum() == 10
    # From the published formula with 100 in the first class, which truncates; fedtempo rounds shares to the size.
    assert np.abs(counts[tails] - [100, 92, 85, 79, 73, 68, 62, 58, 54, 50]).max() <= 1
    assert np.ptp(counts[~tails], axis=1).max() <= 1


def test_long_tail_without_sizes_takes_the_largest_possible_size() -> None:
    labels = balanced(10, 100)
    parts = LongTail().assign(labels, 10, 10, None, rng())
    (size,) = {len(part) for part in parts}
    with pytest.raises(ConfigError, match="examples of class 0, but the data have 100"):
        LongTail().assign(labels, 10, 10, size + 1, rng())


def test_long_tails_in_separate_orders_leave_the_union_balanced() -> None:
    labels = balanced(10, 1000)
    shared = LongTail(0.1, clients_share=1.0).assign(labels, 10, 40, 50, rng())
    separate = LongTail(0.1, clients_share=1.0, order="own").assign(labels, 10, 40, 50, rng())
    spread = [np.ptp(sum(histogram(labels, part, 10) for part in parts)) for parts in (shared, separate)]
    assert spread[0] > 3 * spread[1]


def test_the_number_of_classes_of_a_client_follows_its_distribution() -> None:
    labels = balanced(10, 5000)
    parts = Classes(mean=2.0, std=0.7, share=True).assign(labels, 10, 1000, (100, 1000), rng())
    held = [np.count_nonzero(histogram(labels, part, 10)) for part in parts]
    assert np.bincount(held, minlength=11)[1:].tolist() == [225, 534, 225, 16, 0, 0, 0, 0, 0, 0]
    sizes = np.array([len(part) for part in parts])
    assert sizes.min() >= 100
    assert sizes.max() <= 1000
    assert abs(sizes.mean() - 550) < 5 * 260 / math.sqrt(1000)
    assert all(len(np.unique(part)) == len(part) for part in parts)


def test_impossible_class_assignments_are_rejected() -> None:
    labels = balanced(10, 50)
    with pytest.raises(ConfigError, match="needs examples_per_client"):
        Classes(mean=2.0).assign(labels, 10, 5, None, rng())
    with pytest.raises(ConfigError, match="mean = 20"):
        Classes(mean=20.0).assign(labels, 10, 5, 10, rng())
    with pytest.raises(ConfigError, match="set share = true"):
        Classes(mean=1.0, std=0.0).assign(labels, 10, 10, 50, rng())
    with pytest.raises(ConfigError, match="client 0 needs 60 examples"):
        Classes(mean=1.0, std=0.0, share=True).assign(labels, 10, 10, 60, rng())


def test_the_owner_partition_deals_each_client_its_own_examples() -> None:
    labels = balanced(3, 20)
    owners = np.repeat([7, 3, 5, 9], [30, 20, 9, 1])
    parts = ByOwner(min_examples=9).assign(labels, 3, 3, None, rng(), owners)
    assert [set(owners[part]) for part in parts] == [{3}, {5}, {7}]
    assert [len(part) for part in parts] == [20, 9, 30]
    parts = ByOwner().assign(labels, 3, 2, 15, rng(), owners)
    assert [set(owners[part]) for part in parts] == [{3}, {7}]
    assert [len(part) for part in parts] == [15, 15]
    with pytest.raises(ConfigError, match="only 3 owners have 9 or more examples"):
        ByOwner(min_examples=9).assign(labels, 3, 4, None, rng(), owners)
    with pytest.raises(ConfigError, match="name no owners of examples"):
        ByOwner().assign(labels, 3, 2, None, rng())


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.floats(0, 1), st.integers(0, 30)), min_size=1, max_size=12),
    st.floats(0, 1),
)
def test_fill_is_exact_and_takes_at_most_what_is_left(labels: list[tuple[float, int]], share: float) -> None:
    shares, left = np.array([s for s, _ in labels]), np.array([n for _, n in labels])
    size = int(share * left.sum())
    counts = fill(size, shares, left)
    assert counts.sum() == size
    assert (counts >= 0).all()
    assert (counts <= left).all()
    with pytest.raises(ValueError, match=rf"size = {left.sum() + 1}: only {left.sum()} examples are left"):
        fill(int(left.sum()) + 1, shares, left)


def test_fill_renormalises_over_the_remaining_labels() -> None:
    assert fill(10, [0.8, 0.1, 0.1], np.array([2, 50, 50])).tolist() == [2, 4, 4]
    assert fill(4, [1.0, 0.0, 0.0], np.array([0, 30, 10])).tolist() == [0, 3, 1]


def test_partitions_are_built_by_name() -> None:
    assert set(PARTITIONS) == {"by-owner", "classes", "dirichlet", "ex-dirichlet", "iid", "long-tail", "one-label"}
    with pytest.raises(ValidationError, match="alpha"):
        Dirichlet(alpha=-0.1)
    with pytest.raises(ValidationError, match="must be positive"):
        Dirichlet(0.0, by="class")
    with pytest.raises(ValidationError, match="std"):
        Classes(mean=1.0, std=math.nan)
