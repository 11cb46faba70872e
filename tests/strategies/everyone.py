"""Tests of the engine with every strategy: `make test` runs them with some, `make test-long` with the others.

What every strategy must do itself is in `test_every_strategy.py`, and `make test` checks it for all.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import pytest

from fedtempo.strategies import STRATEGIES

SELECTED = frozenset(
    {
        "async-memory",  # memory of each client, updates at arrival
        "centralized",  # training at the server
        "csgd",  # models handed over between phases of a visit
        "ditto",  # models of the clients' own, numbers for a procedure
        "fadas",  # models of its own at the server
        "fch",  # losses of the clients, comparisons of models
        "fedavg",  # rounds
        "fedbuff",  # updates as they come
        "fedcs",  # deadlines
        "fedhusky",  # groups
        "hybrid-fl",  # uploads of examples
        "power-of-choice",  # visits that measure only
        "psfl",  # chains of clients
        "refl",  # forecasts of presence, visits that outlast a round
        "scaffold",  # own procedure, vectors beside the model
    }
)
"""Strategies that together use all that the engine offers. Each is here for what the comment says."""


def cases(names: Iterable[str] = STRATEGIES, selected: Collection[str] = SELECTED) -> list[Any]:
    """Return parameters of a test. `make test` runs those that are selected, and those that are no strategy."""
    later = STRATEGIES.keys() - selected
    return [pytest.param(name, marks=pytest.mark.long) if name in later else name for name in sorted(names)]


def with_every_strategy(without: Collection[str] = (), selected: Collection[str] = SELECTED) -> pytest.MarkDecorator:
    """Run a test with every strategy but those `without`; its argument is called name."""
    return pytest.mark.parametrize("name", cases(STRATEGIES.keys() - set(without), selected))
