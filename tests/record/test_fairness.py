"""Statistics over clients, by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fedtempo.record.client_measures import STATISTICS
from fedtempo.record.fairness import spread

VALUES, EXAMPLES = np.array([0.6, 0.2, 0.8, 0.4]), np.array([1, 1, 5, 1])


def test_every_client_counts_the_same() -> None:
    found = spread(VALUES, EXAMPLES)
    assert found["mean"] == pytest.approx(0.5)
    assert found["std"] == pytest.approx(math.sqrt((0.09 + 0.01 + 0.01 + 0.09) / 4))
    assert found["worst-tenth"] == found["worst"] == 0.2
    assert found["best"] == 0.8
    assert found["jain"] == pytest.approx(2.0**2 / (4 * (0.04 + 0.16 + 0.36 + 0.64)))


def test_every_example_counts_the_same() -> None:
    """Eight examples: 0.2, 0.4, 0.6 and five times 0.8; the worst tenth is 0.8 examples of the worst client."""
    found = spread(VALUES, EXAMPLES)
    assert found["mean-weighted"] == pytest.approx(5.2 / 8)
    assert found["std-weighted"] == pytest.approx(math.sqrt((0.2025 + 0.0625 + 0.0025 + 5 * 0.0225) / 8))
    assert found["worst-tenth-weighted"] == pytest.approx(0.2)
    assert found["jain-weighted"] == pytest.approx(5.2**2 / (8 * (0.04 + 0.16 + 0.36 + 5 * 0.64)))


def test_the_worst_tenth_may_hold_part_of_a_client() -> None:
    """Of 25 clients with 1/25 to 25/25: the worst two, and half of the third."""
    found = spread(np.arange(25, 0, -1) / 25, np.ones(25, dtype=np.int64))
    assert found["worst-tenth"] == pytest.approx((0.04 + 0.08 + 0.12 / 2) / 2.5)
    alike = spread(np.full(4, 0.3), np.array([1, 2, 3, 4]))
    assert alike["jain"] == alike["jain-weighted"] == pytest.approx(1.0)
    assert spread(np.array([0.0, 0.0, 0.0, 1.0]), np.ones(4, dtype=np.int64))["jain"] == pytest.approx(1 / 4)


def test_clients_without_a_value_do_not_count() -> None:
    values, examples = np.array([0.6, math.nan, 0.2, 0.9]), np.array([2, 4, 2, 0])
    assert spread(values, examples) == pytest.approx(spread(np.array([0.6, 0.2]), np.array([2, 2])))
    nothing = spread(np.array([math.nan]), np.array([3]))
    assert nothing.keys() == STATISTICS.keys()
    assert all(map(math.isnan, nothing.values()))


def test_jains_index_needs_values_of_zero_or_more() -> None:
    ones = np.ones(2, dtype=np.int64)
    assert math.isnan(spread(np.array([-0.5, 0.5]), ones)["jain"])
    assert math.isnan(spread(np.zeros(2), ones)["jain"])
    assert spread(np.array([-0.5, 0.5]), ones)["mean"] == 0.0
