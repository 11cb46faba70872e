from __future__ import annotations

import math
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from fedtempo.errors import ConfigError
from fedtempo.fleet.compute import Compute, compute_from
from fedtempo.fleet.distributions import Uniform
from fedtempo.fleet.truncation import fluctuation
from fedtempo.fleet.variation import Factors, Variation


def rng(seed: int = 1) -> np.random.Generator:
    return np.random.default_rng(seed)


@pytest.mark.parametrize(
    ("unit", "expected"), [("s/visit", [2.0, 4.0]), ("s/example", [20.0, 400.0]), ("example/s", [5.0, 25.0])]
)
def test_speeds_are_converted_from_every_unit(unit: str, expected: list[float]) -> None:
    speed = Compute([2.0, 4.0], unit).build(2, rng())
    assert speed.mean_s([10, 100]).tolist() == expected
    assert [speed.client_mean_s(0, 10), speed.client_mean_s(1, 100)] == expected


def test_a_scalar_number_of_examples_applies_to_all_clients() -> None:
    speed = Compute({"kind": "uniform", "low": 1, "high": 10}, "s/visit").build(50, rng())
    assert speed.mean_s(100).shape == (50,)
    assert speed.mean_s(100).min() >= 1
    assert speed.mean_s(100).max() <= 10


@pytest.mark.parametrize("speed", [0, [1, 0], [1, -2]])
def test_a_speed_of_zero_is_an_error(speed: object) -> None:
    with pytest.raises((ConfigError, ValidationError), match=r"must be positive and finite|greater than or equal"):
        Compute(speed, "s/visit").build(2, rng())


def test_a_unit_is_required() -> None:
    with pytest.raises(ValueError, match=r"compute: unit: Field required"):
        compute_from({"speed": 3})


def test_flat_and_nested_tables_are_equivalent() -> None:
    nested = compute_from({"unit": "s/visit", "speed": {"kind": "uniform", "low": 1.0, "high": 10.0}, "variation": 0.2})
    flat = compute_from({"unit": "s/visit", "kind": "uniform", "low": 1.0, "high": 10.0, "variation": 0.2})
    assert nested == flat == Compute(Uniform(1.0, 10.0), "s/visit", 0.2)


def test_variation_and_fluctuation_exclude_each_other() -> None:
    with pytest.raises(ValidationError, match="set one of them"):
        Compute(1.0, "s/visit", variation=0.1, fluctuation=0.1)


def test_without_variation_factors_are_exactly_one_and_nothing_is_drawn() -> None:
    generator = rng()
    before = generator.bit_generator.state
    factors = Factors(Compute(1.0, "s/visit").build(1, rng()).variation, 1, lambda _: generator)
    assert [factors.next(0) for _ in range(5)] == [1.0] * 5
    assert generator.bit_generator.state == before


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_variation_has_the_configured_deviation(seed: int) -> None:
    factors = Factors(Compute(1.0, "s/visit", variation=0.2).build(1, rng()).variation, 1, lambda _: rng(seed))
    n = 20_000
    values = np.array([factors.next(0) for _ in range(n)])
    assert values.min() >= 0
    # Truncation at five deviations below the mean is negligible: mean 1, deviation 0.2, standard error 0.2/sqrt(2n).
    assert abs(values.mean() - 1) < 5 * 0.2 / math.sqrt(n)
    assert abs(values.std() - 0.2) < 5 * 0.2 / math.sqrt(2 * n)


@pytest.mark.parametrize(("unit", "inverse"), [("s/visit", False), ("s/example", False), ("example/s", True)])
def test_fluctuation_applies_to_the_configured_quantity(unit: str, inverse: bool) -> None:
    factors = Factors(Compute(1.0, unit, fluctuation=0.2).build(1, rng()).variation, 1, lambda _: rng())
    values = np.array([factors.next(0) for _ in range(10_000)])
    quantity = 1 / values if inverse else values
    assert quantity.min() >= 0.8 * (1 - 1e-12)
    assert quantity.max() <= 1.2 * (1 + 1e-12)
    _, std = fluctuation(1.0, 0.2).moments()
    assert abs(quantity.mean() - 1) < 5 * std / 100
    assert quantity.std() == pytest.approx(std, rel=0.05)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 1200), st.booleans())
def test_factors_do_not_depend_on_block_sizes(seed: int, count: int, reciprocal: bool) -> None:
    law = fluctuation(1.0, 0.3)
    factors = Factors(Variation(law, reciprocal), 1, lambda _: rng(seed))
    drawn = law.draw(rng(seed), count)
    assert [factors.next(0) for _ in range(count)] == (1 / drawn if reciprocal else drawn).tolist()


@settings(max_examples=25, deadline=None)
@given(st.integers(2, 700), st.data())
def test_factors_do_not_depend_on_other_clients(n_clients: int, data: st.DataObject) -> None:
    law = fluctuation(1.0, 0.3)
    factors = Factors(Variation(law), n_clients, rng)
    factors_of: dict[int, list[float]] = {}
    for _ in range(data.draw(st.integers(1, 40))):
        start = data.draw(st.integers(0, n_clients - 1))
        for client in range(start, min(n_clients, start + data.draw(st.sampled_from((1, 2, 20, 700))))):
            factors_of.setdefault(client, []).append(factors.next(client))
    for client, values in factors_of.items():
        assert values == law.draw(rng(client), len(values)).tolist()


def test_blocks_are_small_for_many_clients_and_large_for_few() -> None:
    sizes: list[int] = []

    def counted(client: int) -> np.random.Generator:
        sizes.append(client)
        return rng(client)

    few, many = (Factors(Variation(fluctuation(1.0, 0.3)), n, counted) for n in (1, 200_000))
    for factors, most in ((few, 12), (many, 128)):
        sizes.clear()
        for _ in range(2000):
            factors.next(0)
        assert most - 5 <= len(sizes) <= most


def test_drawing_a_factor_takes_well_under_a_microsecond() -> None:
    factors = Factors(Variation.of_time(0.2), 1, lambda _: rng())
    n = 50_000
    best = math.inf
    for _ in range(5):
        begin = time.process_time()
        for _ in range(n):
            factors.next(0)
        best = min(best, time.process_time() - begin)
    assert best / n < 2e-6  # about 0.2e-6 on an idle machine
