"""Keyed generators have the same seeds as with NumPy's SeedSequence."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedtempo.fleet.truncation import open_uniforms
from fedtempo.runtime.keyed import ClientGenerators, _words, keyed_generator, seed_states


@given(st.lists(st.lists(st.integers(0, 2**32 - 1), min_size=9, max_size=9), min_size=1, max_size=5), st.integers(1, 9))
def test_batched_states_equal_those_of_numpy(sequences: list[list[int]], length: int) -> None:
    entropy = [np.array([words[i] for words in sequences], dtype=np.uint32) for i in range(length)]
    expected = [np.random.SeedSequence(words[:length]).generate_state(4, np.uint64) for words in sequences]
    assert seed_states(entropy).tolist() == np.array(expected).tolist()


@pytest.mark.parametrize("seed", [0, 1, 2**32 - 1, 2**32, 2**70])
def test_a_generator_equals_that_of_numpy_for_its_keys(seed: int) -> None:
    plain = np.random.default_rng(np.random.SeedSequence([seed, *_words("compute"), 5, 2**40]))
    assert keyed_generator(seed, "compute", 5, 2**40).random(3).tolist() == plain.random(3).tolist()


@pytest.mark.parametrize("seed", [0, 7, 2**40])
def test_generators_of_clients_are_keyed_generators(seed: int) -> None:
    generators = ClientGenerators(seed, 40)
    for purpose in ("compute", "links"):
        for client in (39, 0, 3):
            expected = keyed_generator(seed, purpose, client)
            generator = generators(purpose, client)
            assert generator.random(4).tolist() == expected.random(4).tolist()
            assert generator.integers(10, size=5).tolist() == expected.integers(10, size=5).tolist()


def test_open_uniforms_equal_the_integers_drawn_by_numpy() -> None:
    drawn = (np.random.default_rng(3).integers(0, 2**52, 50) + 0.5) / 2**52
    assert open_uniforms(np.random.default_rng(3), 50).tolist() == drawn.tolist()
