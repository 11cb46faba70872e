"""Which rows of tables train, test and validate, and whose they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fedtempo.data.held_out import held_out_rows, must_be_later
from fedtempo.data.leaks import find_leak, is_named_as_id
from fedtempo.data.splitting import both
from fedtempo.data.tabular.columns import instants
from fedtempo.data.tabular.dates import FloatArray
from fedtempo.data.tabular.file import BoolArray, TableFile
from fedtempo.data.tabular.labels import IntArray, TableLabels, check_trained, numbered, numbered_as
from fedtempo.data.tabular.roles import Roles
from fedtempo.errors import ConfigError
from fedtempo.parts.natural_order import listed


@dataclass(frozen=True, eq=False)
class Sides:
    """The sides of a split of the rows of all tables, which follow each other.

    is_train, is_test, is_held: which rows train, test and validate, (rows,). sizes: rows of each table. owners: the
    owner of each row by table, -1 if it owns no row of the first table, None if unknown; owner_names: by number.
    groups, times: of the rows of the first table, if they are known.
    """

    is_train: BoolArray
    is_test: BoolArray
    is_held: BoolArray
    sizes: Sequence[int]
    owners: Sequence[IntArray | None]
    owner_names: tuple[str, ...] = ()
    groups: IntArray | None = None
    times: FloatArray | None = None

    def owners_at(self, rows: IntArray) -> IntArray | None:
        """Return the owners of these rows, None if one is unknown."""
        found, start = np.empty(len(rows), dtype=np.int64), 0
        for owners, size in zip(self.owners, self.sizes):
            inside = (rows >= start) & (rows < start + size)
            if inside.any():
                if owners is None:
                    return None
                found[inside] = owners[rows[inside] - start]
            start += size
        return found

    def owners_of_all(self, tables: Sequence[TableFile]) -> IntArray:
        """Return the owners of all rows. Raises ConfigError if those of a table are unknown."""
        for owners, table in zip(self.owners, tables):
            if owners is None:
                raise ConfigError(
                    f"fit = 'client': {table.file} has no column that names the client of a row; set fit = 'all'"
                )
        return np.concatenate([owners for owners in self.owners if owners is not None])


def sides_of(
    tables: Sequence[TableFile],
    options: Sequence[str],
    roles: Roles,
    labels: TableLabels,
    test_share: float,
    form: str | None,
) -> Sides:
    """Return the sides of a split.

    options: those that name the tables after the first, "test" and "validation". test_share: of the rows of the first
    table to test on if there is no table of test rows. form: of dates. Raises ConfigError if the sides have groups or
    times in common, a client has nothing to train on, or another table has labels that training rows lack.
    """
    rows, others = tables[0], tables[1:]
    sizes = [len(part) for part in tables]
    client = roles.client
    owners, names = (None, ()) if client is None else numbered(rows, client)
    known = [owners, *(None if client is None else numbered_as(part, client, names) for part in others)]
    groups = None if roles.group is None else numbered(rows, roles.group)[0]
    times = None if roles.time is None else instants(rows, roles.time, form)
    table_of_row = np.repeat(np.arange(len(tables)), sizes)
    masks = {option: table_of_row == number for number, option in enumerate(options, 1)}
    if "test" not in masks:
        n = sizes[0]
        strata = labels.y[:n] if labels.class_names else np.zeros(n, dtype=np.int64)
        keys = [*([] if owners is None else [owners]), strata]
        held_out = held_out_rows(
            test_share, n, keys, owners, groups=groups, times=times, name_of=lambda number: names[number]
        )
        both(held_out, str(rows.file))
        if owners is not None:
            _check_clients_train(owners, names, held_out, rows.file)
        masks["test"] = np.zeros(sum(sizes), dtype=bool)
        masks["test"][:n] = held_out
    is_test, is_held = masks["test"], masks.get("validation", np.zeros(sum(sizes), dtype=bool))
    sides = Sides(~is_test & ~is_held, is_test, is_held, sizes, known, names, groups, times)
    for number, option in enumerate(options, 1):
        _check_apart(tables, number, sides, roles, form)
        if labels.class_names:
            train, other = (labels.y[mask] for mask in (sides.is_train, masks[option]))
            check_trained(tables[number].file, roles.label, labels, train, other)
    return sides


def _check_clients_train(owners: IntArray, names: Sequence[str], test: BoolArray, file: Path) -> None:
    """Raise ConfigError for a client whose rows are all test rows."""
    counts = np.bincount(owners[~test], minlength=len(names))
    if not counts.all():
        raise ConfigError(
            f"{file}: client {names[int(np.argmin(counts))]!r} has too few rows; lower test_share, or set test to a "
            "file of test rows"
        )


def _check_apart(tables: Sequence[TableFile], number: int, sides: Sides, roles: Roles, form: str | None) -> None:
    """Raise ConfigError if a table of test or validation rows has groups of the training rows, or earlier times.

    number: of the table. form: of dates.
    """
    rows, other = tables[0], tables[number]
    is_train = sides.is_train[: len(rows)]
    if roles.group is not None:
        numbers, names = numbered(rows, roles.group)
        trained = {names[number] for number in np.unique(numbers[is_train]).tolist()}
        shared = [value for value in numbered(other, roles.group)[1] if value in trained]
        if shared:
            raise ConfigError(
                f"group = {roles.group!r}: {rows.file} and {other.file} have {len(shared)} values in common: "
                f"{listed(shared)}"
            )
    if roles.time is not None and sides.times is not None:
        owners = sides.owners[0]
        trained_owners = None if owners is None else owners[is_train]
        later = instants(other, roles.time, form)
        where = f"time = {roles.time!r}: {other.file}"
        must_be_later(sides.times[is_train], later, trained_owners, sides.owners[number], where)


def leak_warning(
    tables: Sequence[TableFile], used: set[str | None], drop: Sequence[str], test: BoolArray
) -> str | None:
    """Return a warning if training and test rows share a person or the like; None if they do not.

    tables: those of training and of test rows; one if they are in one file. used: columns that are no identifiers.
    drop: columns that are left out. test: which rows are test rows.
    """
    columns = [
        name
        for name in tables[0].names
        if name not in used
        and (name in drop or is_named_as_id(name))
        and all(name in part.names and part.kind(name) in ("text", "whole") for part in tables)
        and sum(part.distinct(name) for part in tables) <= sum(map(len, tables))
    ]

    def side(tested: bool) -> Callable[[str], list[Any]]:
        def values(name: str) -> list[Any]:
            found, start = [], 0
            for part in tables:
                distinct, codes = part.encoded(name)
                chosen = codes[(test[start : start + len(part)] == tested) & (codes >= 0)]
                found += np.array(distinct, dtype=object)[chosen].tolist()
                start += len(part)
            return found

        return values

    leak = find_leak(columns, drop, side(tested=False), side(tested=True))
    if leak is None:
        return None
    if len(tables) == 1:
        return f"{leak}; set data.options.group = {leak.column!r} to keep each value on one side"
    return f"{leak}; split the rows into the two files by this column"
