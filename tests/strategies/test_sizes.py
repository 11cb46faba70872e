"""How long strategies' files are: a reader should see a whole algorithm at once."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

from fedtempo.strategies import STRATEGIES

OLDER = {"csgd", "fch", "oort", "psfl"}
"""Strategies with parts that could not be shared with others."""


def limit(name: str) -> int:
    return 150 if name in OLDER else 100


@pytest.mark.parametrize("name", sorted(STRATEGIES))
def test_a_strategy_has_at_most_a_hundred_lines(name: str) -> None:
    """The whole file counts: docstrings, settings, imports and blank lines too."""
    source = inspect.getsourcefile(STRATEGIES[name])
    assert source is not None
    lines = len(Path(source).read_text(encoding="utf-8").splitlines())
    assert lines <= limit(name), f"{source}: {lines} lines; move planning to strategies/planning, or share a part"


def test_only_those_that_need_it_may_be_longer() -> None:
    for name in OLDER:
        source = inspect.getsourcefile(STRATEGIES[name])
        assert source is not None
        assert len(Path(source).read_text(encoding="utf-8").splitlines()) > 100, f"{name}: remove it from OLDER"
