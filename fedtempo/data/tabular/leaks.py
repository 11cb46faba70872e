"""Leaks between the training and the test rows of a table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fedtempo.data.leaks import find_leak, is_named_as_id
from fedtempo.data.splitting import BoolArray
from fedtempo.data.tabular.file import TableFile
from fedtempo.data.tabular.purposes import Purposes
from fedtempo.data.tabular.roles import Roles
from fedtempo.data.tabular.table_set import TableSet


def leak_of(tables: TableSet, roles: Roles, purposes: Purposes) -> str | None:
    """Return a warning if training and test rows share a person or the like; None if they do not."""
    tested = tables.all[: 1 + (tables.test is not None)]
    return _leak(tested, {roles.label, roles.client}, roles.dropped, purposes.test[: sum(map(len, tested))])


def _leak(tables: Sequence[TableFile], used: set[str | None], drop: Sequence[str], test: BoolArray) -> str | None:
    """Return the warning of `leak_of`. used: columns that are not looked at. test: mask of the test rows."""
    columns = [
        name
        for name in tables[0].names
        if name not in used
        and (name in drop or is_named_as_id(name))
        and all(name in part.names and part.kind(name) in ("text", "whole") for part in tables)
        and sum(part.distinct(name) for part in tables) <= len(test)
    ]

    def side(tested: bool) -> Callable[[str], list[Any]]:
        def values(name: str) -> list[Any]:
            found, start = [], 0
            for part in tables:
                distinct, codes, _ = part.encoded(name)
                chosen = codes[(test[start : start + len(part)] == tested) & (codes >= 0)]
                found += np.array(distinct, dtype=object)[chosen].tolist()
                start += len(part)
            return found

        return values

    leak = find_leak(columns, drop, side(tested=False), side(tested=True))
    if leak is None:
        return None
    if len(tables) == 1:
        return leak.with_remedy
    return f"{leak}; split the rows into the two files by this column"
