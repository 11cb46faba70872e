import subprocess
import sys

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedtempo.learning.aggregation import average, mix

SIZE = 70_001


def vectors(count, size=SIZE, dtype=np.float32):
    return [np.random.default_rng(seed).standard_normal(size).astype(dtype) for seed in range(count)]


@given(st.lists(st.integers(0, 100), min_size=1, max_size=6).filter(any))
def test_averages_equal_those_of_numpy(weights):
    models = vectors(len(weights), 50, np.float64)
    np.testing.assert_allclose(
        average(models, weights), np.average(models, axis=0, weights=weights), rtol=1e-12, atol=1e-15
    )


def test_sums_run_in_the_given_order_with_the_same_bits_for_arrays_and_tensors():
    models, weights = vectors(5), [1, 2, 3, 4, 10]
    plain = models[0] * (1 / 20)
    for model, weight in zip(models[1:], weights[1:]):
        plain = plain + model * (weight / 20)
    assert np.array_equal(average(models, weights), plain)
    assert np.array_equal(average([torch.from_numpy(model) for model in models], weights).numpy(), plain)


def test_arguments_are_not_modified():
    models = vectors(3)
    for model in models:
        model.flags.writeable = False
    for result in (
        average(models),
        mix(models[0], models[1], 0.25),
        average(models[1:], [1, 2]),
    ):
        assert result.flags.writeable
        assert result.dtype == np.float32


def test_double_precision_weights_do_not_widen_the_result():
    models = vectors(2, 10)
    assert average(models, list(np.array([0.5, 1.5]))).dtype == np.float32
    assert mix(models[0], models[1], np.float64(0.3)).dtype == np.float32


def test_empty_vectors_can_be_averaged():
    empty = np.empty(0, dtype=np.float32)
    assert average([empty, empty], [1, 2]).shape == mix(empty, empty, 0.5).shape == (0,)


def test_invalid_models_or_weights_are_rejected():
    with pytest.raises(ValueError, match="0 vectors"):
        average([])
    with pytest.raises(ValueError, match="2 vectors and 1 weights"):
        average(vectors(2, 3), [1])
    with pytest.raises(ValueError, match="sum to 0"):
        average(vectors(2, 3), [0, 0])


def test_a_model_of_weight_zero_takes_no_part():
    a, b = vectors(2, 10)
    assert np.array_equal(average([a, b], [3, 0]), a)


def test_pytorch_is_not_imported():
    code = (
        "import sys; import fedtempo.learning.aggregation, fedtempo.learning.training, fedtempo.learning.networks, "
        "fedtempo.runtime.executors.none; assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
