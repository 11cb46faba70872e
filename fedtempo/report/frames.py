"""A run's records as pandas frames. pandas is imported where a frame is asked for, and is an extra of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fedtempo.errors import ConfigError
from fedtempo.record.measures import busy_ratios, participation
from fedtempo.record.metric import NUMBERS, measure_of
from fedtempo.record.run import Records, Table
from fedtempo.report.series import visit_seconds

if TYPE_CHECKING:
    from pandas import DataFrame

_MAY_BE_NULL = frozenset({"group"})
"""Columns of whole numbers in which a visit may have none."""


def frame(columns: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> DataFrame:
    """A frame of columns by name, or of rows. Raises ConfigError where pandas is not installed."""
    try:
        from pandas import DataFrame
    except ImportError as error:
        raise ConfigError(
            "pandas is not installed, and tables come as its frames: pip install 'fedtempo[pandas]' "
            "(a result's records hold the same as NumPy arrays)"
        ) from error
    return DataFrame(columns)


def joined(parts: Sequence[tuple[Mapping[str, Any], DataFrame]]) -> DataFrame:
    """Frames one below the other, each with columns before its own that say what it is of."""
    frame({})  # says what is missing where pandas is
    from pandas import concat

    labelled = []
    for what, part in parts:
        for position, (name, value) in enumerate(what.items()):
            part.insert(position, name, value)
        labelled.append(part)
    return concat(labelled, ignore_index=True) if labelled else frame({})


def evaluations(records: Records) -> DataFrame:
    """A row an evaluation of the global model: time (s), version, accuracy, loss; of numbers also mae.

    accuracy: or what is measured instead, R^2 of numbers, say.
    """
    numeric = measure_of(records.facts.get("data")) == NUMBERS
    return _table({name: values for name, values in records.evaluations.items() if name != "mae" or numeric})


def visits(records: Records) -> DataFrame:
    """A row a visit, as in the records: times in seconds of the run's clock; NaN for a phase that was not reached."""
    return _table(records.visits)


def commits(records: Records) -> DataFrame:
    """A row a commit: version, time (s), staleness (commits since the base of what was committed)."""
    return _table(records.commits)


def clients(records: Records) -> DataFrame:
    """A row a client: examples it holds, visits done, their mean length (s, NaN without any), busy share of the run."""
    n_clients = int(records.facts["n_clients"])
    columns: dict[str, Any] = {"client": np.arange(n_clients)}
    if names := records.facts.get("client_names"):
        columns["name"] = names
    if histograms := records.facts.get("label_histograms"):
        columns["examples"] = np.asarray(histograms).sum(axis=1)
    columns["visits"] = participation(records)
    if records.has_rows:
        columns["mean_visit_s"] = visit_seconds(records)
    columns["busy_ratio"] = busy_ratios(records)
    return frame(columns)


def notes(records: Records) -> DataFrame:
    """What the strategy noted, in order: name, value."""
    return frame({"name": [name for name, _ in records.notes], "value": [value for _, value in records.notes]})


def _table(table: Table) -> DataFrame:
    made = frame(dict(table))
    for name in _MAY_BE_NULL & table.keys():
        made[name] = made[name].astype("Int64").mask(table[name] == -1)
    return made
