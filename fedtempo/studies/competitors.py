"""The competitors and the seeds of a comparison. Nothing slow is imported, so that errors are reported at once."""

from __future__ import annotations

from collections.abc import Iterable

from fedtempo.errors import ConfigError, duplicate
from fedtempo.runs.config import Config
from fedtempo.strategies import STRATEGIES
from fedtempo.studies.same_work import check_same_work


def configured(base: Config, labels: Iterable[str]) -> list[Config]:
    """Return the configurations of competitors. Raises ConfigError if they do different work in the same time."""
    configs = [base.for_comparison(label) for label in labels]
    check_same_work((config.label, config.tables) for config in configs)
    return configs


def competitors(asked: str | Iterable[str], base: Config) -> list[str]:
    """Return the labels of competitors: strategies, [compare.<label>] tables, "all" for every strategy.

    asked: one text with commas, or several texts. "all" begins with the configuration's own strategy. Raises
    ConfigError if none is named, or one is named twice.
    """
    every = [base.strategy_name, *(name for name in STRATEGIES if name != base.strategy_name)]
    texts = asked.split(",") if isinstance(asked, str) else list(asked)
    names = [name.strip() for name in texts if name.strip()]
    named = [name for name in names if name != "all"]
    if not names:
        raise ConfigError("strategies: name at least one")
    if len(set(named)) < len(named):
        raise ConfigError(f"strategies {','.join(texts)}: duplicate name {duplicate(named)!r}")
    return list(dict.fromkeys(other for name in names for other in (every if name == "all" else [name])))


def whole_seeds(seeds: int | Iterable[int]) -> list[int]:
    """Return seeds as a list. Raises ConfigError if there are none, duplicates, or anything but whole numbers >= 0."""
    numbers = [seeds] if isinstance(seeds, int) else list(seeds)
    if not numbers:
        raise ConfigError("seeds: give at least one")
    for seed in numbers:
        if not isinstance(seed, int) or isinstance(seed, bool) or seed < 0:
            raise ConfigError(f"seeds = {numbers}: {seed!r} is not a whole number >= 0")
    if len(set(numbers)) < len(numbers):
        raise ConfigError(f"seeds {numbers}: duplicate seed {duplicate(numbers)}")
    return numbers
