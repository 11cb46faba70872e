"""Uploaded examples on which the network could not be trained are rejected."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fedtempo.deploy.live.bounds import BadUpdate
from fedtempo.deploy.live.uploads import ExampleForm


def computes(x: np.ndarray[Any, Any]) -> object:
    """Compute as a network that knows ten symbols."""
    return np.zeros(10)[x]


def form(largest: float, dtype: str = "float32") -> ExampleForm:
    return ExampleForm((2,), np.dtype(dtype), largest, computes)


@pytest.mark.parametrize(("largest", "most"), [(1.0, 100.0), (5.0, 500.0), (0.0, 100.0)])
def test_numbers_may_be_100_times_as_large_as_the_servers(largest: float, most: float) -> None:
    for sign in (1, -1):
        assert form(largest).read(np.array([[0, sign * most]], "float32"))[0, 1] == sign * most
        with pytest.raises(BadUpdate, match=rf"contain {most * 1.01:.3g}; .* at most 100 times as much is accepted"):
            form(largest).read(np.array([[0, sign * most * 1.01]], "float32"))


@pytest.mark.parametrize("symbol", [10, 10**6])
def test_symbols_that_the_network_does_not_know_are_rejected(symbol: int) -> None:
    assert form(0.0, "int64").read(np.array([[0, 9]])).tolist() == [[0, 9]]
    with pytest.raises(BadUpdate, match="the network cannot compute with its examples: index"):
        form(0.0, "int64").read(np.array([[0, symbol]]))


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e39])
def test_values_that_are_not_finite_are_rejected(value: float) -> None:
    with pytest.raises(BadUpdate, match="values that are not finite"):
        form(1.0).read(np.array([[0.0, value]]))
