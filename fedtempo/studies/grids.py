"""Grids of settings for a sweep: read from text, checked, every combination of them, and a name for each."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from fedtempo.errors import ConfigError, duplicate
from fedtempo.report.words import ABSENT
from fedtempo.runs.config import SECTIONS, assignment
from fedtempo.studies.tuning.trials import Changes, grid_points
from fedtempo.studies.tuning.trials import Grid as Grid

NO_GRID: Grid = MappingProxyType({})

_GIVEN_ELSEWHERE = {
    "run.seed": "give the seeds with seeds (--seeds)",
    "strategy.name": "give the strategies with strategies (--strategies)",
    **dict.fromkeys(
        ("run.target_accuracy", "run.target"),
        "all runs of a sweep aim at the same target, so that their times can be compared",
    ),
}
_WITHOUT_INFLUENCE = ("executor", "deploy", "compare")
_MOST = 100_000
"""Largest number of combinations."""

_LONGEST_NAME = 120
"""Characters of a run's folder name before its seed."""


class Competitor(NamedTuple):
    """A strategy with one setting of a grid. strategy: its name or label; point: values by key; label: for tables."""

    strategy: str
    point: Changes
    label: str

    @property
    def folder_name(self) -> str:
        """The label as part of a folder's name; ends with a hash if anything else had to be replaced or cut."""
        if not self.point:
            return self.label.replace(":", "-")
        plain = re.sub(r"[^A-Za-z0-9._=+-]+", "-", self.label.replace(" ", "_"))
        if plain == self.label.replace(" ", "_") and len(plain) <= _LONGEST_NAME:
            return plain
        return f"{plain[:_LONGEST_NAME]}-{hashlib.sha256(self.label.encode()).hexdigest()[:8]}"


def parse_grid(texts: Iterable[str], option: str = "--grid") -> dict[str, list[Any]]:
    """Return the grid of texts such as "training.lr=0.1,0.3": values by key. Raises ConfigError naming `option`."""
    grid: dict[str, list[Any]] = {}
    for text in texts:
        key, equals, values = text.partition("=")
        if not equals or not key.strip() or not values.strip():
            raise ConfigError(f"{option} {text}: write it as section.key=value,value")
        if key.strip() in grid:
            raise ConfigError(f"{option} {text}: {key.strip()} is given twice; list all its values once")
        grid[key.strip()] = parse_values(text, values, option)
    return grid


def parse_values(text: str, values: str, option: str) -> list[Any]:
    """Return the values of "0.1,0.3" or "{kind = 'iid'},by-label": TOML, or else strings."""
    parts = split_outside(values)
    if not all(part.strip() for part in parts):
        raise ConfigError(f"{option} {text}: a value is missing between two commas")
    return [assignment(f"x={part.strip()}")[1] for part in parts]


def split_outside(text: str, separator: str = ",") -> list[str]:
    """Split a text at the separators outside brackets and quotes."""
    parts, depth, quote = [""], 0, ""
    for letter in text:
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "\"'":
            quote = letter
        elif letter in "[{":
            depth += 1
        elif letter in "]}":
            depth -= 1
        if letter == separator and not quote and depth <= 0:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


def checked_grid(grid: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Return a grid as lists by key; whether keys and values suit a configuration is checked with its runs.

    Raises ConfigError for keys that a sweep cannot vary, and for keys without values or with equal ones.
    """
    checked: dict[str, list[Any]] = {}
    for key, values in grid.items():
        section = str(key).partition(".")[0]
        if key in _GIVEN_ELSEWHERE:
            raise ConfigError(f"grid {key}: {_GIVEN_ELSEWHERE[key]}")
        if section in _WITHOUT_INFLUENCE:
            sections = ", ".join(name for name in SECTIONS if name not in _WITHOUT_INFLUENCE)
            raise ConfigError(f"grid {key}: not a setting that results depend on; choose a key of {sections}")
        if isinstance(values, str | Mapping) or not isinstance(values, Sequence):
            raise ConfigError(f"grid {key} = {values!r}: give a list of values")
        if not values:
            raise ConfigError(f"grid {key}: give at least one value")
        if None in values:
            raise ConfigError(f"grid {key}: None is no value of a configuration; leave the key out instead")
        texts = [value_text(value) for value in values]
        if len(set(texts)) < len(texts):
            raise ConfigError(f"grid {key} = {', '.join(texts)}: duplicate value {duplicate(texts)}")
        checked[str(key)] = list(values)
    if (count := math.prod(map(len, checked.values()))) > _MOST:
        raise ConfigError(f"grid: {count:,} combinations; at most {_MOST:,} are possible")
    return checked


def competitors_of(labels: Sequence[str], grid: Grid = NO_GRID) -> list[Competitor]:
    """Return every strategy with every combination of the grid, strategy by strategy."""
    names = short_keys(list(grid))
    return [
        Competitor(label, point, " ".join([label, *(f"{names[key]}={value_text(v)}" for key, v in point.items())]))
        for label in labels
        for point in grid_points(grid)
    ]


def short_keys(keys: Sequence[str]) -> dict[str, str]:
    """Return the last part of each dotted key, with as many parts before it as distinguish it from the others."""
    parts = {key: key.split(".") for key in keys}
    short = {}
    for key, own in parts.items():
        for count in range(1, len(own) + 1):
            name = ".".join(own[-count:])
            if all(other == key or ".".join(others[-count:]) != name for other, others in parts.items()):
                break
        short[key] = name
    return short


def value_text(value: Any) -> str:
    """Return a value as a user would write it in a table: strings without quotes, the rest as TOML; a dash for None."""
    if value is None:
        return ABSENT
    if isinstance(value, str):
        return value
    from fedtempo.studies.tuning.report import toml_line

    return toml_line(value)
