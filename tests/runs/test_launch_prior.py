"""Label counts reported by clients, with or without noise, and the prior of the logit-adjusted loss that they give."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fedtempo.errors import ConfigError
from fedtempo.runs.config import Config, parse
from fedtempo.runs.run import run
from fedtempo.runs.world import build_world, training_of
from tests.precision import DOUBLE

TABLES: dict[str, Any] = {
    "run": {"max_commits": 2},
    "data": {
        "clients": 6,
        "examples_per_client": 30,
        "test_examples": 50,
        "tell_labels": True,
        "partition": {"kind": "long-tail", "imbalance": 0.1, "clients_share": 1.0},
    },
    "model": {"network": "logistic"},
    "training": {"loss": "logit-adjusted", "lr": 0.1},
    "fleet": {"compute": {"unit": "s/visit", "speed": 1.0}, "link": "none", "estimates": "exact"},
    "strategy": {"name": "fedavg"},
    "executor": {"kind": "inline"},
}


def config(**changes: Any) -> Config:
    return parse(TABLES).with_changes({key.replace("__", "."): value for key, value in changes.items()})


def test_the_prior_is_the_share_of_reported_labels_with_a_pseudo_count() -> None:
    world = build_world(config())
    counts = np.sum(world.histograms, axis=0)
    assert counts[0] > counts[9] > 0
    assert [client.label_histogram for client in world.clients] == [tuple(histogram) for histogram in world.histograms]
    for pseudo_count in (1.0, 0.0, 2.5):
        prior = training_of(config(data__label_pseudo_count=pseudo_count), world).prior
        np.testing.assert_allclose(prior, (counts + pseudo_count) / (counts + pseudo_count).sum(), rtol=1e-12)


def test_a_configured_prior_is_used() -> None:
    given = (0.1,) * 10
    assert training_of(config(training__prior=given), build_world(config())).prior == given


def test_noise_follows_epsilon_and_is_added_to_every_reported_count() -> None:
    """Laplace noise of scale b has mean absolute value b; that of n draws has the deviation b / sqrt(n)."""
    noisy = config(
        data__label_noise_epsilon=0.05, data__clients=100, data__examples_per_client=10, data__partition="iid"
    )
    world = build_world(noisy)
    assert world.told is not None
    noise = (world.told - np.array(world.histograms)).ravel()
    scale, deviation = 1 / 0.05, 1 / 0.05 / len(noise) ** 0.5
    assert abs(np.abs(noise).mean() - scale) < 5 * deviation
    assert abs(noise.mean()) < 5 * 2**0.5 * deviation
    for client, reported in zip(world.clients, world.told):
        assert client.label_histogram == tuple(max(0, round(count)) for count in reported)
    counts = np.maximum(world.told.sum(axis=0), 0) + 1
    np.testing.assert_allclose(training_of(noisy, world).prior, counts / counts.sum(), rtol=1e-12)
    assert np.array_equal(build_world(noisy).told, world.told)
    assert not np.array_equal(build_world(noisy.with_changes({"run.seed": 2})).told, world.told)


def test_noise_changes_nothing_else_of_the_world() -> None:
    plain, noisy = build_world(config()), build_world(config(data__label_noise_epsilon=1.0))
    assert plain.histograms == noisy.histograms
    assert all(np.array_equal(a, b) for a, b in zip(plain.owned, noisy.owned))


def test_without_reported_labels_there_is_no_prior() -> None:
    silent = config(data__tell_labels=False)
    with pytest.raises(ConfigError, match=r"training.loss = 'logit-adjusted'.*data.tell_labels = true"):
        run(silent)
    plain = silent.with_changes({"training.loss": "cross-entropy"})
    world = build_world(plain)
    assert world.told is None
    assert training_of(plain, world) == plain.training
    with pytest.raises(ConfigError, match=r"data: label_noise_epsilon = 1.0: needs tell_labels = true"):
        config(data__tell_labels=False, data__label_noise_epsilon=1.0)


def test_a_run_trains_with_the_prior_and_records_it() -> None:
    adjusted = config(data__label_noise_epsilon=2.0)
    _, records, model = run(adjusted)
    assert records.facts["label_noise_epsilon"] == 2.0
    assert tuple(records.facts["label_prior"]) == training_of(adjusted, build_world(adjusted)).prior
    _, _, plain = run(config(training__loss="cross-entropy"))
    assert model is not None
    assert plain is not None
    assert not np.array_equal(model, plain)


@pytest.mark.usefixtures("double")
def test_with_equal_class_shares_the_adjusted_loss_is_cross_entropy() -> None:
    """Eq. 8 with a balanced prior adds the same number to all logits: the models agree up to rounding."""
    equal = config(training__prior=(1.0,) * 10)
    _, _, adjusted = run(equal)
    _, _, plain = run(config(training__loss="cross-entropy"))
    assert adjusted is not None
    assert plain is not None
    np.testing.assert_allclose(adjusted, plain, **DOUBLE)
