"""What the tables say about each row besides its features: its label, and its client, group and time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fedtempo.data.dataset import FloatArray, IntArray
from fedtempo.data.tabular.columns import instants
from fedtempo.data.tabular.labels import TableLabels, must_be_labelled, numbered, read_labels
from fedtempo.data.tabular.owners import Owners, owners_of
from fedtempo.data.tabular.roles import Roles
from fedtempo.data.tabular.table_set import TableSet
from fedtempo.data.tabular.windowed import WindowShape, windows_of
from fedtempo.data.windows import Windows, check_labels


@dataclass(frozen=True, eq=False)
class Rows:
    """Labels, windows and owners of the rows of all tables.

    windows: None if examples are single rows. groups, times: of the rows of the table of training rows, (rows,).
    """

    labels: TableLabels
    windows: Windows | None
    owners: Owners
    groups: IntArray | None
    times: FloatArray | None


def labels_of(tables: TableSet, roles: Roles, task: str | None, relabel: Mapping[str, str] | None) -> TableLabels:
    """Return the labels of all rows. Raises ConfigError if they are missing, secret or ambiguous."""
    for option, named in (("test", tables.test), ("validation", tables.validation)):
        if named is not None:
            must_be_labelled(tables.training, named, roles.label, option)
    return read_labels(tables.all, roles.label, task, relabel)


def read_rows(tables: TableSet, roles: Roles, labels: TableLabels, form: str | None, shape: WindowShape | None) -> Rows:
    """Return what the tables say about their rows. Raises ConfigError for a missing value. form: format of dates."""
    windows = None
    if shape is not None:
        check_labels(shape.horizon, roles.label, labels.class_names)
        windows = windows_of(tables.all, roles.client, str(roles.time), form, shape)
    owners = owners_of(tables, roles.client)
    groups = None if roles.group is None else numbered(tables.training, roles.group)[0]
    times = None if roles.time is None else instants(tables.training, roles.time, form)
    return Rows(labels, windows, owners, groups, times)
