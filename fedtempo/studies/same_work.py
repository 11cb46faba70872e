"""Whether the visits of competitors do work that the fleet's times account for: else a comparison names a false winner.

Seconds per visit are those of one visit as configured, whatever it does; seconds per example do not know the network.
Within a run, visits that a strategy asks to do more or less than configured take proportionally longer or shorter.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import combinations
from typing import Any

from fedtempo.errors import ConfigError
from fedtempo.learning.training import Training
from fedtempo.runs.config import NOT_OF_NETWORK

Tables = Mapping[str, Any]

_TRAINING = ("epochs", "steps", "batch_size", "accumulate", "full_batch")
_EXAMPLES = ("clients", "examples_per_client")
_NOT_WORK = (*NOT_OF_NETWORK, "dropout")
_HELD = (1, 2, 7, 10, 25, 100, 333, 1000)
"""Numbers of examples per client at which two settings are compared."""


def check_same_work(competitors: Iterable[tuple[str, Tables]]) -> None:
    """Raises ConfigError where two competitors do different work in the same time.

    competitors: labels and complete configurations, as tables. Times are the same if `fleet.compute` has the same speed
    and unit; with `fleet.compute.ignore_work` they are meant to be.
    """
    distinct: list[tuple[str, Tables]] = []
    for label, tables in competitors:
        if not any(_parts(tables) == _parts(other) for _, other in distinct):
            distinct.append((label, tables))
    for (label, tables), (other_label, other) in combinations(distinct, 2):
        compute, others = (_table(_table(each, "fleet"), "compute") for each in (tables, other))
        same = all(compute.get(key) == others.get(key) for key in ("speed", "unit"))
        if not same or (compute.get("ignore_work") and others.get("ignore_work")):
            continue
        if difference := _difference(tables, other, compute.get("unit")):
            names = label if label == other_label else f"{label} and {other_label}"
            per_visit = "" if difference.startswith("model.") else "unit = 's/example', or "
            raise ConfigError(
                f"{names}: visits take the same time (fleet.compute, {compute.get('unit')}) for different work "
                f"({difference}); set fleet.compute: {per_visit}a speed for each competitor, or ignore_work = true if "
                "times do not depend on the work"
            )


def _parts(tables: Tables) -> tuple[Any, ...]:
    """Return the settings that decide the work and the time of a visit."""
    training, data = (_table(tables, name) for name in ("training", "data"))
    kept = [training.get(key) for key in _TRAINING], [data.get(key) for key in _EXAMPLES]
    return *kept, _network(tables), _table(tables, "fleet").get("compute")


def _difference(tables: Tables, other: Tables, unit: Any) -> str:
    """Describe the settings that cause different work, with their values; empty if there are none."""
    found: list[str] = []
    if unit == "s/visit":
        if _examples_of(tables) != _examples_of(other):
            found += _changed("training", _TRAINING, tables, other)
        found += _changed("data", _EXAMPLES, tables, other)
    network, others = _network(tables), _network(other)
    found += _changed("model", sorted(network.keys() | others.keys()), {"model": network}, {"model": others})
    return ", ".join(found)


def _changed(section: str, keys: Iterable[str], tables: Tables, other: Tables) -> list[str]:
    pairs = [(key, _table(tables, section).get(key), _table(other, section).get(key)) for key in keys]
    return [f"{section}.{key} = {_said(a)} and {_said(b)}" for key, a, b in pairs if a != b]


def _said(value: Any) -> str:
    return "none" if value is None else repr(value)


def _network(tables: Tables) -> dict[str, Any]:
    return {key: value for key, value in _table(tables, "model").items() if key not in _NOT_WORK}


def _examples_of(tables: Tables) -> list[int] | None:
    """Return the examples that a visit trains on, by the number that a client holds; None if unknown."""
    given = {key: value for key, value in _table(tables, "training").items() if key in _TRAINING}
    try:
        training = Training(**given)
    except ValueError:  # a run's folder may come from anybody
        return None
    return [training.examples_per_visit(held) for held in _HELD]


def _table(tables: Tables, name: str) -> Tables:
    table = tables.get(name)
    return table if isinstance(table, Mapping) else {}
