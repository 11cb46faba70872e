"""FedCS's greedy selection, compared with the paper's pseudo code, and the imbalance of classes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from fedtempo.strategies.planning.deadline import imbalances, select_within_deadline

seconds = st.integers(1, 40).map(float)


def literally(
    download: list[float], compute: list[float], upload: list[float], deadline: float, counts: Any, before: Any
) -> list[int]:
    """Select as in Hybrid-FL, Algorithm 1, line by line; times are integers, so that sums are exact."""
    candidates, chosen, theta = list(range(len(download))), [], 0.0
    while candidates:
        distribution = max((download[k] for k in chosen), default=0.0)

        def t_inc(k: int, distribution: float = distribution, theta: float = theta) -> float:
            return max(distribution, download[k]) - distribution + upload[k] + max(0.0, compute[k] - theta)

        def f(k: int, t_inc: Any = t_inc) -> float:
            if counts is None:
                return float(t_inc(k))
            classes = np.sum([counts[i] for i in [*chosen, k]], axis=0) + before
            mean = classes.mean()
            return float(t_inc(k) * (classes.var() / mean if mean else 0.0))

        x = min(candidates, key=lambda k: (round(f(k), 9), k))
        equals = [k for k in candidates if round(f(k), 9) == round(f(x), 9) != 0]
        assume(len({t_inc(k) for k in equals}) <= 1)  # else rounding decides between equal products
        candidates.remove(x)
        if distribution + theta + t_inc(x) < deadline:
            theta += upload[x] + max(0.0, compute[x] - theta)
            chosen.append(x)
    return chosen


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.tuples(seconds, seconds, seconds, st.tuples(*[st.integers(0, 9)] * 3)), max_size=8),
    st.integers(1, 200).map(float),
    st.booleans(),
)
def test_the_selection_equals_that_of_the_papers_pseudo_code(
    clients: list[tuple[float, float, float, tuple[int, ...]]], deadline: float, balance: bool
) -> None:
    download, compute, upload = ([client[i] for client in clients] for i in range(3))
    counts = np.array([client[3] for client in clients]).reshape(-1, 3) if balance else None
    before = np.array([3, 0, 5])
    selection = select_within_deadline(
        download, compute, upload, deadline, class_counts=counts, class_counts_before=before if balance else None
    )
    assert selection.chosen == literally(download, compute, upload, deadline, counts, before)
    assert sorted(step.candidate for step in selection.steps) == list(range(len(clients)))
    assert selection.round_s < deadline
    free = selection.distribution_s
    for candidate, begin, end in selection.uploads:
        assert begin == max(free, selection.distribution_s + compute[candidate])
        assert end == (free := begin + upload[candidate])
    assert selection.round_s == (free if selection.chosen else 0.0)


def test_a_client_that_computes_while_another_sends_adds_no_time() -> None:
    selection = select_within_deadline([2.0, 2.0], [5.0, 9.0], [4.0, 4.0], 100.0)
    assert selection.uploads == ((0, 7.0, 11.0), (1, 11.0, 15.0))
    assert [step.increase_s for step in selection.steps] == [11.0, 4.0]
    assert selection.window_s == 5.0


def test_a_round_that_would_end_at_the_deadline_is_rejected() -> None:
    assert select_within_deadline([2.0], [5.0], [4.0], 11.0).chosen == []
    assert select_within_deadline([2.0], [5.0], [4.0], 11.0 + 1e-9).chosen == [0]


def test_selection_by_balance_continues_after_a_rejected_candidate() -> None:
    counts = [[10, 0], [0, 10], [10, 0]]
    selection = select_within_deadline([1.0, 1.0, 1.0], [1.0, 30.0, 2.0], [5.0, 5.0, 5.0], 30.0, class_counts=counts)
    assert [(step.candidate, step.accepted) for step in selection.steps] == [(0, True), (1, False), (2, True)]


def test_the_printed_imbalance_grows_with_the_amount_of_data_but_the_true_one_does_not() -> None:
    counts = np.array([[1, 3], [10, 30], [5, 5], [0, 0]])
    assert imbalances(counts).tolist() == [0.5, 5.0, 0.0, 0.0]
    assert imbalances(counts, "true").tolist() == [0.5, 0.5, 0.0, 0.0]
    many = np.array([123_456_789, 0, 987_654_321])
    assert imbalances(many) == pytest.approx(many.var() / many.mean(), rel=1e-12)


def test_the_true_coefficient_of_variation_is_independent_of_scale_but_the_printed_one_is_not() -> None:
    counts = np.array([3, 1, 2, 7])
    assert imbalances(10 * counts, "true") == pytest.approx(imbalances(counts, "true"), rel=1e-15)
    assert imbalances(10 * counts) == pytest.approx(10 * imbalances(counts), rel=1e-15)
