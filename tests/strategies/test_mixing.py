"""Asynchronous mixing: weights by staleness, changes, models, and the correction for a cluster."""

from __future__ import annotations

import numpy as np
import pytest

from fedtempo.federation import Federation
from fedtempo.strategies.mixing import Mixer, add_change, add_corrected_change
from tests.runtime.world import play


def test_a_change_is_added_with_its_weight() -> None:
    w, start, trained = np.array([1.0, 1.0]), np.array([0.0, 2.0]), np.array([4.0, 0.0])
    assert add_change(w, start, trained, weight=0.5).tolist() == [3.0, 0.0]


def test_corrected_changes_follow_their_definition() -> None:
    """Compare to a loop: x = w; d = trained - x; w += b (d - m_c + mean m); m_c += r (d - m_c), r = 1 at first."""
    rng = np.random.default_rng(3)
    w = rng.normal(size=6)
    expected, memory = w.copy(), {}
    remembered: dict[int, np.ndarray] = {}
    total = None
    for step in range(40):
        cluster, weight = int(rng.integers(4)), float(rng.uniform(0.1, 1))
        change = rng.normal(size=6)
        first = cluster not in memory
        own = memory.setdefault(cluster, np.zeros(6))
        mean = sum(memory.values()) / len(memory)
        expected = expected + weight * (change - own + mean)
        memory[cluster] = own + (1.0 if first else 0.3) * (change - own)
        w, remembered[cluster], total = add_corrected_change(
            w,
            np.zeros(6),
            change,
            remembered=remembered.get(cluster),
            total=total,
            memories=len(remembered.keys() | {cluster}),
            weight=weight,
            memory=0.3,
        )
        np.testing.assert_allclose(w, expected, rtol=1e-12, atol=1e-12, err_msg=f"step {step}")
    np.testing.assert_allclose(total, sum(memory.values()), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("memory", [None, 0.5])
def test_the_gap_counts_commits_since_the_start_of_the_visit(memory: float | None) -> None:
    async def script(fed: Federation) -> None:
        mixer = Mixer(fed, [0, 1, 0, 1], gain=1.0, exponent=0.9, change=True, memory=memory)
        start = fed.model
        updates = await fed.train_all(fed.clients, start)
        for update in updates:
            await mixer.commit(start, update.model, update.client.id)
        fresh = await fed.train(fed.clients[0], fed.model)
        await mixer.commit(fresh.received, fresh.model, 0)

    _, records = play(script, server_s=0.5)
    assert records.commits["staleness"].tolist() == [0, 1, 2, 3, 0]
    assert records.commits["version"].tolist() == [1, 2, 3, 4, 5]


def test_weights_follow_the_gap_and_steady_ones_are_limited_by_the_mean_gap() -> None:
    async def script(fed: Federation) -> None:
        plain = Mixer(fed, [0], gain=2.0, exponent=1.0, change=True, memory=None)
        assert [plain._weight(gap) for gap in (0, 1, 3, 0)] == [1.0, 1.0, 0.5, 1.0]
        steady = Mixer(fed, [0], gain=2.0, exponent=1.0, change=True, memory=None, steady=True)
        weights = [steady._weight(gap) for gap in (0, 2, 7, 0, 1)]
        assert weights == pytest.approx([1.0, 2 / 3, 2 / 8, 2 / (1 + 9 / 4), 2 / (1 + 10 / 5)])

    play(script)
