"""A run's records as pandas data frames. pandas is an optional extra, imported when a frame is made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fedtempo.errors import ConfigError
from fedtempo.record.client_measures import Kind
from fedtempo.record.measures import busy_ratios, participation
from fedtempo.record.metric import NUMBERS, measure_of
from fedtempo.record.run import Records, Table
from fedtempo.report.series import last_at_clients, visit_seconds

if TYPE_CHECKING:
    from pandas import DataFrame

_MAY_BE_NULL = frozenset({"group", "class"})
"""Whole-number columns that may be empty."""


def frame(columns: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> DataFrame:
    """Return a data frame of columns by name, or of rows. Raises ConfigError if pandas is not installed."""
    try:
        from pandas import DataFrame
    except ImportError as error:
        raise ConfigError(
            "pandas is not installed, and tables come as its frames: pip install 'fedtempo[pandas]' "
            "(a result's records hold the same as NumPy arrays)"
        ) from error
    return DataFrame(columns)


def joined(parts: Sequence[tuple[Mapping[str, Any], DataFrame]]) -> DataFrame:
    """Return frames stacked on top of each other, each with columns in front that identify it."""
    frame({})  # raises the error if pandas is missing
    from pandas import concat

    labelled = []
    for what, part in parts:
        for position, (name, value) in enumerate(what.items()):
            part.insert(position, name, value)
        labelled.append(part)
    return concat(labelled, ignore_index=True) if labelled else frame({})


def evaluations(records: Records) -> DataFrame:
    """Return one row per evaluation of the global model: time (s), version, accuracy, loss; for numbers also mae.

    accuracy: or the measure used instead, such as R^2 for numbers.
    """
    return _table(_without_mae(records, records.evaluations))


def visits(records: Records) -> DataFrame:
    """Return one row per visit, as recorded: times in seconds of the run's clock, NaN for phases not reached."""
    return _table(records.visits)


def commits(records: Records) -> DataFrame:
    """Return one row per commit: version, time (s), staleness (commits since the base of what was committed)."""
    return _table(records.commits)


def clients(records: Records) -> DataFrame:
    """Return one row per client: examples, completed visits, their mean length (s, NaN if none), busy ratio.

    With clients' own test sets also test_examples and the last test_accuracy of the global model, or own_test_accuracy
    of the client's own.
    """
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
    measured: dict[Kind, str] = {"clients": "test_accuracy", "own": "own_test_accuracy"}
    for kind, name in measured.items():
        last = last_at_clients(records, kind)
        if last["client"].size:
            columns.setdefault("test_examples", np.zeros(n_clients, np.int64))[last["client"]] = last["examples"]
            columns[name] = np.full(n_clients, np.nan)
            columns[name][last["client"]] = last["accuracy"]
    return frame(columns)


def client_evaluations(records: Records) -> DataFrame:
    """Return one row per evaluation on a client's own test set: time (s), version, model ("clients": the global one,
    "own": the client's own), client, examples, accuracy, loss; for numbers also mae."""
    return _table(_without_mae(records, records.further["client_evaluations"]))


def metrics(records: Records) -> DataFrame:
    """Return one row per evaluation and further measure: time (s), version, name, class (for one class), value."""
    return _table(records.further["metrics"])


def notes(records: Records) -> DataFrame:
    """Return the strategy's notes in order: name, value."""
    return frame({"name": [name for name, _ in records.notes], "value": [value for _, value in records.notes]})


def _without_mae(records: Records, table: Table) -> Table:
    """Return a table without the column "mae", unless the data are numbers."""
    numeric = measure_of(records.facts.get("data")) == NUMBERS
    return {name: values for name, values in table.items() if name != "mae" or numeric}


def _table(table: Table) -> DataFrame:
    result = frame(dict(table))
    for name in _MAY_BE_NULL & table.keys():
        result[name] = result[name].astype("Int64").mask(table[name] == -1)
    return result
