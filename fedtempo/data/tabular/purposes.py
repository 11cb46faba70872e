"""Which rows of the tables are for training, for testing and for validation, so that nothing leaks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fedtempo.data.dataset import FloatArray, IntArray
from fedtempo.data.held_out import held_out_rows, must_be_later
from fedtempo.data.splitting import BoolArray, Shuffled, both
from fedtempo.data.tabular.columns import instants
from fedtempo.data.tabular.file import TableFile
from fedtempo.data.tabular.labels import check_trained, numbered
from fedtempo.data.tabular.roles import Roles
from fedtempo.data.tabular.rows import Rows
from fedtempo.data.tabular.table_set import TableSet
from fedtempo.errors import ConfigError
from fedtempo.parts.natural_order import listed


class Purposes(NamedTuple):
    """What the rows of all tables are for: masks (rows,) of which one is true for each row."""

    training: BoolArray
    test: BoolArray
    validation: BoolArray


def purposes_of(tables: TableSet, rows: Rows, test_share: float, begin: Shuffled | None = None) -> Purposes:
    """Return what rows are for; without a file of test rows, test_share of the table of training rows is tested on.

    begin: `shuffled` of these rows, if it is known already. Raises ConfigError if that leaves no row for training or
    testing, or none for training of a client.
    """
    n, size = len(tables.training), len(rows.labels.y)
    is_test = np.zeros(size, dtype=bool)
    if tables.test is None:
        is_test[:n] = _held_out(tables.training, rows, test_share, begin)
    else:
        is_test[n : n + len(tables.test)] = True
    is_held = np.arange(size) >= size - (0 if tables.validation is None else len(tables.validation))
    return Purposes(~is_test & ~is_held, is_test, is_held)


def _held_out(table: TableFile, rows: Rows, test_share: float, begin: Shuffled | None) -> BoolArray:
    """Return a mask of the rows of the table of training rows to test on."""
    n, owners = len(table), rows.owners
    strata = rows.labels.y[:n] if rows.labels.class_names else np.zeros(n, dtype=np.int64)
    keys = [*([] if owners.training is None else [owners.training]), strata]
    by_name = owners.names.__getitem__
    held = held_out_rows(
        test_share, n, keys, owners.training, groups=rows.groups, times=rows.times, name_of=by_name, begin=begin
    )
    both(held, str(table.file), test_share)
    if owners.training is not None:
        _check_clients_train(owners.training, owners.names, held, table.file)
    return held


def check_purposes(tables: TableSet, roles: Roles, rows: Rows, purposes: Purposes, form: str | None) -> None:
    """Raise ConfigError if a file of test or validation rows does not fit the training rows.

    It must not have their groups, times before the end of theirs, or classes that they lack. form: format of dates.
    """
    labels, is_train = rows.labels, purposes.training
    time = None if rows.times is None else (str(roles.time), rows.times, form)
    for part, whose in zip(tables.others, rows.owners.others):
        _check_apart(
            tables.training, part, is_train[: len(tables.training)], roles.group, time, rows.owners.training, whose
        )
    masks = [
        *([] if tables.test is None else [purposes.test]),
        *([] if tables.validation is None else [purposes.validation]),
    ]
    for part, mask in zip(tables.others, masks):
        if labels.class_names:
            check_trained(part.file, roles.label, labels, labels.y[is_train], labels.y[mask])


def _check_clients_train(owners: IntArray, names: Sequence[str], test: BoolArray, file: Path) -> None:
    """Raise ConfigError for a client whose rows are all test rows."""
    counts = np.bincount(owners[~test], minlength=len(names))
    if not counts.all():
        raise ConfigError(
            f"{file}: client {names[int(np.argmin(counts))]!r} has too few rows; lower test_share, or set test to a "
            "file of test rows"
        )


def _check_apart(
    rows: TableFile,
    other: TableFile,
    is_train: BoolArray,
    group: str | None,
    time: tuple[str, FloatArray, str | None] | None,
    owners: IntArray | None,
    other_owners: IntArray | None,
) -> None:
    """Raise ConfigError if a file of test or validation rows has groups of the training rows, or earlier times.

    time: name and values of the column of times, and the format of dates. owners: of the rows; other_owners: of those
    of the other file, if known.
    """
    if group is not None:
        numbers, names = numbered(rows, group)
        trained = {names[number] for number in np.unique(numbers[is_train]).tolist()}
        shared = [value for value in numbered(other, group)[1] if value in trained]
        if shared:
            raise ConfigError(
                f"group = {group!r}: {rows.file} and {other.file} have {len(shared)} values in common: {listed(shared)}"
            )
    if time is not None:
        name, times, form = time
        trained_owners = None if owners is None else owners[is_train]
        later = instants(other, name, form)
        must_be_later(times[is_train], later, trained_owners, other_owners, f"time = {name!r}: {other.file}")
