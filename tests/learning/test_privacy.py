"""Private means: their noise, the influence of one client, and their privacy loss."""

from __future__ import annotations

import importlib.util
import sys

import numpy as np
import pytest

from fedtempo.errors import ConfigError
from fedtempo.learning.privacy import epsilon, private_mean

needs_accountant = pytest.mark.skipif(importlib.util.find_spec("dp_accounting") is None, reason="needs dp-accounting")


def mean(models, base, noise=0.5, clip=2.0, seed=1):
    rng = np.random.default_rng(seed)
    return private_mean(models, base, clip_norm=clip, noise_multiplier=noise, rng=rng)


def test_the_noise_is_normal_with_the_requested_deviation() -> None:
    size, clients = 200_000, 8
    base = np.full(size, 3.0, dtype=np.float32)
    noise = mean([base] * clients, base) - base
    deviation = 0.5 * 2.0 / clients
    assert noise.dtype == np.float32
    assert abs(noise.std() / deviation - 1) < 5 / np.sqrt(2 * size)
    assert abs(noise.mean()) < 5 * deviation / np.sqrt(size)
    assert abs((np.abs(noise) < deviation).mean() - 0.6827) < 0.01
    assert not np.array_equal(noise, mean([base] * clients, base, seed=2) - base)


def test_one_client_moves_the_mean_by_at_most_its_clipped_share() -> None:
    rng = np.random.default_rng(5)
    base, *models = rng.standard_normal((6, 50)).astype(np.float32)
    for scale in (1e-3, 1.0, 1e6):
        silent = mean([base, *models[1:]], base)  # the first client's change is zero
        moved = mean([base + np.float32(scale) * (models[0] - base), *models[1:]], base)
        assert np.linalg.norm(moved.astype(float) - silent) <= 2.0 / 5 * (1 + 1e-5)


def test_all_clients_have_the_same_weight_and_without_clipping_the_result_is_the_mean() -> None:
    rng = np.random.default_rng(5)
    base, *models = rng.standard_normal((6, 50)).astype(np.float32)
    result = mean(models, base, noise=1e-12, clip=1e6)
    np.testing.assert_allclose(result, np.mean(models, axis=0), rtol=1e-5, atol=1e-5)


@needs_accountant
def test_epsilon_agrees_with_the_accountants_of_opacus() -> None:
    import dp_accounting
    from dp_accounting.pld import PLDAccountant
    from dp_accounting.rdp import RdpAccountant

    for noise, rounds, delta in ((1.0, 1, 1e-5), (1.0, 10, 1e-5), (5.0, 200, 1e-6)):
        event = dp_accounting.SelfComposedDpEvent(dp_accounting.GaussianDpEvent(noise), rounds)
        ours = epsilon(noise, rounds, delta)
        numerical, bound = (
            accountant().compose(event).get_epsilon(delta) for accountant in (PLDAccountant, RdpAccountant)
        )
        assert ours == pytest.approx(numerical, rel=1e-3)
        assert ours <= bound
    assert epsilon(1.0, 0, 1e-5) == 0.0


def test_a_missing_accountant_is_reported_before_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "dp_accounting", None)
    with pytest.raises(ConfigError, match=r"server.privacy: needs the dp-accounting library: pip install"):
        epsilon(1.0, 3, 1e-5)
