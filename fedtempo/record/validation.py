"""Measures on the validation set: their names in records, and which of a run's measures decide when it ends.

A run with a validation set measures each version there as well as on the test set. Its patience, its target and its
best model go by the validation set; the test set is only reported.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from fedtempo.record.metric import Measure

PREFIX = "validation-"


def validation_name(name: str, measure: Measure) -> str:
    """Return what a measure on the validation set is called. name: that on the test set; measure: of the data."""
    return PREFIX + (measure.key if name == "accuracy" else name)


def facts_of(measure: Measure, metrics: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return what records say about a run's measures on the validation set, as about those of `run.metrics`.

    measure: of the data. metrics: the facts about `run.metrics`.
    """
    main = [
        {"name": "accuracy", "better": "higher", "as_share": measure.as_share},
        {"name": "loss", "better": "lower", "as_share": False},
    ]
    if measure.key == "r2":
        main.append({"name": "mae", "better": "lower", "as_share": False})
    known = {validation_name(fact["name"], measure): fact for fact in (*metrics, *main)}
    return [{**fact, "name": name} for name, fact in known.items()]


def named(values: Mapping[str, Any], measure: Measure) -> dict[str, float]:
    """Return the measures on the validation set that have one value, by their names in records.

    values: by name on the test set.
    """
    return {validation_name(name, measure): value for name, value in values.items() if isinstance(value, int | float)}


def deciding(values: Mapping[str, Any], measure: Measure, over_clients: Iterable[str]) -> dict[str, Any]:
    """Return the measures that decide when a run with a validation set ends, by name, also without the prefix.

    values: all of an evaluation, as recorded. over_clients: names of statistics over clients.
    """
    of_validation = {name: value for name, value in values.items() if name.startswith(PREFIX)}
    plain = {name.removeprefix(PREFIX): value for name, value in of_validation.items()}
    if measure.key in plain:
        plain["accuracy"] = plain[measure.key]
    return {**of_validation, **plain, **{name: values[name] for name in over_clients if name in values}}
