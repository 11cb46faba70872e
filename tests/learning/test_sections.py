"""Sections of a flat vector, and averages that stay between their smallest and largest value."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from torch import nn

from fedtempo.errors import ConfigError
from fedtempo.learning.aggregation import average
from fedtempo.learning.examples import Examples
from fedtempo.learning.local import train
from fedtempo.learning.networks import Mlp, create
from fedtempo.learning.sections import Sections, within_hull
from fedtempo.learning.state import FlatModel
from fedtempo.learning.training import Training
from tests.strategies.nets import Moves, all_frozen, both, normalised


def test_trainable_parameters_come_first_then_statistics_then_frozen_parameters() -> None:
    module = both((1, 8, 8), 10)
    state = {name: value.clone() for name, value in module.state_dict().items()}
    model = FlatModel(module, (1, 8, 8))
    # weights and biases of the normalisation and the last layer; constant, mean, variance; the convolution
    assert model.sections == Sections(4 + 4 + 360 + 10, 3 + 4 + 4, 36 + 4, variances=((385, 389),))
    assert model.size == model.sections.size == model.n_parameters + 11
    assert model.vector[385:389].tolist() == [1.0] * 4
    assert (model.sections.moving, model.sections.fixed) == (389, 40)
    assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())
    weight = module.get_parameter("0.weight")
    model.vector[389:] = 3.0
    assert (weight == 3.0).all()


def test_a_network_without_statistics_or_frozen_parameters_is_all_trainable() -> None:
    model = FlatModel(create(Mlp((4,)), (8,), 3, 0), (8,))
    assert model.sections == Sections(model.size)
    assert (model.sections.moving, model.sections.fixed) == (model.size, 0)


def test_frozen_parameters_are_part_of_the_layout_that_clients_must_share() -> None:
    ways = []
    for frozen in ((), (0,), (4,)):
        module = nn.Sequential(*(nn.Linear(4, 4) for _ in range(5)))
        for layer in frozen:
            module[layer].requires_grad_(False)
        ways.append(FlatModel(module, (4,)).layout)
    assert len(set(ways)) == 3


def test_a_network_without_trainable_parameters_is_rejected() -> None:
    with pytest.raises(ConfigError, match=r"^model\.network: none of its 2 parameters has requires_grad = True$"):
        FlatModel(all_frozen((1, 8, 8), 10), (1, 8, 8))


@pytest.mark.parametrize("as_tensor", [False, True])
def test_changes_of_frozen_parameters_by_a_module_are_undone(as_tensor: bool) -> None:
    model = FlatModel(Moves(), (1, 8, 8))
    rng = np.random.default_rng(0)
    examples = Examples(rng.standard_normal((20, 1, 8, 8)).astype(np.float32), rng.integers(0, 10, 20), False)
    received = model.vector.clone()
    train(model, examples, Training(), rng, received if as_tensor else received.numpy())
    assert model.vector[-1] == 1.0
    assert not torch.equal(model.vector, received)


def test_a_negative_variance_is_detected() -> None:
    model = FlatModel(normalised((1, 8, 8), 10), (1, 8, 8))
    for vector in (model.vector.clone(), model.vector.numpy().copy()):
        assert not model.sections.has_negative_variance(vector)
        vector[-5] = -1.0  # a running mean
        assert not model.sections.has_negative_variance(vector)
        vector[-1] = -1e-9
        assert model.sections.has_negative_variance(vector)


@given(
    arrays.arrays(np.float32, st.tuples(st.integers(1, 6), st.integers(0, 5)), elements=st.floats(0, 2**20, width=32)),
    st.data(),
)
def test_averages_stay_between_the_smallest_and_largest_value_and_keep_equal_values(
    vectors: np.ndarray, data: st.DataObject
) -> None:
    weights = data.draw(st.lists(st.floats(1e-3, 1e3), min_size=len(vectors), max_size=len(vectors)))
    vectors = np.concatenate([vectors, np.full((len(vectors), 1), np.float32(1 / 3))], axis=1)
    mean = within_hull(list(vectors), lambda models: average(models, weights))
    assert (mean >= vectors.min(axis=0)).all()
    assert (mean <= vectors.max(axis=0)).all()
    assert mean.dtype == np.float32
    assert mean[-1] == np.float32(1 / 3)
