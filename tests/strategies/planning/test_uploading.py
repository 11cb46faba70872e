"""The choice of raw examples to send, compared with Algorithm 3 of Hybrid-FL taken literally."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from fedtempo.strategies.planning.uploading import choose_uploads

worlds = st.integers(1, 3).flatmap(
    lambda n_classes: st.lists(
        st.tuples(st.integers(1, 6), st.lists(st.integers(0, 4), min_size=n_classes, max_size=n_classes)),
        min_size=1,
        max_size=4,
    )
)


def algorithm_3(example_s: list[int], stock: np.ndarray, window: int) -> list[tuple[int, int]]:
    stock, sent, used, flag = stock.copy(), [], 0, True
    while flag:
        for label in range(stock.shape[1]):
            holders = [client for client in range(len(stock)) if stock[client, label]]
            if holders:
                fastest = min(holders, key=lambda client: (example_s[client], client))
                if used + example_s[fastest] <= window:
                    used += example_s[fastest]
                    stock[fastest, label] -= 1
                    sent.append((fastest, label))
                else:
                    flag = False
            if not stock.any():
                flag = False
    return sent


@settings(max_examples=150, deadline=None)
@given(worlds, st.integers(0, 60))
def test_class_by_class_equals_algorithm_3(clients: list[tuple[int, list[int]]], window: int) -> None:
    example_s, stock = [seconds for seconds, _ in clients], np.array([held for _, held in clients])
    uploads = choose_uploads(example_s, stock, window, "iid")
    sent = list(zip(uploads.clients.tolist(), uploads.labels.tolist(), strict=True))
    assert sent == algorithm_3(example_s, stock, window)
    assert uploads.seconds == sum(example_s[client] for client, _ in sent) <= window
    left = stock - uploads.counts(*stock.shape)
    assert left.min() >= 0
    assert uploads.complete == (not left.any())


@settings(max_examples=100, deadline=None)
@given(worlds, st.integers(0, 60))
def test_the_fastest_clients_send_everything_first(clients: list[tuple[int, list[int]]], window: int) -> None:
    example_s, stock = np.array([seconds for seconds, _ in clients]), np.array([held for _, held in clients])
    uploads = choose_uploads(example_s, stock, window, "max-throughput")
    speeds = example_s[uploads.clients].tolist()
    assert speeds == sorted(speeds)
    assert sum(speeds) <= window
    left = stock - uploads.counts(*stock.shape)
    if left.any():
        next_s = example_s[left.any(axis=1)].min()
        assert sum(speeds) + next_s > window
        assert not left[example_s < next_s].any()


def test_classes_stay_balanced_while_all_have_examples_left() -> None:
    stock = np.full((3, 4), 50)
    counts = choose_uploads([0.3, 0.1, 0.2], stock, 7.05, "iid").counts(3, 4)
    assert counts.sum(axis=0).max() - counts.sum(axis=0).min() <= 1
    assert counts.sum(axis=1).tolist() == [0, 70, 0]
